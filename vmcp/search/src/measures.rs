//! Measures of retrieval quality, for `vmcp eval`: recall, completeness, mean reciprocal rank and NDCG.
//!
//! A query needs one or more tools. Each need is a *group* of interchangeable tools; the first hit that is in
//! a group satisfies it. With `r_g` the rank, from 1, at which group `g` of `G` is satisfied:
//!
//! ```text
//! recall@k   = |{g : r_g ≤ k}| / G
//! complete@k = 1 if recall@k = 1, else 0
//! MRR        = 1 / min r_g, 0 if nothing is satisfied
//! NDCG@k     = Σ_{g : r_g ≤ k} 1 / log2(1 + r_g)  /  Σ_{i = 1..min(G, k)} 1 / log2(1 + i)
//! ```
//!
//! So a second member of a satisfied group gains nothing. NDCG is cut at 1, which a hit that is in several
//! groups at once could exceed.
//!
//! ```
//! use vmcp_search::measures::Judgment;
//!
//! let needs = [vec!["get_issue", "read_issue"], vec!["send_mail"]];
//! let judgment = Judgment::new(&["read_issue", "list_users", "send_mail"], &needs);
//! assert_eq!((judgment.recall(1), judgment.recall(3)), (0.5, 1.0));
//! assert_eq!(judgment.reciprocal_rank(), 1.0);
//! ```

pub mod search_log;

/// The rank at which each group of one query was satisfied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgment {
    ranks: Vec<Option<usize>>,
}

impl Judgment {
    /// Judges a ranking, best first, by the query's groups. A group without members does not
    /// count.
    pub fn new<T: PartialEq>(ranking: &[T], groups: &[Vec<T>]) -> Judgment {
        let rank =
            |group: &Vec<T>| ranking.iter().position(|hit| group.contains(hit)).map(|position| position + 1);
        Judgment { ranks: groups.iter().filter(|group| !group.is_empty()).map(rank).collect() }
    }

    fn satisfied(&self, k: usize) -> impl Iterator<Item = usize> {
        self.ranks.iter().flatten().copied().filter(move |rank| *rank <= k)
    }

    /// Returns the share of the groups that the first `k` hits satisfy; 0 without groups.
    pub fn recall(&self, k: usize) -> f64 {
        self.satisfied(k).count() as f64 / self.ranks.len().max(1) as f64
    }

    /// True if the first `k` hits satisfy every group.
    pub fn complete(&self, k: usize) -> bool {
        !self.ranks.is_empty() && self.satisfied(k).count() == self.ranks.len()
    }

    /// Returns the reciprocal of the rank of the first hit that satisfies a group, 0 if none does.
    pub fn reciprocal_rank(&self) -> f64 {
        self.satisfied(usize::MAX).min().map_or(0.0, |rank| 1.0 / rank as f64)
    }

    /// Returns the normalized discounted cumulative gain (NDCG) of the first `k` hits.
    pub fn ndcg(&self, k: usize) -> f64 {
        let discount = |rank: usize| 1.0 / (1.0 + rank as f64).log2();
        let ideal: f64 = (1..=self.ranks.len().min(k)).map(discount).sum();
        if ideal > 0.0 { (self.satisfied(k).map(discount).sum::<f64>() / ideal).min(1.0) } else { 0.0 }
    }
}

/// Returns the arithmetic mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Resamples of a bootstrap. Two runs with other seeds differ by about a hundredth of the interval.
const RESAMPLES: usize = 2000;
/// Seed of the bootstrap: equal differences give equal intervals.
const SEED: u64 = 20_25;

