//! [`KnownReplicas`]: the counts of other replicas, by replica; the counts of a departed replica stay for a
//! day.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use vmcp_store::ToolMetrics;

use super::report::{DepartedReplica, ReplicaReport};
use crate::telemetry::tool_metrics::{Filter, MetricsBook};

/// Milliseconds for which the counts of a replica that is gone stay: a day.
const DEPARTED_LIFETIME: i64 = 24 * 60 * 60 * 1000;
/// Most departed replicas whose counts are kept; beyond it the earliest departed is forgotten.
const MAX_DEPARTED: usize = 64;

/// The counts of other replicas. Immutable and swapped whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct KnownReplicas {
    /// By id.
    replicas: BTreeMap<String, Counts>,
    /// Addresses and names that gave no report.
    unreachable: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Counts {
    tools: Vec<ToolMetrics>,
    /// Time of the last report, in milliseconds, once the replica is gone; `None`: it is there.
    departed_at: Option<i64>,
}

/// The number of replicas whose counts are summed, and the unreachable replicas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Census {
    /// Replicas that answer, this one included.
    pub replicas: usize,
    /// Addresses and names that gave no report.
    pub unreachable: Vec<String>,
}

impl KnownReplicas {
    /// True if no other replica is known.
    pub(super) fn is_empty(&self) -> bool {
        self.replicas.is_empty() && self.unreachable.is_empty()
    }

    pub(super) fn census(&self) -> Census {
        let present = self.replicas.values().filter(|counts| counts.departed_at.is_none()).count();
        Census { replicas: present + 1, unreachable: self.unreachable.clone() }
    }

    /// True if a round with these unchanged reports, of all replicas that answered, would change nothing.
    pub(super) fn is_of(&self, reports: &[Arc<ReplicaReport>], unreachable: &[String]) -> bool {
        let is_present =
            |id: &String| self.replicas.get(id).is_some_and(|counts| counts.departed_at.is_none());
        self.unreachable == unreachable
            && self.replicas.len() == reports.len()
            && reports.iter().all(|report| is_present(&report.replica) && report.departed.is_empty())
    }

    /// True if reports about replicas that are gone would be equal.
    pub(super) fn has_same_departed(&self, other: &KnownReplicas) -> bool {
        self.departed().eq(other.departed())
    }

    /// Returns the replicas that are gone, with the time of their last report.
    fn departed(&self) -> impl Iterator<Item = (&String, i64, &[ToolMetrics])> {
        self.replicas
            .iter()
            .filter_map(|(replica, counts)| Some((replica, counts.departed_at?, counts.tools.as_slice())))
    }

    /// Returns the known counts after a round: the reports of replicas that answered; for the others their
    /// last own report, or the last one relayed by another replica.
    pub(super) fn after_round(
        &self,
        reports: Vec<ReplicaReport>,
        unreachable: Vec<String>,
        own_id: &str,
        now: i64,
    ) -> KnownReplicas {
        let mut replicas = BTreeMap::new();
        let mut heard = Vec::new();
        for ReplicaReport { replica, tools, departed, .. } in reports {
            replicas.insert(replica, Counts { tools, departed_at: None });
            heard.extend(departed);
        }
        let before = self.replicas.iter().map(|(replica, counts)| DepartedReplica {
            replica: replica.clone(),
            at: counts.departed_at.unwrap_or(now),
            tools: counts.tools.clone(),
        });
        let mut departed: BTreeMap<String, DepartedReplica> = BTreeMap::new();
        for gone in before.chain(heard) {
            let outdated = gone.at.saturating_add(DEPARTED_LIFETIME) < now;
            if outdated || gone.replica == own_id || replicas.contains_key(&gone.replica) {
                continue;
            }
            // The longer history of two is the later one.
            let calls = |of: &DepartedReplica| of.tools.iter().map(|tool| tool.call_count).sum::<u64>();
            if departed.get(&gone.replica).is_none_or(|known| calls(known) < calls(&gone)) {
                departed.insert(gone.replica.clone(), gone);
            }
        }
        let mut departed: Vec<_> = departed.into_values().collect();
        departed.sort_by_key(|gone| std::cmp::Reverse(gone.at));
        departed.truncate(MAX_DEPARTED);
        for DepartedReplica { replica, at, tools } in departed {
            replicas.insert(replica, Counts { tools, departed_at: Some(at) });
        }
        KnownReplicas { replicas, unreachable }
    }

