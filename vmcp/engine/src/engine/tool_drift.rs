//! Changed definitions of tools: each listing is compared with the definitions that are trusted. A changed
//! one is told, and under `onToolChange: Quarantine` hidden from clients until an operator approves it.
//!
//! Trust on first use: the definition seen first is trusted, and stays so while its tool is gone. This is the
//! guard against a rug pull, a tool that is harmless until it is trusted. Replicas without a lasting disk
//! trust the definitions of a shared file first ([`trust`]).

pub(super) mod trust;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use vmcp_access::rate_limit::LogLimit;
use vmcp_config::Config;
use vmcp_config::rules::trusted_tools::{Fingerprint, ToolsOfBackend, TrustedTool};
use vmcp_config::rules::{Aggregation, OnToolChange};
use vmcp_model::definition_diff::{FieldChange, differences, trusted_hash};
use vmcp_model::discovered::Discovered;
use vmcp_store::{Baseline, DriftState, ListedTool, StateStore, StoreError, ToolDrift, TrustRule};

use super::snapshot::Quarantine;
use super::snapshot::declarations::BackendListings;
use crate::random::milliseconds;
use trust::{ApprovedTool, TrustReport};

/// Most fields that a log line names.
const MAX_LOGGED_FIELDS: usize = 10;
/// Least time between two log lines about a `state.db` that cannot be opened.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// A listing that was compared, and the rules that it was compared by.
struct ComparedListing {
    listed: Arc<Discovered>,
    quarantine: bool,
    /// The shared trust in the tools of the backend.
    shared: Option<ToolsOfBackend<TrustedTool>>,
}

/// The trust that this process reports, and the version and configuration that it was made of.
#[derive(Default)]
struct MadeReport {
    of: Option<(u64, Arc<Config>)>,
    report: Arc<TrustReport>,
}

/// Compares listings with the trusted definitions.
pub(super) struct DriftGuard {
    store: RwLock<StateStore>,
    /// Folder of `state.db`, which is opened once a backend is under quarantine; `None` once it is open.
    unopened: Mutex<Option<PathBuf>>,
    /// Limits warnings about `state.db`.
    open_log: LogLimit,
    /// The last compared listing of each backend.
    compared: Mutex<BTreeMap<Arc<str>, ComparedListing>>,
    /// The pending tools as last read, for the time in which the database cannot be read.
    last_pending: Mutex<Quarantine>,
    /// Number of comparisons and approvals.
    version: AtomicU64,
    report: Mutex<MadeReport>,
}

/// The latest change of one tool's definition, as operators read it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChangedTool {
    /// The backend's name.
    pub server: String,
    /// The tool's own name at its backend.
    pub tool: String,
    /// `pending`: hidden until it is approved. `accepted`: in force. `approved`: in force, by an operator.
    pub state: String,
    /// Time at which the change was noticed.
    pub at: String,
    /// Hash of the definition after the change, to approve this one and no later one. Empty from a server of
    /// an earlier release.
    #[serde(default)]
    pub hash: String,
    /// The fields that differ.
    pub fields: Vec<FieldChange>,
}

impl DriftGuard {
    /// Opens `state.db` in `dir`, or compares in memory until a backend is under quarantine: then it opens
    /// `state.db` in the folder `later`.
    pub(super) fn open(dir: Option<&Path>, later: Option<PathBuf>) -> Result<DriftGuard, StoreError> {
        let open_log = LogLimit::new(LOG_INTERVAL);
        let store = dir.and_then(|dir| open_file(dir, &open_log));
        Ok(DriftGuard {
            store: RwLock::new(store.map_or_else(StateStore::in_memory, Ok)?),
            unopened: Mutex::new(later.filter(|_| dir.is_none())),
            open_log,
            compared: Mutex::default(),
            last_pending: Mutex::default(),
            version: AtomicU64::default(),
            report: Mutex::default(),
        })
    }

