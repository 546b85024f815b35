//! Definitions of backends as a server saved them, read without asking any backend.

use std::sync::Arc;

use vmcp_config::Backend;
use vmcp_model::discovered::Discovered;
use vmcp_store::{Store, StoreError};

/// Returns the saved definitions of a backend; `None` without any that can be read.
pub(super) fn of_backend(store: &Store, backend: &Backend) -> Result<Option<Arc<Discovered>>, StoreError> {
    let saved = store.definitions(&backend.name, &backend.fingerprint())?;
    Ok(saved.and_then(|saved| Discovered::from_json(&saved.json).ok()).map(Arc::new))
}
