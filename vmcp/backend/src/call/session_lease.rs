//! Session lease layer: holds the client's upstream session, where it has one of its own, while an attempt
//! lasts.

use std::sync::Arc;

use tokio::runtime::Handle;
use tracing::Instrument as _;
use vmcp_wire::level::Level;

use crate::call::{Attempt, CallService};
use crate::connection::Connection;
use crate::connection::log_level;
use crate::request::{Response, RpcOutcome, SessionId};
use crate::sharing::core::BackendCore;
use crate::transport::{Link, LinkError};

/// Takes the attempt from the main connection to the client's upstream session, opened first if need be.
pub(super) struct SessionLease<Next>(pub(super) Next);

/// Failure of one attempt.
pub(super) struct AttemptError {
    pub(super) error: LinkError,
    pub(super) affected: Affected,
}

/// The connection that a failure says something about.
pub(super) enum Affected {
    /// The main connection, or the server itself.
    Main,
    /// The client's upstream session alone, which has ended if it is given.
    Session(Option<Arc<Connection>>),
}

impl From<LinkError> for AttemptError {
    fn from(error: LinkError) -> Self {
        Self { error, affected: Affected::Main }
    }
}

impl<'a, Next> CallService<Attempt<'a>> for SessionLease<Next>
where
    Next: CallService<Attempt<'a>, Error = LinkError> + Sync,
{
    type Error = AttemptError;

    async fn call(&self, attempt: Attempt<'a>) -> Result<Response, AttemptError> {
        let Attempt { call, connection: main } = attempt;
        // A process or an event stream that a client has for itself says nothing about those of others.
        let is_apart = matches!(main.channel.link, Link::Duplex(_));
        let leased = call.core.sessions.lease(&main, call.request, call.listener).await;
        let leased = leased.map_err(|error| {
            let affected = if is_apart { Affected::Session(None) } else { Affected::Main };
            AttemptError { error, affected }
        })?;
        let (lease, session) = leased.unzip();
        let connection = session.clone().unwrap_or(main);
        if let Some(level) = call.request.client.log_level.as_deref().and_then(Level::parse) {
            log_level::ensure(&connection, level).await;
        }
        let mut response = self.0.call(Attempt { call, connection }).await.map_err(|error| {
            let Some(session) = session else { return error.into() };
            let has_ended = matches!(error, LinkError::SessionLost(_))
                || is_apart && session.channel.link.ends_with(&error);
            let affected = match (has_ended, is_apart) {
                (true, _) => Affected::Session(Some(session)),
                (false, true) => Affected::Session(None),
                (false, false) => Affected::Main,
            };
            AttemptError { error, affected }
        })?;
        if let RpcOutcome::Arriving(arriving) = &mut response.outcome {
            arriving.keep(lease);
        }
        Ok(response)
    }
}

/// Sets a client's log level on its open upstream session; a session that is not open gets it with its next
/// call.
pub(crate) fn set_level(core: &BackendCore, session: SessionId, level: Level) {
    let Some(main) = core.current.load_full() else { return };
    let own = core.sessions.live_of_client(session);
    let connection = own.or_else(|| (!main.keeps_state()).then_some(main));
    if let (Some(connection), Ok(runtime)) = (connection, Handle::try_current()) {
        runtime.spawn(async move { log_level::ensure(&connection, level).await }.in_current_span());
    }
}
