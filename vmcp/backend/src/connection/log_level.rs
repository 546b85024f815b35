//! Sets the log level of a connection to a legacy server (`logging/setLevel`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use tracing::Instrument as _;
use vmcp_wire::era::Era;
use vmcp_wire::level::Level;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;

use crate::connection::Connection;
use crate::inbound::log_level::Telling;
use crate::request::{Request, RpcOutcome};

/// Time for a server to set a level; a call goes on without.
const SET_LEVEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Sets the level if that makes a difference. A server that refuses is not asked again for the same level;
/// one that did not answer is, in the background, so that a call waits for it once only.
pub(crate) async fn ensure(connection: &Arc<Connection>, level: Level) {
    let server = &connection.server;
    let inbound = &connection.channel.inbound;
    let owned = inbound.owner().session().is_some();
    if server.era() == Era::Modern || !server.logs {
        return;
    }
    match inbound.level.choose(level, owned, Instant::now()) {
        Telling::Needless => {}
        // Boxed: rare, and its state is that of an exchange.
        Telling::New => Box::pin(set(connection, level)).await,
        Telling::Again => {
            let connection = Arc::clone(connection);
            tokio::spawn(async move { set(&connection, level).await }.in_current_span());
        }
    }
}

async fn set(connection: &Connection, level: Level) {
    let params = format!(r#"{{"level":"{}"}}"#, level.as_str());
    let Ok(params) = OwnedParams::from_text(params) else { return };
    let request = Request::new(methods::SET_LEVEL, &params);
    match timeout(SET_LEVEL_TIMEOUT, connection.ask(&request)).await {
        Ok(Ok(RpcOutcome::Result(_) | RpcOutcome::Arriving(_))) => return,
        Ok(Ok(RpcOutcome::Error(error))) => {
            return tracing::info!(error = error.get(), "the log level was refused");
        }
        Ok(Err(error)) => tracing::info!(error = error.detail(), "the log level could not be set"),
        Err(_) => tracing::info!("the log level was not set in time"),
    }
    connection.channel.inbound.level.fail(level, Instant::now());
}
