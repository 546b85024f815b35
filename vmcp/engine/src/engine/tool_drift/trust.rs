//! Trust in definitions that other replicas keep: decided here for each listed tool, and reported for them as
//! a document. Pure.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use vmcp_config::Config;
use vmcp_config::rules::OnToolChange;
use vmcp_config::rules::trusted_tools::{Fingerprint, TrustedTool, TrustedTools};
use vmcp_config::status::digest;
use vmcp_store::{Baseline, DriftState, ToolDrift, Trust, TrustedHash};

/// The trust of this process as `GET /admin/tools/trusted` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustReport {
    /// The document, as JSON.
    pub text: String,
    /// Its digest. Empty without a backend under quarantine.
    pub digest: String,
}

/// A changed definition that an operator approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ApprovedTool {
    pub(crate) server: String,
    pub(crate) tool: String,
    /// Hash of the approved definition.
    pub(crate) hash: String,
}

/// Returns the trust in a listed definition with the hash `listed`. `shared` is the trusted one of the file
/// of `server.trustedToolsPath`, `stored` the one of this process; the later approval wins, and the file
/// where none is later.
pub(super) fn trust(listed: &str, shared: Option<&TrustedTool>, stored: Option<&Baseline>) -> Trust {
    let Some(shared) = shared else { return Trust::Stored };
    match stored {
        Some(stored) if stored.approved_at > shared.approved_at => Trust::Stored,
        _ if Fingerprint::of_hash(listed) == shared.fingerprint => {
            Trust::Listed { approved_at: shared.approved_at }
        }
        // The definition before is known, so that a person can compare.
        Some(stored) if Fingerprint::of_hash(&stored.hash) == shared.fingerprint => Trust::Stored,
        _ => Trust::Unknown,
    }
}

/// Returns the trust of this process in the tools of backends under quarantine, joined with the trust of the
/// file.
pub(super) fn report(config: &Config, stored: Vec<TrustedHash>, drifts: &[ToolDrift]) -> TrustReport {
    let configured = config.backends.iter().map(|backend| &*backend.name);
    let quarantined: HashSet<&str> = configured
        .filter(|backend| config.aggregation.on_tool_change(backend) == OnToolChange::Quarantine)
        .collect();
    let mut document = TrustedTools::clone(&config.trusted_tools);
    document.pending.clear();
    document.trusted.retain(|backend, _| quarantined.contains(backend.as_str()));
    for TrustedHash { backend, tool, hash, approved_at } in stored {
        if !quarantined.contains(backend.as_str()) {
            continue;
        }
        let own = TrustedTool { fingerprint: Fingerprint::of_hash(&hash), approved_at };
        let tools = document.trusted.entry(backend).or_default();
        if tools.get(&tool).is_none_or(|shared| own.is_newer_than(shared)) {
            tools.insert(tool, own);
        }
    }
    let pending = drifts.iter().filter(|drift| drift.state == DriftState::Pending);
    for drift in pending.filter(|drift| quarantined.contains(drift.backend.as_str())) {
        let tools = document.pending.entry(drift.backend.clone()).or_default();
        tools.insert(drift.tool.clone(), Fingerprint::of_hash(&drift.after_hash));
    }
    let text = document.to_text();
    TrustReport { digest: digest(&text), text }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn stored(hash: &str, approved_at: i64) -> Baseline {
        Baseline { hash: hash.to_owned(), definition: "{}".to_owned(), approved_at }
    }

    fn shared(hash: &str, approved_at: i64) -> TrustedTool {
        TrustedTool { fingerprint: Fingerprint::of_hash(hash), approved_at }
    }

    #[test]
    fn trust_is_on_first_use_where_no_replica_has_seen_the_tool() {
        assert_eq!(trust("a", None, None), Trust::Stored);
        assert_eq!(trust("b", None, Some(&stored("a", 0))), Trust::Stored);
    }

    #[test]
    fn a_new_process_trusts_what_the_others_trusted() {
        assert_eq!(trust("a", Some(&shared("a", 0)), None), Trust::Listed { approved_at: 0 });
        assert_eq!(trust("poisoned", Some(&shared("a", 0)), None), Trust::Unknown);
        assert_eq!(trust("poisoned", Some(&shared("a", 0)), Some(&stored("poisoned", 0))), Trust::Unknown);
        assert_eq!(trust("poisoned", Some(&shared("a", 0)), Some(&stored("a", 0))), Trust::Stored);
    }

    #[test]
    fn the_later_approval_wins() {
        let approved = Trust::Listed { approved_at: 9 };
        assert_eq!(trust("b", Some(&shared("b", 9)), Some(&stored("a", 5))), approved);
        assert_eq!(trust("a", Some(&shared("b", 9)), Some(&stored("a", 5))), Trust::Unknown);
        assert_eq!(trust("a", Some(&shared("b", 5)), Some(&stored("a", 9))), Trust::Stored);
    }

    #[test]
    fn a_report_joins_the_trust_of_the_file_and_of_the_process() {
        let mut config = crate::testing::config(
            "backends: [{ name: a, url: 'http://127.0.0.1:1/mcp' }, { name: free, url: 'http://127.0.0.1:2/mcp' }]\n\
             aggregation: { onToolChange: Quarantine, tools: [{ workload: free, onToolChange: Warn }] }",
        );
        let mut file = TrustedTools::default();
        let tools = [("old", shared("old", 3)), ("approved", shared("before", 0))];
        for backend in ["a", "gone"] {
            let tools = tools.iter().map(|(name, tool)| ((*name).to_owned(), tool.clone())).collect();
            file.trusted.insert(backend.to_owned(), tools);
        }
        config.trusted_tools = std::sync::Arc::new(file);
        let stored = [
            ("a", "new", "new", 0),
            ("a", "approved", "after", 8),
            ("a", "old", "stale", 0),
            ("free", "any", "any", 0),
        ];
        let stored = stored.map(|(backend, tool, hash, approved_at)| TrustedHash {
            backend: backend.to_owned(),
            tool: tool.to_owned(),
            hash: hash.to_owned(),
            approved_at,
        });
        let drift = |backend: &str, state| ToolDrift {
            backend: backend.to_owned(),
            tool: "changed".to_owned(),
            before: "{}".to_owned(),
            after: "{}".to_owned(),
            after_hash: "changed".to_owned(),
            at: 1,
            state,
        };
        let drifts = [drift("a", DriftState::Pending), drift("free", DriftState::Pending)];
        let report = report(&config, stored.into(), &drifts);
        let document = TrustedTools::parse(&report.text).unwrap();
        let expected = BTreeMap::from([
            ("approved".to_owned(), shared("after", 8)),
            ("new".to_owned(), shared("new", 0)),
            ("old".to_owned(), shared("old", 3)),
        ]);
        assert_eq!(document.trusted, BTreeMap::from([("a".to_owned(), expected)]));
        assert_eq!(document.pending["a"]["changed"], Fingerprint::of_hash("changed"));
        assert_eq!((document.pending.len(), report.digest.len()), (1, 64));
    }
}
