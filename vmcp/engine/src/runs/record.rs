//! Facts of a run that its stores share: its name, its lease, and the error of a store.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use vmcp_backend::SessionId;
use vmcp_error_chain::error_chain;
use vmcp_store::StoreError;

use crate::access::identity::Principal;

/// Time after which the driver of a run that has not renewed its lease counts as ended.
pub(super) const LEASE: Duration = Duration::from_secs(6);
/// Time for which an answer is known as used; its state is good for ten minutes.
pub(super) const ANSWER_KNOWN: Duration = Duration::from_hours(1);

/// A store that did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the store of runs does not answer: {reason}")]
pub struct RunStoreError {
    reason: String,
}

impl RunStoreError {
    pub(super) fn new(reason: impl Into<String>) -> RunStoreError {
        RunStoreError { reason: reason.into() }
    }
}

impl From<StoreError> for RunStoreError {
    fn from(error: StoreError) -> RunStoreError {
        RunStoreError::new(error_chain(&error))
    }
}

/// A run, as the stores take it.
#[derive(Debug, Clone)]
pub(super) struct RunRecord {
    pub(super) id: String,
    pub(super) owner: [u8; 32],
    pub(super) request: [u8; 32],
    /// Expiry, in milliseconds since the Unix epoch.
    pub(super) expires_at: i64,
}

/// The run that a call may continue.
#[derive(Debug, Clone)]
pub struct RunLookup {
    pub(super) owner: [u8; 32],
    pub(super) request: [u8; 32],
    pub(super) id: Option<String>,
}

impl RunLookup {
    /// Names the runs of a principal, a tool, a session and arguments; with an `id`, the run of this id of
    /// the principal and the tool.
    pub fn new(
        principal: &Principal,
        session: Option<SessionId>,
        tool: &str,
        arguments: &str,
        id: Option<String>,
    ) -> RunLookup {
        let owner = Sha256::new()
            .chain_update(principal.binding())
            .chain_update(principal.key().to_string())
            .chain_update([0])
            .chain_update(tool);
        let request = Sha256::new()
            .chain_update([u8::from(session.is_some())])
            .chain_update(session.unwrap_or_default())
            .chain_update(arguments);
        RunLookup { owner: owner.finalize().into(), request: request.finalize().into(), id }
    }

    /// True if a run is named by its id.
    pub fn has_id(&self) -> bool {
        self.id.is_some()
    }
}
