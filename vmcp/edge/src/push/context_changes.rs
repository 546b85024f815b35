//! Background task that tells a session of its new list of tools when its context was set.

use std::sync::Weak;

use tokio::sync::broadcast::error::RecvError;
use vmcp_wire::envelope::Notification;
use vmcp_wire::methods;

use super::server_push::ServerPush;

/// Key under which a newer message replaces a waiting one: the list is read once, however often it changed.
const REPLACES: &str = "vmcp:context";

/// Runs until the [`ServerPush`] is dropped.
pub(crate) async fn run(push: Weak<ServerPush>) {
    let Some(mut changes) = push.upgrade().map(|push| push.engine.contexts().changes()) else { return };
    loop {
        let session = match changes.recv().await {
            Ok(session) => session,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        // Upgraded for one change only: the task must not keep the state alive.
        let Some(push) = push.upgrade() else { return };
        let Some(registered) = push.router.sessions.get(session) else { continue };
        let news = Notification { method: methods::TOOLS_CHANGED.into(), params: None };
        if let Some(message) = registered.mailbox.message(&news) {
            registered.mailbox.post(Some(REPLACES), message);
        }
    }
}