    /// Goes on in `state.db` where the definitions were compared in memory so far. All are compared again.
    /// A database that cannot be opened is tried again at the next comparison.
    fn keep_on_disk(&self) {
        // The first use in an empty database would trust the definitions that wait for approval in memory.
        if !self.last_pending.lock().is_empty() {
            return;
        }
        let mut unopened = self.unopened.lock();
        let opened = unopened.as_deref().and_then(|dir| open_file(dir, &self.open_log));
        let Some(store) = opened else { return };
        *unopened = None;
        drop(unopened);
        *self.store.write() = store;
        self.compared.lock().clear();
    }

    /// Compares listings that were not compared before, tells the changes, and returns the tools to hide.
    /// Where the database fails, an error is logged, and these tools are hidden: the pending ones as last
    /// read, and further ones against the shared trust.
    pub(super) fn compare(&self, listings: &BackendListings, config: &Arc<Config>) -> Quarantine {
        let rules = &config.aggregation;
        // The shared file outlives the process, and pods without the optimizer have no disk of their own.
        if rules.quarantines() && config.server.trusted_tools_path.is_none() {
            self.keep_on_disk();
        }
        let mut contradicting = Quarantine::new();
        for (backend, discovered) in listings {
            let quarantine = rules.on_tool_change(backend) == OnToolChange::Quarantine;
            let shared = config.trusted_tools.trusted.get(&**backend).filter(|_| quarantine);
            let mut compared = self.compared.lock();
            let same = |known: &ComparedListing| {
                Arc::ptr_eq(&known.listed, discovered)
                    && known.quarantine == quarantine
                    && known.shared.as_ref() == shared
            };
            if compared.get(backend).is_some_and(same) {
                continue;
            }
            // The observation below tells of a database that cannot be read.
            let trusted = self.store.read().trusted_definitions(backend).unwrap_or_default();
            let listed = discovered.tools.iter().map(|tool| ListedTool {
                tool: &tool.name,
                hash: hash_of(&tool.name, &tool.raw, &trusted),
                definition: tool.raw.get(),
            });
            let listed: Vec<_> = listed.collect();
            let of_tool = |tool: &ListedTool<'_>, stored: Option<&Baseline>| {
                trust::trust(&tool.hash, shared.and_then(|shared| shared.get(tool.tool)), stored)
            };
            let rule: Option<TrustRule<'_>> = if quarantine { Some(&of_tool) } else { None };
            let now = milliseconds(SystemTime::now());
            match self.store.read().observe_listing(backend, &listed, rule, now) {
                Ok(news) => {
                    self.version.fetch_add(1, Ordering::Relaxed);
                    let of_now = ComparedListing {
                        listed: Arc::clone(discovered),
                        quarantine,
                        shared: shared.cloned(),
                    };
                    compared.insert(Arc::clone(backend), of_now);
                    for drift in &news {
                        tell(drift, rules.on_tool_change(backend));
                    }
                }
                Err(error) => {
                    tracing::error!(%backend, %error, "definitions could not be compared with the trusted ones");
                    let hidden = listed.iter().filter(|tool| contradicts(tool, shared));
                    contradicting.extend(hidden.map(|tool| (Arc::clone(backend), tool.tool.to_owned())));
                }
            }
        }
        // Before the definitions are read: a change in between is then seen the next time.
        let version = self.version();
        let read = self.store.read().tool_drifts();
        let log = |error: &StoreError| tracing::error!(%error, "quarantined tools could not be read");
        let drifts = read.inspect_err(log).ok();
        self.update_report(config, version, drifts.as_deref());
        contradicting.extend(self.pending(rules, drifts));
        contradicting
    }

    /// Makes the report of the trust again if it may have changed. The `drifts` are read after the `version`;
    /// without them, the report stays.
    fn update_report(&self, config: &Arc<Config>, version: u64, drifts: Option<&[ToolDrift]>) {
        let mut made = self.report.lock();
        if made.of.as_ref().is_some_and(|(of, before)| *of == version && Arc::ptr_eq(before, config)) {
            return;
        }
        let report = if config.aggregation.quarantines() {
            let Some(drifts) = drifts else { return };
            let stored = self.store.read().trusted_hashes();
            stored.map(|stored| trust::report(config, stored, drifts))
        } else {
            Ok(TrustReport::default())
        };
        match report {
            Ok(report) => {
                let of = Some((version, Arc::clone(config)));
                *made = MadeReport { of, report: Arc::new(report) };
            }
            Err(error) => tracing::error!(%error, "trusted definitions could not be read"),
        }
    }

    /// Returns the trust of this process as of the snapshot in force.
    pub(super) fn report(&self) -> Arc<TrustReport> {
        Arc::clone(&self.report.lock().report)
    }

    /// Returns the tools that wait for approval at backends under quarantine; without `drifts`, as of the
    /// last call that had them.
    fn pending(&self, rules: &Aggregation, drifts: Option<Vec<ToolDrift>>) -> Quarantine {
        let mut last = self.last_pending.lock();
        if let Some(drifts) = drifts {
            let waiting = drifts.into_iter().filter(|drift| drift.state == DriftState::Pending);
            *last = waiting.map(|drift| (drift.backend.into(), drift.tool)).collect();
        }
        let quarantines = |backend: &str| rules.on_tool_change(backend) == OnToolChange::Quarantine;
        last.iter().filter(|(backend, _)| quarantines(backend)).cloned().collect()
    }

    /// Returns the latest change of each tool, newest first.
    pub(super) fn changes(&self) -> Result<Vec<ChangedTool>, StoreError> {
        Ok(self.store.read().tool_drifts()?.iter().map(changed_tool).collect())
    }

    /// Trusts the pending definition of a tool; false if none waits, or if its hash is not `expected`.
    pub(super) fn approve(
        &self,
        backend: &str,
        tool: &str,
        expected: Option<&str>,
    ) -> Result<bool, StoreError> {
        // Later than the approval that the file has, by whatever clock that was: the later one wins.
        let shared =
            self.compared.lock().get(backend).and_then(|compared| {
                Some(compared.shared.as_ref()?.get(tool)?.approved_at.saturating_add(1))
            });
        let at = milliseconds(SystemTime::now()).max(shared.unwrap_or_default());
        let approved = self.store.read().approve_drift(backend, tool, expected, at);
        self.version.fetch_add(1, Ordering::Relaxed);
        approved
    }
}