    /// Adds these counts to those of this process.
    pub(super) fn added_to(&self, own: &MetricsBook) -> MetricsBook {
        let mut sums: BTreeMap<(&str, &str), ToolMetrics> = BTreeMap::new();
        for metrics in self.replicas.values().flat_map(|counts| &counts.tools) {
            let key = (metrics.backend.as_str(), metrics.tool.as_str());
            if let Some(sum) = sums.get_mut(&key) {
                sum.merge(metrics);
                continue;
            }
            let mut sum = metrics.clone();
            if let Some(own) = own.get(&metrics.backend, &metrics.tool) {
                sum.merge(own);
            }
            sums.insert(key, sum);
        }
        let mut total = own.clone();
        total.extend(sums.into_values());
        total
    }

    /// Returns these counts without those of some tools.
    pub(super) fn without(&self, filter: &Filter) -> KnownReplicas {
        let mut known = self.clone();
        for counts in known.replicas.values_mut() {
            counts.tools.retain(|metrics| !filter.admits(metrics));
        }
        known
    }

    /// Begins a report with the replicas that are gone.
    pub(super) fn departed_report(&self) -> ReplicaReport {
        let departed = self.departed().map(|(replica, at, tools)| DepartedReplica {
            replica: replica.clone(),
            at,
            tools: tools.to_vec(),
        });
        ReplicaReport { departed: departed.collect(), ..ReplicaReport::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(tool: &str, calls: u64) -> ToolMetrics {
        ToolMetrics { call_count: calls, success_count: calls, ..ToolMetrics::new("s", tool, 1) }
    }

    fn report(replica: &str, calls: u64) -> ReplicaReport {
        ReplicaReport {
            replica: replica.to_owned(),
            tools: vec![metrics("t", calls)],
            ..ReplicaReport::default()
        }
    }

    fn total(known: &KnownReplicas, own: u64) -> u64 {
        let own: MetricsBook = [metrics("t", own)].into_iter().collect();
        known.added_to(&own).get("s", "t").unwrap().call_count
    }

    #[test]
    fn counts_of_replicas_that_are_gone_stay_for_a_day_and_are_handed_on() {
        let first =
            KnownReplicas::default().after_round(vec![report("a", 3), report("b", 5)], vec![], "me", 1000);
        assert_eq!((total(&first, 2), first.census().replicas), (10, 3));
        let gone = first.after_round(vec![report("a", 4)], vec!["b:9090".to_owned()], "me", 2000);
        assert_eq!(
            (total(&gone, 2), gone.census()),
            (11, Census { replicas: 2, unreachable: vec!["b:9090".to_owned()] })
        );
        // A replica that never met it hears of it, and each replica counts once.
        let told = ReplicaReport { departed: gone.departed_report().departed, ..report("me", 2) };
        let newcomer =
            KnownReplicas::default().after_round(vec![told.clone(), report("a", 4)], vec![], "new", 2000);
        assert_eq!(total(&newcomer, 0), 11);
        let back = newcomer.after_round(vec![told, report("b", 6)], vec![], "new", 3000);
        assert_eq!(total(&back, 0), 2 + 6 + 4, "b is back, a is gone");
        let later = gone.after_round(vec![report("a", 4)], vec![], "me", 2001 + DEPARTED_LIFETIME);
        assert_eq!(total(&later, 2), 6);
    }

    #[test]
    fn unchanged_reports_of_the_replicas_that_are_there_change_nothing() {
        let (a, b) = (Arc::new(report("a", 3)), Arc::new(report("b", 5)));
        let both =
            KnownReplicas::default().after_round(vec![report("a", 3), report("b", 5)], vec![], "me", 1000);
        assert!(both.is_of(&[Arc::clone(&a), Arc::clone(&b)], &[]));
        assert!(!both.is_of(&[Arc::clone(&a)], &[]), "b is gone");
        assert!(!both.is_of(&[Arc::clone(&a), b], &["c:1".to_owned()]));
        let gone = both.after_round(vec![report("a", 3)], vec![], "me", 2000);
        assert!(!gone.is_of(&[a], &[]), "the counts of b end some day");
        assert!(!gone.has_same_departed(&both) && both.has_same_departed(&KnownReplicas::default()));
    }

    #[test]
    fn a_replica_is_not_told_about_itself() {
        let told = ReplicaReport {
            departed: vec![DepartedReplica { replica: "me".to_owned(), at: 1, tools: vec![metrics("t", 9)] }],
            ..report("a", 1)
        };
        assert_eq!(total(&KnownReplicas::default().after_round(vec![told], vec![], "me", 2), 9), 10);
    }

    #[test]
    fn forgotten_counts_are_gone_from_all_replicas() {
        let mut two = report("a", 3);
        two.tools.push(metrics("u", 7));
        let known = KnownReplicas::default().after_round(vec![two], vec![], "me", 1);
        let filter = Filter { backend: None, tool: Some("t".to_owned()) };
        let known = known.without(&filter);
        let sums = known.added_to(&MetricsBook::default());
        assert!(sums.get("s", "t").is_none() && sums.get("s", "u").is_some());
    }
}
