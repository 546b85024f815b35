//! [`ReportVersions`]: entity tags of this replica's report, so that an unchanged one is not sent again.

use std::sync::Arc;

use parking_lot::Mutex;

use super::known::KnownReplicas;
use crate::search::context::Learned;
use crate::telemetry::tool_metrics::MetricsBook;

/// Everything that a report is made of, as it was at one time.
#[derive(Clone)]
pub(super) struct Sources {
    /// Metrics of tools of this replica.
    pub(super) own: Arc<MetricsBook>,
    /// Learned pairs.
    pub(super) learned: Arc<Learned>,
    /// The other replicas; departed replicas are in the report.
    pub(super) known: Arc<KnownReplicas>,
    /// Version of the approved definitions.
    pub(super) approvals: u64,
    /// Version of the withdrawn credentials.
    pub(super) revocations: u64,
}

impl Sources {
    fn make_same_report(&self, other: &Sources) -> bool {
        Arc::ptr_eq(&self.own, &other.own)
            && Arc::ptr_eq(&self.learned, &other.learned)
            && self.approvals == other.approvals
            && self.revocations == other.revocations
            && self.known.has_same_departed(&other.known)
    }
}

/// Numbers the states of the report.
pub(super) struct ReportVersions {
    /// Tells the numbers of this process from those of another one with the same database.
    process: String,
    /// The last number, and its state. The state is kept so that no other one gets its addresses.
    last: Mutex<Option<(u64, Sources)>>,
}

impl ReportVersions {
    /// Begins to number; `process` is another one in each process.
    pub(super) fn new(process: String) -> ReportVersions {
        ReportVersions { process, last: Mutex::default() }
    }

    /// Returns the entity tag of the report with the pairs used at `learned_after` or later.
    pub(super) fn tag(&self, sources: &Sources, learned_after: i64) -> String {
        let mut last = self.last.lock();
        let number = match &*last {
            Some((number, before)) if before.make_same_report(sources) => *number,
            Some((number, _)) => number + 1,
            None => 1,
        };
        *last = Some((number, sources.clone()));
        format!("\"{}-{number}-{learned_after}\"", self.process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_lasts_until_the_report_would_differ() {
        let sources = Sources {
            own: Arc::default(),
            learned: Arc::default(),
            known: Arc::default(),
            approvals: 0,
            revocations: 0,
        };
        let versions = ReportVersions::new("p".to_owned());
        let first = versions.tag(&sources, 0);
        assert_eq!(versions.tag(&sources.clone(), 0), first);
        assert_ne!(versions.tag(&sources, 1), first, "fewer pairs");
        let counted = Sources { own: Arc::default(), ..sources.clone() };
        assert_ne!(versions.tag(&counted, 0), first);
        let approved = Sources { approvals: 1, ..counted.clone() };
        assert_ne!(versions.tag(&approved, 0), versions.tag(&counted, 0));
        let revoked = Sources { revocations: 1, ..counted.clone() };
        assert_ne!(versions.tag(&revoked, 0), versions.tag(&counted, 0));
        let same_gone = Sources { known: Arc::default(), ..counted.clone() };
        assert_eq!(versions.tag(&same_gone, 0), versions.tag(&counted, 0));
        assert_ne!(ReportVersions::new("q".to_owned()).tag(&sources, 0), first, "another process");
    }
}
