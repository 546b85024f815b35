//! The way of one call from admission to answer: circuit breaker, deadline, cancellation, and one retry where
//! it is safe.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tracing::Instrument as _;
use vmcp_wire::level::Level;

use crate::connection::Connection;
use crate::connection::log_level;
use crate::inbound::call_listener::CallListener;
use crate::policy::breaker::Verdict;
use crate::request::{CallError, Request, Response, SessionId};
use crate::sharing::core::BackendCore;
use crate::transport::LinkError;

/// Shortest deadline whose expiry counts as a breaker failure: a hastier client says nothing about the
/// backend, and must not open the breaker for all others.
const MIN_BREAKER_DEADLINE: Duration = Duration::from_secs(1);

/// Runs one call of a client.
pub(crate) async fn run(shared: &Arc<BackendCore>, request: Request<'_>) -> Result<Response, CallError> {
    let listener = CallListener::of(&request);
    run_for(shared, request, listener).await
}

/// Runs one call; `listener` takes the messages that come before its answer.
pub(crate) async fn run_for(
    shared: &Arc<BackendCore>,
    request: Request<'_>,
    listener: Arc<CallListener>,
) -> Result<Response, CallError> {
    let permit = Permit::admit(shared)?;
    let mut counts = request.deadline >= MIN_BREAKER_DEADLINE;
    let result = tokio::select! {
        result = attempt(shared, &request, &listener) => result,
        () = request.cancel.cancelled() => Err(CallError::Cancelled),
        (after, asked) = listener.clock.expiry(request.deadline, shared.facts.settings.max_call) => {
            // The backend waited for the client, not the client for the backend: no breaker failure.
            counts &= !asked;
            Err(CallError::Timeout { after })
        }
    };
    if let Err(error @ CallError::Timeout { .. }) = &result {
        shared.remember_error(format!("{}: {error}", request.method));
    }
    permit.settle(&result, counts);
    result
}

async fn attempt(
    shared: &Arc<BackendCore>,
    request: &Request<'_>,
    listener: &Arc<CallListener>,
) -> Result<Response, CallError> {
    let mut retries = 0;
    loop {
        let main = shared.connected().await?;
        let (error, lost) = match once(shared, &main, request, listener).await {
            Ok(response) => return Ok(response),
            Err(failure) => failure,
        };
        if let Some(session) = lost {
            tracing::debug!("the backend has ended a client's session, another is opened");
            session.channel.closed.cancel();
        } else if main.channel.link.ends_with(&error) {
            shared.discard(&main, &error);
        } else if !matches!(error, LinkError::Unsendable(_)) {
            shared.remember_error(format!("{} failed: {}", request.method, error.detail()));
        }
        let safe = error.nothing_executed() || (request.idempotent && error.answer_lost());
        // Two losses may follow each other: a restarted server ends the connection first, then knows the
        // client's session no more.
        if retries == if main.keeps_state() { 2 } else { 1 } || !safe {
            return Err(error.into());
        }
        retries += 1;
    }
}

/// An error, and the client's upstream session if that is what the server does not know any more.
type AttemptError = (LinkError, Option<Arc<Connection>>);

async fn once(
    shared: &Arc<BackendCore>,
    main: &Arc<Connection>,
    request: &Request<'_>,
    listener: &Arc<CallListener>,
) -> Result<Response, AttemptError> {
    let leased = shared.sessions.lease(main, request).await.map_err(|error| (error, None))?;
    let connection = leased.as_ref().map_or(main, |(_, connection)| connection);
    if let Some(level) = request.client.log_level.as_deref().and_then(Level::parse) {
        log_level::ensure(connection, level).await;
    }
    match connection.call(request, listener).await {
        Ok(outcome) => Ok(Response { outcome, era: connection.server.era() }),
        Err(error @ LinkError::SessionLost) => Err((error, leased.map(|(_, connection)| connection))),
        Err(error) => Err((error, None)),
    }
}

/// Sets a client's log level on its open upstream session; a session that is not open gets it with its next
/// call.
pub(crate) fn set_level(shared: &BackendCore, session: SessionId, level: Level) {
    let Some(main) = shared.current.load_full() else { return };
    let connection = if main.keeps_state() { shared.sessions.live_of_client(session) } else { Some(main) };
    if let (Some(connection), Ok(runtime)) = (connection, Handle::try_current()) {
        runtime.spawn(async move { log_level::ensure(&connection, level).await }.in_current_span());
    }
}

/// Admission by the circuit breaker. Dropped without a result, because the caller went away, it records
/// [`Verdict::Unknown`].
struct Permit<'a> {
    shared: &'a BackendCore,
    verdict: Verdict,
}

impl<'a> Permit<'a> {
    fn admit(shared: &'a BackendCore) -> Result<Self, CallError> {
        let now = std::time::Instant::now();
        shared.breaker.lock().admit(now).map_err(|retry_in| CallError::CircuitOpen { retry_in })?;
        Ok(Self { shared, verdict: Verdict::Unknown })
    }

    fn settle(mut self, result: &Result<Response, CallError>, counts: bool) {
        self.verdict = match result {
            Ok(_) | Err(CallError::TooLarge { .. }) => Verdict::Healthy,
            Err(CallError::Timeout { .. }) if !counts => Verdict::Unknown,
            Err(CallError::Timeout { .. } | CallError::Unavailable { .. } | CallError::Protocol { .. }) => {
                Verdict::Failed
            }
            Err(CallError::Cancelled | CallError::CircuitOpen { .. } | CallError::InvalidRequest { .. }) => {
                Verdict::Unknown
            }
        };
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.shared.breaker.lock().record(self.verdict, std::time::Instant::now());
    }
}
