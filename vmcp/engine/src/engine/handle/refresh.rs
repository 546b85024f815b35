//! Refreshes that a caller waits for: lists a backend on demand, and counts the difference to the recorded
//! definitions.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use vmcp_backend::{CallError, Request};
use vmcp_config::status::DefinitionChanges;
use vmcp_store::DefinitionKind;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;

use super::regeneration::regenerate;
use crate::engine::conductor::commands::ConductorHandle;
use crate::engine::shared::Shared;
use crate::engine::snapshot::definition_changes::{self, KnownHashes};

/// Time limit of one backend's listing, all pages included; after it the refresh fails.
const REFRESH_TIMEOUT: Duration = Duration::from_mins(1);

/// Result of refreshing one backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refreshed {
    /// The backend's name.
    pub server: String,
    /// The difference, or the reason of the failure.
    #[serde(flatten)]
    pub outcome: RefreshOutcome,
}

/// The difference that a refresh found, or its failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RefreshOutcome {
    /// Number of tools by kind of change.
    Counted {
        /// New tools.
        added: usize,
        /// Tools whose definition changed; of a forced refresh, also embedded tools.
        updated: usize,
        /// Tools that are gone.
        removed: usize,
        /// Tools that are as before.
        unchanged: usize,
    },
    /// The backend was not listed.
    Failed {
        /// The reason.
        error: String,
    },
}

/// Failure of a refresh.
#[derive(Debug, thiserror::Error)]
enum RefreshError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("{0}")]
    Failed(String),
    #[error("the listing took more than {} seconds", REFRESH_TIMEOUT.as_secs())]
    Slow,
    #[error("the cache failed; see the log")]
    Cache,
}

/// Lists and records backends on demand.
pub(in crate::engine) struct Refresh<'a> {
    pub(in crate::engine) shared: &'a Arc<Shared>,
    pub(in crate::engine) conductor: &'a ConductorHandle,
}

impl Refresh<'_> {
    /// Lists backends again and counts how their tools differ from the record. `force` also embeds all of
    /// them again, and counts them as updated.
    pub(in crate::engine) async fn run(&self, backends: &[Arc<str>], force: bool) -> Vec<Refreshed> {
        let listed = futures::future::join_all(backends.iter().map(|backend| self.relist(backend))).await;
        // Once for all of them. The answer must not be ahead of the lists of clients and the record.
        self.conductor.rebuild_and_record().await;
        let mut refreshed = Vec::with_capacity(backends.len());
        for (backend, changes) in backends.iter().zip(listed) {
            let outcome = match changes {
                Ok(changes) => self.counted(backend, &changes, force).await,
                Err(error) => {
                    tracing::warn!(%backend, %error, "the backend could not be refreshed");
                    RefreshOutcome::Failed { error: error.to_string() }
                }
            };
            refreshed.push(Refreshed { server: backend.to_string(), outcome });
        }
        refreshed
    }

    /// Counts the changes of a listing; `force` embeds the backend's tools again.
    async fn counted(&self, backend: &str, changes: &DefinitionChanges, force: bool) -> RefreshOutcome {
        let DefinitionChanges { added, mut updated, removed, mut unchanged, .. } = *changes;
        let regenerated = async || regenerate(self.shared, self.conductor, Some(backend)).await;
        if force && regenerated().await.is_ok_and(|done| done.embedded > 0) {
            updated += std::mem::take(&mut unchanged);
        }
        RefreshOutcome::Counted { added, updated, removed, unchanged }
    }

    /// Lists a backend again, and compares its tools with the record.
    async fn relist(&self, name: &Arc<str>) -> Result<DefinitionChanges, RefreshError> {
        let snapshot = self.shared.snapshot.load_full();
        let unknown = || RefreshError::Failed(format!("no enabled backend is called `{name}`"));
        let backend = snapshot.backends.get(name).ok_or_else(unknown)?;
        let key = Arc::clone(name);
        let recorded = self.shared.store(move |store| {
            Ok((of_tools(definition_changes::known(store, &key)?), of_tools(store.removed_hashes(&key)?)))
        });
        let (known, removed) = recorded.await.ok_or(RefreshError::Cache)?;

        // Connects if need be, opens a lost session again, and fails at once where that fails.
        backend.request(Request::new(methods::TOOLS_LIST, &OwnedParams::empty())).await?;
        let listed = tokio::time::timeout(REFRESH_TIMEOUT, backend.relist()).await;
        listed.map_err(|_| RefreshError::Slow)?.map_err(RefreshError::Failed)?;
        let discovered = backend.discovered().borrow().clone().unwrap_or_default();

        let hashes = of_tools(definition_changes::hashes(&discovered));
        let (_, changes) = definition_changes::compare(name, &known, &removed, &hashes, SystemTime::now());
        Ok(changes)
    }
}

/// Keeps the hashes of tools.
fn of_tools(mut hashes: KnownHashes) -> KnownHashes {
    hashes.retain(|(kind, _), _| *kind == DefinitionKind::Tool);
    hashes
}
