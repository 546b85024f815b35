//! [`ReliabilityByPrincipal`]: success of tools' calls for each identity, in memory. Searches and
//! alternatives for a client with an identity read its own figures, so that a wrong token of one client
//! lowers no tool for others.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use vmcp_search::Reliability;
use vmcp_store::ToolMetrics;

use super::{MetricsBook, verdict};
use crate::access::identity::PrincipalKey;
use crate::telemetry::calls::{CallObserver, CallRecord};
use crate::telemetry::tool_metrics::ToolKey;

/// Identities that are remembered; one more evicts the least recently active. Its searches then find every
/// tool reliable again.
const MAX_PRINCIPALS: NonZeroUsize = NonZeroUsize::new(2000).unwrap();
/// Tools of one identity; one more evicts the least recently called. A search finds the evicted tool reliable
/// again.
const MAX_TOOLS: usize = 200;
/// Calls over which the recent success rate is a running mean, as in `state.db`.
const RECENT_CALLS: u64 = 50;

/// The tools of one identity. At most [`MAX_TOOLS`]: a bound of the cache's own would allocate a table of
/// that size for every identity.
type Tools = LruCache<ToolKey, Reliability>;

/// Observer that counts the calls of identities.
#[derive(Debug)]
pub(crate) struct ReliabilityByPrincipal(Mutex<LruCache<PrincipalKey, Tools>>);

impl Default for ReliabilityByPrincipal {
    fn default() -> Self {
        ReliabilityByPrincipal(Mutex::new(LruCache::sparse(MAX_PRINCIPALS)))
    }
}

impl ReliabilityByPrincipal {
    /// Returns the tools of an identity that have failed often enough to count.
    pub(crate) fn of(&self, principal: PrincipalKey) -> Vec<(ToolKey, Reliability)> {
        let mut table = self.0.lock();
        let tools = table.get(&principal).into_iter().flatten();
        let counting = tools.filter(|(_, reliability)| reliability.counts());
        counting.map(|(tool, reliability)| (tool.clone(), *reliability)).collect()
    }

    /// Returns the figures of an identity as a book: numbers of calls and success rates. Latencies, times and
    /// errors are not known by identity.
    pub(crate) fn book(&self, principal: PrincipalKey) -> MetricsBook {
        let mut table = self.0.lock();
        let tools = table.get(&principal).into_iter().flatten();
        let metrics = tools.map(|((backend, tool), known)| {
            let recent_success_rate = f64::from(known.success_rate);
            ToolMetrics {
                call_count: known.calls,
                success_count: (recent_success_rate * known.calls as f64).round() as u64,
                recent_success_rate,
                ..ToolMetrics::new(backend, tool, 0)
            }
        });
        let mut book = MetricsBook::default();
        book.extend(metrics);
        book
    }

    fn count(&self, principal: PrincipalKey, tool: ToolKey, succeeded: bool) {
        let mut table = self.0.lock();
        let tools = table.get_or_insert_mut(principal, Tools::unbounded);
        if tools.len() >= MAX_TOOLS && !tools.contains(&tool) {
            tools.pop_lru();
        }
        let known = tools.get_or_insert_mut(tool, || Reliability { calls: 0, success_rate: 0.0 });
        known.calls = known.calls.saturating_add(1);
        let value = if succeeded { 1.0 } else { 0.0 };
        known.success_rate += (value - known.success_rate) / known.calls.min(RECENT_CALLS) as f32;
    }
}

impl CallObserver for ReliabilityByPrincipal {
    fn observe(&self, record: &CallRecord) {
        let principal = record.principal.key();
        let (Some(tool), Some(succeeded)) = (&record.tool, verdict(record)) else { return };
        if matches!(principal, PrincipalKey::Identity(_)) {
            let tool = (Arc::clone(&tool.backend), tool.definition.name.as_str().into());
            self.count(principal, tool, succeeded);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: PrincipalKey = PrincipalKey::Identity([1; 32]);
    const BOB: PrincipalKey = PrincipalKey::Identity([2; 32]);

    fn tool(name: &str) -> ToolKey {
        ("jira".into(), name.into())
    }

    #[test]
    fn failures_of_one_identity_are_its_own() {
        let known = ReliabilityByPrincipal::default();
        for succeeded in [true, false, false, false] {
            known.count(ALICE, tool("get"), succeeded);
            known.count(BOB, tool("get"), true);
        }
        known.count(BOB, tool("list"), false);
        let of_alice = known.of(ALICE);
        let [(name, Reliability { calls: 4, success_rate })] = of_alice.as_slice() else {
            panic!("{of_alice:?}")
        };
        assert_eq!(*name, tool("get"));
        assert!((success_rate - 0.25).abs() < 1e-6, "{success_rate}");
        assert!(known.of(BOB).is_empty(), "successes and a single failure change no ranking");
        let rate = |principal, tool: &str| {
            known.book(principal).get("jira", tool).map(|metrics| (metrics.call_count, metrics.success_count))
        };
        assert_eq!((rate(ALICE, "get"), rate(ALICE, "list")), (Some((4, 1)), None));
        assert_eq!((rate(BOB, "get"), rate(BOB, "list")), (Some((4, 4)), Some((1, 0))));
    }

    #[test]
    fn tools_and_identities_are_bounded() {
        let known = ReliabilityByPrincipal::default();
        for number in 0..=MAX_TOOLS {
            (0..3).for_each(|_| known.count(ALICE, tool(&number.to_string()), false));
        }
        let names: Vec<_> = known.of(ALICE).into_iter().map(|(tool, _)| tool).collect();
        assert_eq!(names.len(), MAX_TOOLS);
        assert!(names.contains(&tool(&MAX_TOOLS.to_string())), "the newest tool is counted");
        assert!(!names.contains(&tool("0")), "the least recently called tool is forgotten");
        for number in 0..MAX_PRINCIPALS.get() as u64 {
            let mut digest = [9; 32];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            known.count(PrincipalKey::Identity(digest), tool("get"), false);
        }
        assert!(known.of(ALICE).is_empty(), "the least recently active identity is forgotten");
    }
}
