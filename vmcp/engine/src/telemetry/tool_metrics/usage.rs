//! Usage over days, as the console shows it: calls and searches of each day, days without any included, and
//! the most called tools.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use vmcp_store::{DayCalls, SearchDay, StateStore, StoreError, ToolCalls};

use super::history::{DAY, HistoryQuery, date, every_day};
use crate::random::now_ms;

/// Calls and searches over days.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageReport {
    /// One entry for each day, newest first.
    pub days: Vec<UsageDay>,
    /// The most called tools, at most as many as the query's limit.
    pub tools: Vec<UsageTool>,
}

/// Calls and searches of one day.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageDay {
    /// The day (UTC), such as `2026-11-27`.
    pub day: String,
    /// Calls.
    pub calls: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Mean latency in milliseconds; `None` on a day that had no call.
    pub avg_latency_ms: Option<f64>,
    /// Searches.
    pub searches: u64,
    /// Searches that found no tool.
    pub without_result: u64,
    /// Searches after which no found tool was called.
    pub without_call: u64,
    /// Tokens that the answers of searches cost less than the definitions of all tools.
    pub tokens_saved: u64,
}

/// Calls of one tool on all these days.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageTool {
    /// The backend's name.
    pub server: String,
    /// The tool's own name at its backend.
    pub tool: String,
    /// Calls.
    pub calls: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Mean latency in milliseconds.
    pub avg_latency_ms: f64,
}

impl HistoryQuery {
    /// Reads the usage of the chosen days. The choice of a backend or a tool leaves searches as they are:
    /// they are of all tools.
    pub fn usage(&self, store: &StateStore) -> Result<UsageReport, StoreError> {
        let now = now_ms();
        let wanted = self.wanted(now);
        let by_day = every_day(wanted);
        let calls = store.calls_by_day(by_day)?;
        let searches = store.search_days(by_day.since, by_day.limit)?;
        let tools = store.calls_by_tool(wanted)?;
        Ok(UsageReport {
            days: days(now, wanted.since, calls, searches),
            tools: tools.into_iter().map(UsageTool::from).collect(),
        })
    }
}

impl UsageReport {
    /// Adds the report of another replica about the same days. A day that this report lacks is left out:
    /// the clocks of two replicas pass midnight one after the other.
    pub(crate) fn add(&mut self, other: UsageReport) {
        let mut days: HashMap<String, UsageDay> =
            other.days.into_iter().map(|day| (day.day.clone(), day)).collect();
        for day in &mut self.days {
            if let Some(more) = days.remove(&day.day) {
                day.add(&more);
            }
        }
        let mut tools: BTreeMap<(String, String), UsageTool> = BTreeMap::new();
        for more in std::mem::take(&mut self.tools).into_iter().chain(other.tools) {
            match tools.entry((more.server.clone(), more.tool.clone())) {
                Entry::Vacant(place) => {
                    place.insert(more);
                }
                Entry::Occupied(mut place) => place.get_mut().add(&more),
            }
        }
        self.tools = tools.into_values().collect();
        // Stable: of two with as many calls, the one with the lesser name comes first.
        self.tools.sort_by_key(|tool| std::cmp::Reverse(tool.calls));
    }
}

impl UsageDay {
    fn add(&mut self, more: &UsageDay) {
        self.avg_latency_ms = match (self.avg_latency_ms, more.avg_latency_ms) {
            (Some(own), Some(other)) => Some(mean((own, self.calls), (other, more.calls))),
            (own, other) => own.or(other),
        };
        for (sum, summand) in [
            (&mut self.calls, more.calls),
            (&mut self.failures, more.failures),
            (&mut self.searches, more.searches),
            (&mut self.without_result, more.without_result),
            (&mut self.without_call, more.without_call),
            (&mut self.tokens_saved, more.tokens_saved),
        ] {
            *sum = sum.saturating_add(summand);
        }
    }
}

impl UsageTool {
    fn add(&mut self, more: &UsageTool) {
        self.avg_latency_ms = mean((self.avg_latency_ms, self.calls), (more.avg_latency_ms, more.calls));
        self.calls = self.calls.saturating_add(more.calls);
        self.failures = self.failures.saturating_add(more.failures);
    }
}

/// Returns the mean of two means, each weighted by its number of calls.
fn mean(one: (f64, u64), other: (f64, u64)) -> f64 {
    let ((one, calls), (other, more)) = (one, other);
    let all = calls.saturating_add(more);
    if all == 0 { one } else { (one * calls as f64 + other * more as f64) / all as f64 }
}

