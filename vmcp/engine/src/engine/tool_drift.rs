//! Changed definitions of tools: each listing is compared with the definitions that are trusted. A changed
//! one is told, and under `onToolChange: Quarantine` hidden from clients until an operator approves it.
//!
//! Trust on first use: the definition seen first is trusted, and stays so while its tool is gone. This is the
//! guard against a rug pull, a tool that is harmless until it is trusted.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use vmcp_config::rules::{Aggregation, OnToolChange};
use vmcp_model::definition_diff::{FieldChange, differences, trusted_hash};
use vmcp_model::discovered::Discovered;
use vmcp_store::{DriftState, ListedTool, StateStore, StoreError, ToolDrift};

use super::conductor::commands::ConductorHandle;
use super::recorder::definition_changes::milliseconds;
use super::replicas::report::ApprovedTool;
use super::shared::Shared;
use super::snapshot::declarations::BackendListings;

/// Most fields that a log line names.
const MAX_LOGGED_FIELDS: usize = 10;

/// Tools that are hidden from clients, by backend and their own names there.
pub(super) type Quarantine = HashSet<(Arc<str>, String)>;

/// A listing that was compared, and whether changes were quarantined then.
type ComparedListing = (Arc<Discovered>, bool);

/// Compares listings with the trusted definitions.
pub(super) struct DriftGuard {
    store: StateStore,
    /// The last compared listing of each backend.
    compared: Mutex<BTreeMap<Arc<str>, ComparedListing>>,
    /// Number of comparisons and approvals.
    version: AtomicU64,
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
    /// Opens `state.db` in `dir`, or compares in memory.
    pub(super) fn open(dir: Option<&Path>) -> Result<DriftGuard, StoreError> {
        let file = dir.map(StateStore::open).transpose().unwrap_or_else(|error| {
            tracing::warn!(%error, "trusted definitions are kept in memory only");
            None
        });
        let store = file.map_or_else(StateStore::in_memory, Ok)?;
        Ok(DriftGuard { store, compared: Mutex::default(), version: AtomicU64::default() })
    }

    /// Compares listings that were not compared before, tells the changes, and returns the tools to hide.
    /// Where the database fails, the changes of backends under quarantine cannot be told apart from what is
    /// trusted: then nothing more is hidden than before, and an error is logged.
    pub(super) fn compare(&self, listings: &BackendListings, rules: &Aggregation) -> Quarantine {
        for (backend, discovered) in listings {
            let quarantine = rules.on_tool_change(backend) == OnToolChange::Quarantine;
            let mut compared = self.compared.lock();
            let same = |(known, quarantined): &ComparedListing| {
                Arc::ptr_eq(known, discovered) && *quarantined == quarantine
            };
            if compared.get(backend).is_some_and(same) {
                continue;
            }
            let listed = discovered.tools.iter().map(|tool| ListedTool {
                tool: &tool.name,
                hash: trusted_hash(&tool.name, &tool.raw),
                definition: tool.raw.get(),
            });
            let listed: Vec<_> = listed.collect();
            match self.store.observe_listing(backend, &listed, quarantine, milliseconds(SystemTime::now())) {
                Ok(news) => {
                    self.version.fetch_add(1, Ordering::Relaxed);
                    compared.insert(Arc::clone(backend), (Arc::clone(discovered), quarantine));
                    for drift in &news {
                        tell(drift, rules.on_tool_change(backend));
                    }
                }
                Err(error) => {
                    tracing::error!(%backend, %error, "definitions could not be compared with the trusted ones");
                }
            }
        }
        self.pending(rules)
    }

    /// Returns the tools that wait for approval at backends under quarantine.
    pub(super) fn pending(&self, rules: &Aggregation) -> Quarantine {
        let drifts = self.store.tool_drifts().unwrap_or_else(|error| {
            tracing::error!(%error, "quarantined tools could not be read");
            Vec::new()
        });
        let waits = |drift: &ToolDrift| {
            drift.state == DriftState::Pending
                && rules.on_tool_change(&drift.backend) == OnToolChange::Quarantine
        };
        drifts.into_iter().filter(waits).map(|drift| (drift.backend.into(), drift.tool)).collect()
    }

    /// Returns the latest change of each tool, newest first.
    pub(super) fn changes(&self) -> Result<Vec<ChangedTool>, StoreError> {
        Ok(self.store.tool_drifts()?.iter().map(changed_tool).collect())
    }

    /// Trusts the pending definition of a tool; false if none waits, or if its hash is not `expected`.
    pub(super) fn approve(
        &self,
        backend: &str,
        tool: &str,
        expected: Option<&str>,
    ) -> Result<bool, StoreError> {
        let approved = self.store.approve_drift(backend, tool, expected, milliseconds(SystemTime::now()));
        self.version.fetch_add(1, Ordering::Relaxed);
        approved
    }
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
        let drifts = self.store.tool_drifts()?.into_iter();
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
        for drift in self.store.tool_drifts()?.iter().filter(|drift| drift.state == DriftState::Pending) {
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

/// Trusts the pending definition of a tool, named by its server and its own name, and publishes a snapshot
/// with it. Returns false in the cases of [`DriftGuard::approve`].
pub(super) async fn approve(
    shared: Arc<Shared>,
    conductor: ConductorHandle,
    (server, tool): (&str, &str),
    expected: Option<&str>,
) -> Result<bool, StoreError> {
    let (server, tool, expected) = (server.to_owned(), tool.to_owned(), expected.map(str::to_owned));
    // A task of its own: an operator who hangs up leaves no approval without its snapshot.
    let approval = tokio::spawn(async move {
        let approve = move || -> Result<bool, StoreError> {
            let is_approved = shared.drift.approve(&server, &tool, expected.as_deref())?;
            if is_approved {
                let (server, tool) = (server.as_str(), tool.as_str());
                tracing::info!(server, tool, "the changed definition of a tool was approved");
            }
            Ok(is_approved)
        };
        let approved = tokio::task::spawn_blocking(approve).await.unwrap_or(Ok(false));
        if matches!(approved, Ok(true)) {
            conductor.rebuild().await;
        }
        approved
    });
    // The tasks fail only when the runtime is going down.
    approval.await.unwrap_or(Ok(false))
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
    let at = std::time::Duration::from_millis(u64::try_from(drift.at).unwrap_or_default());
    ChangedTool {
        server: drift.backend.clone(),
        tool: drift.tool.clone(),
        state: drift.state.as_str().to_owned(),
        at: humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + at).to_string(),
        hash: drift.after_hash.clone(),
        fields: fields(drift),
    }
}