/// Returns the bounds of the 95 % confidence interval of the mean of paired differences, by the percentile
/// bootstrap; both are the mean for fewer than two.
pub fn paired_interval(differences: &[f64]) -> (f64, f64) {
    let mean_of_all = mean(differences);
    if differences.len() < 2 {
        return (mean_of_all, mean_of_all);
    }
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut resampled = || {
        let drawn = (0..differences.len()).filter_map(|_| differences.get(random.usize(..differences.len())));
        drawn.sum::<f64>() / differences.len() as f64
    };
    let means: Vec<f64> = (0..RESAMPLES).map(|_| resampled()).collect();
    let bound = |percent| percentile(&means, percent).unwrap_or(mean_of_all);
    (bound(2.5), bound(97.5))
}

/// Returns the value that `percent` of all values do not exceed (nearest rank); `None` of nothing.
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (percent.clamp(0.0, 100.0) / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn the_first_member_of_a_group_satisfies_it() {
        let judgment = Judgment::new(&["x", "b", "a", "c"], &[vec!["a", "b"], vec!["c"], vec!["d"]]);
        assert_eq!(judgment.ranks, [Some(2), Some(4), None]);
        assert!(close(judgment.recall(1), 0.0));
        assert!(close(judgment.recall(3), 1.0 / 3.0));
        assert!(close(judgment.recall(8), 2.0 / 3.0));
        assert!(close(judgment.reciprocal_rank(), 0.5));
        assert!(!judgment.complete(8));
    }

    #[test]
    fn ndcg_is_the_hand_computed_one() {
        let judgment = Judgment::new(&["x", "a", "c"], &[vec!["a"], vec!["c"]]);
        // (1/log2 3 + 1/log2 4) / (1/log2 2 + 1/log2 3) = 1.1309297536 / 1.6309297536
        assert!(close(judgment.ndcg(10), 1.130_929_753_571_457_4 / 1.630_929_753_571_457_4));
        assert!(judgment.complete(3) && !judgment.complete(2));
        // Within the first two hits: (1/log2 3) / 1.6309297536.
        assert!(close(judgment.ndcg(2), 0.630_929_753_571_457_4 / 1.630_929_753_571_457_4));
    }

    #[test]
    fn a_perfect_ranking_has_one_everywhere() {
        let judgment = Judgment::new(&[1, 2], &[vec![1], vec![2]]);
        assert!(close(judgment.ndcg(10), 1.0) && close(judgment.recall(2), 1.0) && judgment.complete(2));
        let shared = Judgment::new(&[1], &[vec![1], vec![1, 2]]);
        assert!(close(shared.ndcg(10), 1.0), "cut at 1");
    }

    #[test]
    fn no_needs_and_no_hits_are_zero() {
        for judgment in
            [Judgment::new(&[1], &[]), Judgment::new(&[], &[vec![1]]), Judgment::new(&[1], &[vec![]])]
        {
            assert!(close(judgment.recall(8), 0.0) && close(judgment.ndcg(10), 0.0) && !judgment.complete(8));
            assert!(close(judgment.reciprocal_rank(), 0.0));
        }
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(percentile(&values, 50.0), Some(2.0));
        assert_eq!(percentile(&values, 99.0), Some(4.0));
        assert_eq!(percentile(&values, 0.0), Some(1.0));
        assert_eq!(percentile(&[], 50.0), None);
        assert!(close(mean(&values), 2.5) && close(mean(&[]), 0.0));
    }

    #[test]
    fn the_interval_narrows_with_the_number_of_differences() {
        let (low, high) = paired_interval(&[0.0, 1.0, 0.0, 1.0]);
        assert!(close(low, 0.0) && close(high, 1.0), "{low} {high}");
        let (narrow, _) = paired_interval(&[0.0, 1.0].repeat(50));
        // The normal approximation has 0.5 ± 0.098.
        assert!((narrow - 0.402).abs() < 0.02, "{narrow}");
        assert_eq!(paired_interval(&[0.0, 1.0]), paired_interval(&[0.0, 1.0]), "it is reproducible");
        assert_eq!((paired_interval(&[]), paired_interval(&[0.5])), ((0.0, 0.0), (0.5, 0.5)));
    }
}