/// Opens `state.db` in a folder; `None` if that fails, which is logged as `log` admits.
fn open_file(dir: &Path, log: &LogLimit) -> Option<StateStore> {
    let warn = |error: &StoreError| {
        if let Some(left_out) = log.admit((), Instant::now()) {
            tracing::warn!(%error, left_out, "trusted definitions are kept in memory only");
        }
    };
    StateStore::open(dir).inspect_err(warn).ok()
}

/// True if the shared trust in the tools of a backend has another definition of a tool.
fn contradicts(tool: &ListedTool<'_>, shared: Option<&ToolsOfBackend<TrustedTool>>) -> bool {
    let trusted = shared.and_then(|shared| shared.get(tool.tool));
    trusted.is_some_and(|trusted| Fingerprint::of_hash(&tool.hash) != trusted.fingerprint)
}

/// Approvals, which replicas share.
impl DriftGuard {
    /// Returns a number that is another one once the approved or the pending definitions may have changed.
    /// Read it before these: a change in between is then seen the next time.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Returns the definitions that an operator approved.
    pub(super) fn approved(&self) -> Result<Vec<ApprovedTool>, StoreError> {
        let drifts = self.store.read().tool_drifts()?.into_iter();
        let approved = drifts.filter(|drift| drift.state == DriftState::Approved);
        let approved = approved.map(|ToolDrift { backend, tool, after_hash, .. }| ApprovedTool {
            server: backend,
            tool,
            hash: after_hash,
        });
        Ok(approved.collect())
    }

    /// Trusts pending definitions that were approved at another replica; returns their number. Only the very
    /// definition that was approved there is trusted.
    pub(super) fn adopt(&self, approved: &[ApprovedTool]) -> Result<usize, StoreError> {
        let mut adopted = 0;
        // A statement of its own: `approve` locks the store again, which must be free by then.
        let drifts = self.store.read().tool_drifts()?;
        for drift in drifts.iter().filter(|drift| drift.state == DriftState::Pending) {
            let same = |one: &&ApprovedTool| {
                one.server == drift.backend && one.tool == drift.tool && one.hash == drift.after_hash
            };
            // The pending definition may have changed since it was read.
            if approved.iter().any(|one| same(&one))
                && self.approve(&drift.backend, &drift.tool, Some(&drift.after_hash))?
            {
                adopted += 1;
            }
        }
        Ok(adopted)
    }
}

