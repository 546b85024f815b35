//! Missing vectors: while tools are embedded, and after a server was added, only a part of the catalog has a
//! cosine.
//!
//! A fitting tool with a vector gets a z-score of 3 to 4; a tool without one loses against it if its own
//! counts as average. Its cosine is estimated from its words instead, and the arm weighs as much as it knows.
//! Figures for each share of embedded tools (`vmcp eval --partial`): `docs/contributor/search-quality.md`.

/// Fewest known cosines from which others are estimated; a line through fewer points says nothing.
const MIN_KNOWN: usize = 6;

/// Returns the cosine's weight when only some documents have one: `ratio` times their share. A ratio of 1
/// stays, because the caller wants no words.
pub(crate) fn known_weight(ratio: f32, cosine: &[Option<f32>]) -> f32 {
    let known = cosine.iter().flatten().count();
    if ratio >= 1.0 || known == cosine.len() { ratio } else { ratio * known as f32 / cosine.len() as f32 }
}

/// Estimates the normalized cosine of documents that have none from the normalized keyword score, by the
/// least-squares line through the documents that have both.
pub(crate) fn estimate(cosine: &[Option<f32>], cosine_normalized: &mut [f32], keywords: &[f32]) {
    let known = cosine.iter().flatten().count();
    if known == cosine.len() || known < MIN_KNOWN {
        return;
    }
    let Some((intercept, slope)) = line(cosine, cosine_normalized, keywords) else { return };
    let missing =
        cosine.iter().zip(cosine_normalized).zip(keywords).filter(|((known, _), _)| known.is_none());
    for ((_, estimated), keywords) in missing {
        *estimated = (intercept + slope * f64::from(*keywords)) as f32;
    }
}

/// Returns intercept and slope of the least-squares line; `None` if all keyword scores are equal.
fn line(cosine: &[Option<f32>], cosine_normalized: &[f32], keywords: &[f32]) -> Option<(f64, f64)> {
    let points = || {
        let both = cosine.iter().zip(keywords).zip(cosine_normalized);
        both.filter(|((known, _), _)| known.is_some()).map(|((_, x), y)| (f64::from(*x), f64::from(*y)))
    };
    let count = points().count().max(1) as f64;
    let mean_x = points().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points().map(|(_, y)| y).sum::<f64>() / count;
    let spread = points().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>();
    if spread <= f64::from(f32::EPSILON) {
        return None;
    }
    let slope = points().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>() / spread;
    Some((mean_y - slope * mean_x, slope))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arm_weighs_as_much_as_it_knows() {
        for (ratio, known, expected) in [(0.6, 4, 0.6), (0.6, 2, 0.3), (0.6, 0, 0.0), (1.0, 1, 1.0)] {
            let cosine: Vec<_> = (0..4).map(|at| (at < known).then_some(0.5)).collect();
            let weight = known_weight(ratio, &cosine);
            assert!((weight - expected).abs() < 1e-6, "{ratio} with {known} of 4: {weight}");
        }
    }

    fn is_near(values: &[f32], expected: &[f32]) -> bool {
        values.len() == expected.len() && values.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4)
    }

    #[test]
    fn a_missing_cosine_is_estimated_from_the_words() {
        let keywords = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 0.0];
        let mut cosine = [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 0.0, 0.0].map(Some);
        let mut normalized = cosine.map(Option::unwrap_or_default);
        let before = normalized;
        estimate(&cosine, &mut normalized, &keywords);
        assert!(is_near(&normalized, &before), "nothing is missing: {normalized:?}");
        (cosine[6], cosine[7]) = (None, None);
        estimate(&cosine, &mut normalized, &keywords);
        let on_the_line = [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 21.0, 1.0];
        assert!(is_near(&normalized, &on_the_line), "1 + 2 x: {normalized:?}");
    }

    #[test]
    fn too_few_points_and_equal_words_leave_the_mean() {
        let few: [Option<f32>; 8] = std::array::from_fn(|at| (at < MIN_KNOWN - 1).then_some(at as f32));
        let many: [Option<f32>; 8] = std::array::from_fn(|at| (at < MIN_KNOWN).then_some(at as f32));
        let mut normalized = [0.0; 8];
        estimate(&few, &mut normalized, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        estimate(&many, &mut normalized, &[1.0; 8]);
        estimate(&[], &mut [], &[]);
        assert!(is_near(&normalized, &[0.0; 8]), "{normalized:?}");
    }
}
