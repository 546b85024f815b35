//! Retry layer: makes attempts on the present connection, and repeats one where it is safe.

use crate::call::failure::Failure;
use crate::call::session_lease::AttemptError;
use crate::call::{Attempt, Call, CallService};
use crate::policy::retry::FailedAttempt;
use crate::request::{Response, Transmission};
use crate::transport::LinkError;

/// Makes an attempt, and more of them as [`FailedAttempt::may_repeat`] allows.
pub(super) struct Retry<Next>(pub(super) Next);

impl<'a, Next> CallService<Call<'a>> for Retry<Next>
where
    Next: CallService<Attempt<'a>, Error = AttemptError> + Sync,
{
    type Error = Failure;

    async fn call(&self, call: Call<'a>) -> Result<Response, Failure> {
        let Call { core, request, .. } = call;
        let mut retries = 0;
        loop {
            let main = core.connected().await?;
            let attempt = Attempt { call, connection: main.clone() };
            let AttemptError { error, session } = match self.0.call(attempt).await {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            let transmission = error.transmission();
            if transmission == Transmission::NotSent {
                call.in_doubt.set(false);
            }
            if let Some(session) = session {
                tracing::debug!("the backend has ended a client's session, another is opened");
                session.channel.closed.cancel();
            } else if main.channel.link.ends_with(&error) {
                core.discard(&main, &error);
            } else if !matches!(error, LinkError::Unsendable(_) | LinkError::Overloaded(_)) {
                core.remember_error(format!("{} failed: {}", request.method, error.detail()));
            }
            let failed = FailedAttempt {
                transmission,
                connection_lost: error.ends_connection(),
                idempotent: request.idempotent,
                keeps_state: main.keeps_state(),
                retries,
            };
            if !failed.may_repeat() {
                return Err(error.into());
            }
            retries += 1;
        }
    }
}
