//! Session lease layer: holds the client's upstream session, at servers that keep state, while an attempt
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
use crate::transport::LinkError;

/// Takes the attempt from the main connection to the client's upstream session, opened first if need be.
pub(super) struct SessionLease<Next>(pub(super) Next);

/// Failure of one attempt.
pub(super) struct AttemptError {
    pub(super) error: LinkError,
    /// The client's upstream session, if that is what the server does not know any more.
    pub(super) session: Option<Arc<Connection>>,
}

impl From<LinkError> for AttemptError {
    fn from(error: LinkError) -> Self {
        Self { error, session: None }
    }
}

impl<'a, Next> CallService<Attempt<'a>> for SessionLease<Next>
where
    Next: CallService<Attempt<'a>, Error = LinkError> + Sync,
{
    type Error = AttemptError;

    async fn call(&self, attempt: Attempt<'a>) -> Result<Response, AttemptError> {
        let Attempt { call, connection: main } = attempt;
        let leased = call.core.sessions.lease(&main, call.request).await?;
        let (lease, session) = leased.unzip();
        let connection = session.clone().unwrap_or(main);
        if let Some(level) = call.request.client.log_level.as_deref().and_then(Level::parse) {
            log_level::ensure(&connection, level).await;
        }
        let mut response = self.0.call(Attempt { call, connection }).await.map_err(|error| {
            let session = session.filter(|_| matches!(error, LinkError::SessionLost));
            AttemptError { error, session }
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
    let connection = if main.keeps_state() { core.sessions.live_of_client(session) } else { Some(main) };
    if let (Some(connection), Ok(runtime)) = (connection, Handle::try_current()) {
        runtime.spawn(async move { log_level::ensure(&connection, level).await }.in_current_span());
    }
}
