//! Retry layer: makes attempts on the present connection, and repeats one where it is safe.

use vmcp_wire::era::Era;

use crate::call::failure::Failure;
use crate::call::session_lease::{Affected, AttemptError};
use crate::call::{Attempt, Call, CallService};
use crate::policy::breaker::Verdict;
use crate::policy::retry::FailedAttempt;
use crate::request::{Response, RpcOutcome, Transmission};
use crate::transport::{LinkError, RefusedAnswer};

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
            let AttemptError { error, affected } = match self.0.call(attempt).await {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            let transmission = error.transmission();
            if transmission == Transmission::NotSent {
                call.in_doubt.set(false);
            }
            let of_session = matches!(affected, Affected::Session(_));
            if let Affected::Session(Some(session)) = affected {
                tracing::debug!(error = error.detail(), "a client's session has ended, another is opened");
                session.channel.closed.cancel();
            } else if !of_session && main.channel.link.ends_with(&error) {
                core.discard(&main, &error);
            } else if !matches!(error, LinkError::Unsendable(_) | LinkError::Overloaded(_)) {
                core.remember_error(format!("{} failed: {}", request.method, error.detail()));
            }
            let failed = FailedAttempt {
                transmission,
                connection_lost: error.ends_connection(),
                idempotent: request.idempotent,
                keeps_state: of_session || main.keeps_state(),
                retries,
            };
            if !failed.may_repeat() {
                let error = match error {
                    LinkError::SessionLost(Some(answer)) => match *answer {
                        RefusedAnswer::Error(error) => {
                            return Ok(Response { outcome: RpcOutcome::Error(error), era: Era::Legacy });
                        }
                        RefusedAnswer::Failure(error) => error,
                    },
                    error => error,
                };
                let failure = Failure::from(error);
                // A client that crashes its own process does not open the circuit for others.
                let verdict = if of_session { Verdict::Unknown } else { failure.verdict };
                return Err(Failure { verdict, ..failure });
            }
            retries += 1;
        }
    }
}
