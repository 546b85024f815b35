//! One request from admission to answer: breaker, deadline, cancellation, and one retry where it is safe.

use std::sync::Arc;
use std::time::Duration;

use vmcp_wire::level::Level;

use crate::breaker::Verdict;
use crate::error::LinkError;
use crate::level;
use crate::listener::Listener;
use crate::lock::lock;
use crate::request::{CallError, Request, Response};
use crate::shared::Shared;

/// A client that allows less does not open the breaker for all others: its haste says nothing about the backend.
const MEANT: Duration = Duration::from_secs(1);

/// Runs one call.
pub(crate) async fn run(shared: &Shared, request: Request<'_>) -> Result<Response, CallError> {
    let permit = Permit::admit(shared)?;
    let listener = Listener::of(&request);
    let result = tokio::select! {
        result = attempt(shared, &request, &listener) => result,
        () = request.cancel.cancelled() => Err(CallError::Cancelled),
        after = listener.clock.expiry(request.deadline, shared.settings.max_call) => {
            Err(CallError::Timeout { after })
        }
    };
    if let Err(error @ CallError::Timeout { .. }) = &result {
        shared.remember_error(format!("{}: {error}", request.method));
    }
    permit.settle(&result, request.deadline);
    result
}

async fn attempt(
    shared: &Shared,
    request: &Request<'_>,
    listener: &Arc<Listener>,
) -> Result<Response, CallError> {
    let mut retried = false;
    loop {
        let connection = shared.connected().await?;
        if let Some(level) = request.client.log_level.as_deref().and_then(Level::parse) {
            level::ensure(&connection, level).await;
        }
        let error = match connection.call(request, listener).await {
            Ok(outcome) => return Ok(Response { outcome, era: connection.server.era() }),
            Err(error) => error,
        };
        if error.ends(&connection.channel.link) {
            shared.discard(&connection, &error);
        } else if !matches!(error, LinkError::Unsendable(_)) {
            shared.remember_error(format!("{} failed: {}", request.method, error.detail()));
        }
        let safe = error.nothing_executed() || (request.idempotent && error.answer_lost());
        if retried || !safe {
            return Err(error.into());
        }
        retried = true;
    }
}

/// Admission by the breaker. Dropped without a result, because the caller went away, it tells the breaker nothing.
struct Permit<'a> {
    shared: &'a Shared,
    verdict: Verdict,
}

impl<'a> Permit<'a> {
    fn admit(shared: &'a Shared) -> Result<Self, CallError> {
        let now = std::time::Instant::now();
        lock(&shared.breaker).admit(now).map_err(|retry_in| CallError::CircuitOpen { retry_in })?;
        Ok(Self { shared, verdict: Verdict::Unknown })
    }

    fn settle(mut self, result: &Result<Response, CallError>, deadline: Duration) {
        self.verdict = match result {
            Ok(_) | Err(CallError::TooLarge { .. }) => Verdict::Healthy,
            Err(CallError::Timeout { .. }) if deadline < MEANT => Verdict::Unknown,
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
        lock(&self.shared.breaker).record(self.verdict, std::time::Instant::now());
    }
}

impl From<LinkError> for CallError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Protocol(reason) => Self::Protocol { reason },
            LinkError::Unsendable(reason) => Self::InvalidRequest { reason },
            LinkError::TooLarge { limit } => Self::TooLarge { limit },
            other => Self::Unavailable { reason: other.to_string() },
        }
    }
}
