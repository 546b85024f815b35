//! One request from admission to answer: breaker, deadline, cancellation, and one retry where it is safe.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::breaker::Verdict;
use crate::error::LinkError;
use crate::inbound::Listener;
use crate::lock::lock;
use crate::request::{CallError, Request, Response};
use crate::shared::Shared;

pub(crate) async fn run(shared: &Shared, request: Request<'_>) -> Result<Response, CallError> {
    let permit = Permit::admit(shared)?;
    let listener = Listener {
        active: Arc::new(Mutex::new(Instant::now())),
        notifications: request.notifications.clone(),
    };
    let result = tokio::select! {
        result = attempt(shared, &request, &listener) => result,
        () = request.cancel.cancelled() => Err(CallError::Cancelled),
        after = expiry(&listener.active, request.deadline, shared.settings.max_call) => {
            Err(CallError::Timeout { after })
        }
    };
    permit.settle(&result);
    result
}

async fn attempt(shared: &Shared, request: &Request<'_>, listener: &Listener) -> Result<Response, CallError> {
    let mut retried = false;
    loop {
        let connection = shared.connected().await?;
        let error = match connection.call(request, listener).await {
            Ok(outcome) => return Ok(Response { outcome, era: connection.server.era() }),
            Err(error) => error,
        };
        if error.ends_connection() {
            shared.discard(&connection, &error);
        }
        let safe = error.nothing_executed() || (request.idempotent && error.ends_connection());
        if retried || !safe {
            return Err(error.into());
        }
        retried = true;
    }
}

/// Ends when nothing has happened for `deadline`, or after `cap` whatever happens. Returns how long it was.
async fn expiry(active: &Mutex<Instant>, deadline: Duration, cap: Duration) -> Duration {
    let start = Instant::now();
    // A caller who allows more than the cap means it.
    let last = start + cap.max(deadline);
    loop {
        let next = (*lock(active) + deadline).min(last);
        if next <= Instant::now() {
            return start.elapsed();
        }
        sleep_until(next).await;
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

    fn settle(mut self, result: &Result<Response, CallError>) {
        self.verdict = match result {
            Ok(_) | Err(CallError::TooLarge { .. }) => Verdict::Healthy,
            Err(CallError::Cancelled | CallError::CircuitOpen { .. }) => Verdict::Unknown,
            Err(CallError::Timeout { .. } | CallError::Unavailable { .. } | CallError::Protocol { .. }) => {
                Verdict::Failed
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
            LinkError::TooLarge { limit } => Self::TooLarge { limit },
            other => Self::Unavailable { reason: other.to_string() },
        }
    }
}
