//! Sets the log level of a connection to a legacy server (`logging/setLevel`).

use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::timeout;
use vmcp_wire::era::Era;
use vmcp_wire::level::Level;
use vmcp_wire::methods;

use crate::connection::Connection;
use crate::request::{Request, RpcOutcome};

/// Time for a server to set a level; a call goes on without.
const SET_LEVEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Sets the level if that makes a difference. A server that refuses is not asked again for the same level.
pub(crate) async fn ensure(connection: &Connection, level: Level) {
    let server = &connection.server;
    let inbound = &connection.channel.inbound;
    let owned = inbound.owner.is_some_and(|owner| owner.session.is_some());
    if server.era() == Era::Modern || !server.logs || !inbound.level.choose(level, owned) {
        return;
    }
    let params = format!(r#"{{"level":"{}"}}"#, level.as_str());
    let Ok(params) = RawValue::from_string(params) else { return };
    let request = Request::new(methods::SET_LEVEL, &params);
    match timeout(SET_LEVEL_TIMEOUT, connection.ask(&request)).await {
        Ok(Ok(RpcOutcome::Result(_))) => {}
        Ok(Ok(RpcOutcome::Error(error))) => tracing::info!(error = error.get(), "the log level was refused"),
        Ok(Err(error)) => tracing::info!(error = error.detail(), "the log level could not be set"),
        Err(_) => tracing::info!("the log level was not set in time"),
    }
}