/// Joins calls and searches by day, from today back to `since`.
fn days(now: i64, since: i64, calls: Vec<DayCalls>, searches: Vec<SearchDay>) -> Vec<UsageDay> {
    let mut calls: BTreeMap<i64, DayCalls> = calls.into_iter().map(|day| (day.day, day)).collect();
    let mut searches: BTreeMap<i64, SearchDay> = searches.into_iter().map(|day| (day.day, day)).collect();
    let today = now - now.rem_euclid(DAY);
    let begins = (0..=(today - since) / DAY).map(|age| today - age * DAY);
    begins
        .map(|begin| {
            let calls = calls.remove(&begin);
            let searches = searches.remove(&begin).unwrap_or_default();
            UsageDay {
                day: date(begin),
                calls: calls.as_ref().map_or(0, |day| day.calls),
                failures: calls.as_ref().map_or(0, |day| day.failures),
                avg_latency_ms: calls.map(|day| day.avg_latency_ms),
                searches: searches.searches,
                without_result: searches.without_result,
                without_call: searches.without_call,
                tokens_saved: searches.tokens_saved,
            }
        })
        .collect()
}

impl From<ToolCalls> for UsageTool {
    fn from(tool: ToolCalls) -> Self {
        let ToolCalls { backend, tool, calls, failures, avg_latency_ms } = tool;
        UsageTool { server: backend, tool, calls, failures, avg_latency_ms }
    }
}

#[cfg(test)]
mod tests {
    use vmcp_store::CallFact;

    use super::*;

    #[test]
    fn every_day_has_an_entry_and_searches_stand_beside_calls() {
        let store = StateStore::in_memory().unwrap();
        let today = now_ms() - now_ms().rem_euclid(DAY);
        let call = |at| CallFact { at, succeeded: false, latency_ms: 3.0, outcome: "timeout", error: None };
        store.record_calls(&[("s", "t", &[call(today), call(today - 2 * DAY)][..])]).unwrap();
        let search = SearchDay { day: today - DAY, searches: 2, tokens_saved: 70, ..SearchDay::default() };
        store.add_search_days(&[search]).unwrap();
        let of =
            |days, limit| HistoryQuery { days: Some(days), limit: Some(limit), ..HistoryQuery::default() };
        let usage = of(3, 1).usage(&store).unwrap();
        let counts: Vec<_> = usage.days.iter().map(|it| (it.calls, it.failures, it.searches)).collect();
        assert_eq!(counts, [(1, 1, 0), (0, 0, 2), (1, 1, 0)], "newest first; the limit is one of tools");
        assert_eq!((usage.days[1].tokens_saved, usage.days[1].avg_latency_ms), (70, None));
        assert_eq!(usage.days[0].day, date(today));
        assert_eq!((&*usage.tools[0].tool, usage.tools[0].calls), ("t", 2));
        let of_other = HistoryQuery { server: Some("other".to_owned()), ..of(3, 1) }.usage(&store).unwrap();
        assert_eq!((of_other.days[0].calls, of_other.tools.len()), (0, 0));
        assert_eq!(of_other.days[1].searches, 2);
    }

    #[test]
    fn the_usage_of_two_replicas_is_summed_by_day_and_tool() {
        let day = |day: &str, calls, latency, searches| UsageDay {
            day: day.to_owned(),
            calls,
            failures: 1,
            avg_latency_ms: latency,
            searches,
            tokens_saved: 10 * searches,
            ..UsageDay::default()
        };
        let tool = |tool: &str, calls, avg_latency_ms| UsageTool {
            server: "s".to_owned(),
            tool: tool.to_owned(),
            calls,
            failures: 1,
            avg_latency_ms,
        };
        let mut sums = UsageReport {
            days: vec![day("2026-11-27", 3, Some(2.0), 1), day("2026-11-26", 0, None, 0)],
            tools: vec![tool("a", 3, 2.0), tool("b", 1, 4.0)],
        };
        sums.add(UsageReport {
            days: vec![
                day("2026-11-28", 9, Some(1.0), 9),
                day("2026-11-27", 1, Some(6.0), 2),
                day("2026-11-26", 5, Some(7.0), 0),
            ],
            tools: vec![tool("b", 5, 10.0), tool("c", 2, 1.0)],
        });
        let days: Vec<_> = sums
            .days
            .iter()
            .map(|it| (&*it.day, it.calls, it.failures, it.searches, it.tokens_saved))
            .collect();
        assert_eq!(days, [("2026-11-27", 4, 2, 3, 30), ("2026-11-26", 5, 2, 0, 0)]);
        let latencies: Vec<_> = sums.days.iter().map(|it| it.avg_latency_ms).collect();
        assert_eq!(latencies, [Some(3.0), Some(7.0)], "weighted by calls");
        let tools: Vec<_> =
            sums.tools.iter().map(|it| (&*it.tool, it.calls, it.failures, it.avg_latency_ms)).collect();
        assert_eq!(tools, [("b", 6, 2, 9.0), ("a", 3, 1, 2.0), ("c", 2, 1, 1.0)], "the most called first");
        assert_eq!(
            serde_json::from_str::<UsageReport>(&serde_json::to_string(&sums).unwrap()).unwrap(),
            sums
        );
    }
}