/// Returns the hash of a listed definition. The very text that is trusted has the stored hash: at a start,
/// hashing 500 definitions takes 5 ms.
fn hash_of(tool: &str, definition: &RawValue, trusted: &HashMap<String, Baseline>) -> String {
    match trusted.get(tool) {
        Some(known) if known.definition == definition.get() => known.hash.clone(),
        _ => trusted_hash(tool, definition),
    }
}

/// Logs a change that was not known before.
fn tell(drift: &ToolDrift, consequence: OnToolChange) {
    let fields: Vec<_> =
        fields(drift).into_iter().take(MAX_LOGGED_FIELDS).map(|change| change.field).collect();
    let (server, tool, fields) = (drift.backend.as_str(), drift.tool.as_str(), fields.join(", "));
    match consequence {
        OnToolChange::Allow => {}
        OnToolChange::Warn => {
            tracing::warn!(
                server,
                tool,
                fields,
                "the definition of a tool changed; `vmcp tools diff` shows it"
            );
        }
        OnToolChange::Quarantine => tracing::warn!(
            server,
            tool,
            fields,
            "a tool is hidden because its definition changed; `vmcp tools diff` shows it, `vmcp tools approve` accepts it"
        ),
    }
}

fn fields(drift: &ToolDrift) -> Vec<FieldChange> {
    let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap_or_default();
    differences(&raw(&drift.before), &raw(&drift.after))
}

fn changed_tool(drift: &ToolDrift) -> ChangedTool {
    let at = Duration::from_millis(u64::try_from(drift.at).unwrap_or_default());
    ChangedTool {
        server: drift.backend.clone(),
        tool: drift.tool.clone(),
        state: drift.state.as_str().to_owned(),
        at: humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + at).to_string(),
        hash: drift.after_hash.clone(),
        fields: fields(drift),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_opened_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("state");
        std::fs::write(&dir, "a file in place of the folder").unwrap();
        let guard = DriftGuard::open(None, Some(dir.clone())).unwrap();
        guard.keep_on_disk();
        assert!(guard.store.read().path().is_none());
        std::fs::remove_file(&dir).unwrap();
        std::fs::create_dir(&dir).unwrap();
        guard.last_pending.lock().insert(("files".into(), "read".to_owned()));
        guard.keep_on_disk();
        assert!(guard.store.read().path().is_none(), "a tool waits for approval in memory");
        guard.last_pending.lock().clear();
        guard.keep_on_disk();
        assert!(guard.store.read().path().is_some());
    }

    #[test]
    fn only_another_definition_than_the_shared_one_contradicts_it() {
        let trusted = TrustedTool { fingerprint: Fingerprint::of_hash("a"), approved_at: 0 };
        let shared = BTreeMap::from([("read".to_owned(), trusted)]);
        let listed = |tool, hash: &str| ListedTool { tool, hash: hash.to_owned(), definition: "{}" };
        assert!(contradicts(&listed("read", "b"), Some(&shared)));
        assert!(!contradicts(&listed("read", "a"), Some(&shared)));
        assert!(!contradicts(&listed("write", "b"), Some(&shared)), "the file knows nothing about it");
        assert!(!contradicts(&listed("read", "b"), None));
    }

    #[test]
    fn the_trusted_text_has_the_stored_hash() {
        let listed = RawValue::from_string(r#"{"name":"read"}"#.to_owned()).unwrap();
        let trusted = |definition: &str| {
            let (hash, definition) = ("as stored".to_owned(), definition.to_owned());
            HashMap::from([("read".to_owned(), Baseline { hash, definition, approved_at: 0 })])
        };
        assert_eq!(hash_of("read", &listed, &trusted(listed.get())), "as stored");
        let hash = trusted_hash("read", &listed);
        assert_eq!(hash_of("read", &listed, &trusted(r#"{"name": "read"}"#)), hash);
        assert_eq!(hash_of("read", &listed, &HashMap::new()), hash);
    }
}
