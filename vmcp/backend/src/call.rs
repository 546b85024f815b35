//! The way of one call, as a stack of layers: each is one small file and passes on to the next.
//!
//! | layer | takes | does |
//! |---|---|---|
//! | [`CircuitBreaker`] | a [`Call`] | refuses while the circuit is open; records how the call ended |
//! | [`Deadline`] | a [`Call`] | ends at the deadline or when the caller cancels |
//! | [`Retry`] | a [`Call`] | makes attempts on the present connection; repeats one where it is safe |
//! | [`SessionLease`] | an [`Attempt`] | holds the client's upstream session while the attempt lasts |
//! | [`Exchange`] | an [`Attempt`] | sends the request over the connection and waits for its answer |
//!
//! Credentials that expire are no layer: each HTTP request of a transport carries them, handshakes and
//! streams included, and is repeated with renewed ones (`transport/endpoint.rs`).
//!
//! To add a layer: a unit struct around the next one in `call/`, an `impl` of [`CallService`], and its place
//! in [`send`]. Dispatch is static; the layers have no state of their own, all of it is in [`BackendCore`].
//! Decisions are pure functions in [`policy`](crate::policy).

mod circuit_breaker;
mod deadline;
mod exchange;
mod failure;
mod in_doubt;
pub(crate) mod legacy_probe;
mod retry;
pub(crate) mod session_lease;
pub(crate) mod subscribe;

use std::sync::Arc;

use crate::call::circuit_breaker::CircuitBreaker;
use crate::call::deadline::Deadline;
use crate::call::exchange::Exchange;
use crate::call::in_doubt::InDoubt;
use crate::call::retry::Retry;
use crate::call::session_lease::SessionLease;
use crate::connection::Connection;
use crate::inbound::call_listener::CallListener;
use crate::request::{CallError, CredentialError, Request, Response};
use crate::sharing::core::BackendCore;
use crate::transport::LinkError;

/// Refusal of a request without credentials of its client, where each client needs its own.
const NOT_A_CLIENT: &str = "this request is not made for a client that could have any";

/// Runs one call of a client.
pub(crate) async fn run(core: &Arc<BackendCore>, request: Request<'_>) -> Result<Response, CallError> {
    if core.facts.spec.tells_clients_apart() && request.credentials.is_none() {
        // Fails closed: vmcp's own credentials prove nothing about this client.
        let error = CredentialError { reason: NOT_A_CLIENT.to_owned(), detail: String::new() };
        return Err(LinkError::from(error).into());
    }
    let listener = CallListener::of(&request);
    send(core, &request, &listener).await
}

/// Sends a request through all layers; `listener` takes the messages that come before its answer.
pub(crate) async fn send(
    core: &Arc<BackendCore>,
    request: &Request<'_>,
    listener: &Arc<CallListener>,
) -> Result<Response, CallError> {
    let stack = CircuitBreaker(Deadline(Retry(SessionLease(Exchange))));
    let in_doubt = InDoubt::default();
    let call = Call { core, request, listener, in_doubt: &in_doubt };
    // Boxed: one allocation, instead of the stack's whole state in every future above it. The block makes
    // that state (4 KB) in its place; as an argument it would be made elsewhere and copied.
    Box::pin(async move { stack.call(call).await }).await
}

/// A step of the way of a call: a layer around the next step, or the exchange itself.
trait CallService<Input> {
    type Error;

    fn call(&self, input: Input) -> impl Future<Output = Result<Response, Self::Error>> + Send;
}

/// One call on its way through the layers above the connection.
#[derive(Clone, Copy)]
struct Call<'a> {
    core: &'a Arc<BackendCore>,
    request: &'a Request<'a>,
    listener: &'a Arc<CallListener>,
    in_doubt: &'a InDoubt,
}

/// One attempt of a call, over one connection.
#[derive(Clone)]
struct Attempt<'a> {
    call: Call<'a>,
    /// The main connection; below [`SessionLease`] the client's upstream session, if it has one.
    connection: Arc<Connection>,
}
