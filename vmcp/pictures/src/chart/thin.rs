//! Fewer points with the same picture.

/// Keeps of each column of pixels the first, the lowest, the highest and the last point of a line. Points are
/// pixels, ordered by x.
pub(super) fn line(points: Vec<(f64, f64)>, width: f64) -> Vec<(f64, f64)> {
    if points.len() as f64 <= width * 4.0 {
        return points;
    }
    let mut kept = Vec::new();
    for column in points.chunk_by(|one, other| one.0.floor().total_cmp(&other.0.floor()).is_eq()) {
        let by_y = |one: &(usize, &(f64, f64)), other: &(usize, &(f64, f64))| one.1.1.total_cmp(&other.1.1);
        let place = |it: Option<(usize, &(f64, f64))>| it.map_or(0, |(place, _)| place);
        let numbered = || column.iter().enumerate();
        let mut places = [
            0,
            place(numbered().min_by(by_y)),
            place(numbered().max_by(by_y)),
            column.len().saturating_sub(1),
        ];
        places.sort_unstable();
        let mut last = None;
        for place in places {
            if last != Some(place) {
                kept.extend(column.get(place));
            }
            last = Some(place);
        }
    }
    kept
}

/// Keeps one dot of those in a square of two pixels, and at most `most`, evenly chosen.
pub(super) fn dots(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    let mut seen = std::collections::HashSet::new();
    let square = |(x, y): &(f64, f64)| ((x / 2.0).floor() as i64, (y / 2.0).floor() as i64);
    let kept: Vec<(f64, f64)> = points.iter().filter(|point| seen.insert(square(point))).copied().collect();
    let every = kept.len().div_ceil(most.max(1)).max(1);
    kept.into_iter().step_by(every).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_survive() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|n| (f64::from(n) / 1000.0, 5.0)).collect();
        points[31_415].1 = 99.0;
        points[50_000].1 = -99.0;
        let thin = line(points.clone(), 100.0);
        assert!(thin.len() <= 400, "{}", thin.len());
        assert!(thin.contains(&points[31_415]) && thin.contains(&points[50_000]));
        assert!(thin.is_sorted_by(|one, other| one.0 <= other.0));
        assert_eq!(line(points[..50].to_vec(), 100.0).len(), 50);
    }

    #[test]
    fn dots_on_each_other_are_one() {
        assert_eq!(dots(&[(1.0, 1.0), (1.5, 1.2), (9.0, 9.0)], 10), [(1.0, 1.0), (9.0, 9.0)]);
        let many: Vec<(f64, f64)> = (0..1000).map(|n| (f64::from(n) * 3.0, 0.0)).collect();
        assert_eq!(dots(&many, 100).len(), 100);
    }
}
