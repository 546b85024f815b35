//! Lists a backend anew while somebody waits for what changed (GOB-43, GOB-44).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use vmcp_backend::{CallError, Request};
use vmcp_config::status::DefinitionChanges;
use vmcp_wire::methods;

use super::changes::{self, Listing};
use super::{Engine, SETTLED_POLL};
use crate::optim::call_arguments::empty_object;

/// How long one listing may take, all its pages included.
const PATIENCE: Duration = Duration::from_mins(1);

/// Why a backend could not be listed anew.
#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    /// No enabled backend has this name.
    #[error("no enabled backend is called `{0}`")]
    Unknown(String),
    /// It does not answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// It answers, but its lists do not come to an end.
    #[error("the listing took more than {} seconds", PATIENCE.as_secs())]
    Slow,
    /// The cache failed.
    #[error("the cache failed; see the log")]
    Cache,
}

impl Engine {
    /// Lists a backend anew and tells how its tools differ from what was known before. `force` embeds all of them anew, and
    /// counts them as updated, whether or not they changed.
    pub async fn refresh_and_wait(
        &self,
        backend: &str,
        force: bool,
    ) -> Result<DefinitionChanges, RefreshError> {
        let snapshot = self.snapshot();
        let (name, handle) = snapshot
            .backends
            .get_key_value(backend)
            .ok_or_else(|| RefreshError::Unknown(backend.to_owned()))?;
        let shared = &self.0.shared;
        let key = Arc::clone(name);
        let known =
            shared.store(move |store| changes::known(store, &key)).await.ok_or(RefreshError::Cache)?;

        // Connects if need be, and tells at once when that fails.
        handle.request(Request::new(methods::TOOLS_LIST, &empty_object())).await?;
        let asked = SystemTime::now();
        handle.refresh();
        let listed = async {
            while handle.status().last_refresh.is_none_or(|last| last < asked) {
                tokio::time::sleep(SETTLED_POLL).await;
            }
        };
        tokio::time::timeout(PATIENCE, listed).await.map_err(|_| RefreshError::Slow)?;
        let discovered = handle.discovered().borrow().clone().unwrap_or_default();

        let listing =
            Listing { backend: Arc::clone(name), fingerprint: handle.spec().fingerprint(), discovered };
        let (_, mut changes) = changes::compare(&known, &listing, SystemTime::now());
        let metrics = Arc::clone(&shared.metrics);
        let recorded = shared.store(move |store| {
            if force {
                store.retain_tools(&listing.backend, &[])?;
            }
            changes::record(store, &listing, &metrics)
        });
        recorded.await.ok_or(RefreshError::Cache)?;
        if force {
            changes.updated += std::mem::take(&mut changes.unchanged);
            self.0.conductor.load_vectors().await;
            if let Some(provider) = shared.provider.load_full() {
                provider.wake();
            }
        }
        shared.note(Arc::clone(name), changes.clone());
        Ok(changes)
    }
}
