//! Dependencies of steps: circles, and references of steps to each other.

use std::collections::BTreeSet;

/// Returns a circle of dependencies, from a step back to itself; `None` without one.
pub(super) fn circle(after: &[BTreeSet<usize>]) -> Option<Vec<usize>> {
    // Removes steps whose dependencies are all removed (Kahn); what is left holds a circle.
    let mut left: BTreeSet<usize> = (0..after.len()).collect();
    loop {
        let free: Vec<usize> = left
            .iter()
            .copied()
            .filter(|step| after.get(*step).is_none_or(|after| after.is_disjoint(&left)))
            .collect();
        if free.is_empty() {
            break;
        }
        left.retain(|step| !free.contains(step));
    }
    // Each step that is left depends on another that is left: following them returns to a step already seen.
    let mut way = vec![*left.first()?];
    loop {
        let at = *way.last()?;
        let next = after.get(at)?.iter().copied().find(|step| left.contains(step))?;
        if let Some(begin) = way.iter().position(|step| *step == next) {
            let mut circle = way.split_off(begin);
            circle.push(next);
            return Some(circle);
        }
        way.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found() {
        let graph =
            |edges: &[&[usize]]| edges.iter().map(|it| it.iter().copied().collect()).collect::<Vec<_>>();
        assert_eq!(circle(&graph(&[&[], &[0], &[0], &[1, 2]])), None);
        assert_eq!(circle(&graph(&[&[0]])), Some(vec![0, 0]));
        assert_eq!(circle(&graph(&[&[3], &[0], &[1], &[2, 1]])), Some(vec![0, 3, 1, 0]));
        assert_eq!(circle(&[]), None);
    }
}
