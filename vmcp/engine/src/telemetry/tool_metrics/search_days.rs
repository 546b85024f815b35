//! [`SearchDays`]: counts of searches that wait to be added to the sums of their days.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use vmcp_store::SearchDay;

/// Milliseconds of a day (UTC).
const DAY: i64 = 24 * 60 * 60 * 1000;

/// Counts of searches by the begin of their day: one entry for each day that was not written yet.
#[derive(Debug, Default)]
pub(crate) struct SearchDays(Mutex<BTreeMap<i64, SearchDay>>);

impl SearchDays {
    /// Adds counts; `counts.day` is any time of the day.
    pub(crate) fn add(&self, counts: SearchDay) {
        let day = counts.day - counts.day.rem_euclid(DAY);
        let mut days = self.0.lock();
        let sums = days.entry(day).or_insert(SearchDay { day, ..SearchDay::default() });
        sums.searches += counts.searches;
        sums.without_result += counts.without_result;
        sums.without_call += counts.without_call;
        sums.tokens_saved = sums.tokens_saved.saturating_add(counts.tokens_saved);
    }

    /// Takes all counts out.
    pub(super) fn take(&self) -> Vec<SearchDay> {
        std::mem::take(&mut *self.0.lock()).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_wait_by_day_until_they_are_taken() {
        let days = SearchDays::default();
        let search = |day, tokens_saved| SearchDay { day, searches: 1, tokens_saved, ..SearchDay::default() };
        days.add(search(DAY + 1, 10));
        days.add(search(2 * DAY - 1, u64::MAX));
        days.add(SearchDay { day: 2 * DAY, without_call: 3, ..SearchDay::default() });
        let taken = days.take();
        let counts: Vec<_> = taken.iter().map(|it| (it.day, it.searches, it.without_call)).collect();
        assert_eq!(counts, [(DAY, 2, 0), (2 * DAY, 0, 3)]);
        assert_eq!(taken[0].tokens_saved, u64::MAX, "no sum wraps around");
        assert!(days.take().is_empty());
    }
}
