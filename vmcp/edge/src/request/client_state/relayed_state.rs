//! [`RelayedState`]: the `requestState` of a backend, which clients carry sealed, and what it is bound to.

use std::sync::Arc;

use vmcp_engine::access::identity::Principal;
use vmcp_wire::owned::OwnedRequest;
use vmcp_wire::sealed::request_state::{self, Binding};

/// A backend's own `requestState`, as a modern client carried it back.
#[derive(Debug)]
pub(crate) struct RelayedState {
    pub(crate) backend: Arc<str>,
    pub(crate) state: String,
}

/// Returns the principal and request that a state is bound to: it opens for the same caller and call only.
pub(crate) fn binding(principal: &Principal, request: &OwnedRequest) -> Binding {
    let request = request_state::digest(request.method(), request.params());
    Binding { identity: principal.binding(), request }
}
