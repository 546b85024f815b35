//! The log level of a connection to a legacy server.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::timeout;
use vmcp_wire::era::Era;
use vmcp_wire::level::Level;
use vmcp_wire::methods;

use crate::connection::Connection;
use crate::request::{Outcome, Request};

/// How long a server may take to set a level.
const PATIENCE: Duration = Duration::from_secs(5);

/// The level that was asked for last, if any: 0, or 1 for the first of `Level::ALL`, and so on.
#[derive(Debug, Default)]
pub(crate) struct Chosen(AtomicU8);

impl Chosen {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Notes the level. Whether the server must be told: of any other one if the connection is `owned` by one client,
    /// else only of a more verbose one.
    fn choose(&self, level: Level, owned: bool) -> bool {
        let wanted = level as u8 + 1;
        let differs = |old: u8| old == 0 || if owned { old != wanted } else { old > wanted };
        let choice = |old| differs(old).then_some(wanted);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, choice).is_ok()
    }
}

/// Sets the level where that makes a difference. A server that refuses is not asked again.
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
    match timeout(PATIENCE, connection.ask(&request)).await {
        Ok(Ok(Outcome::Result(_))) => {}
        Ok(Ok(Outcome::Error(error))) => tracing::info!(error = error.get(), "the log level was refused"),
        Ok(Err(error)) => tracing::info!(error = error.detail(), "the log level could not be set"),
        Err(_) => tracing::info!("the log level was not set in time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_connection_only_becomes_more_verbose() {
        let shared = Chosen::default();
        assert!(!shared.is_set());
        let told: Vec<bool> = [Level::Warning, Level::Error, Level::Debug, Level::Info]
            .into_iter()
            .map(|level| shared.choose(level, false))
            .collect();
        assert_eq!(told, [true, false, true, false]);
        let own = Chosen::default();
        assert!(own.choose(Level::Debug, true) && !own.choose(Level::Debug, true));
        assert!(own.choose(Level::Error, true) && own.is_set());
    }
}
