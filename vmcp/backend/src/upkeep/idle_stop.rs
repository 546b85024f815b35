//! Stop of idle programs: a connection to a program that no call has needed for `idleTimeout` is taken out of
//! use. Its definitions stay, and the next call makes another connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use crate::connection::Connection;
use crate::sharing::core::BackendCore;

/// Interval at which a program in use is looked at again, and the least pause of all.
const IN_USE_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Waits until the program, whose start took `start`, is idle, and takes its connection from the calls; for
/// ever if it is never to be stopped.
pub(crate) async fn until_idle(core: &BackendCore, connection: &Arc<Connection>, start: Duration) {
    core.usage.touch();
    loop {
        // Read each time: a reload may set `preconnect`.
        let Some(limit) = core.facts.idle_timeout(start) else { return std::future::pending().await };
        let unused = core.usage.elapsed();
        if unused < limit {
            sleep(limit.saturating_sub(unused).max(IN_USE_POLL_INTERVAL)).await;
            continue;
        }
        if !is_in_use(core) {
            core.forget(connection);
            // A call that has come since holds the connection, or waits for one.
            if !is_in_use(core) {
                return;
            }
            core.current.store(Some(Arc::clone(connection)));
            core.rounds.send_modify(|rounds| {
                rounds.ended += 1;
                rounds.error = None;
            });
        }
        core.usage.touch();
    }
}

/// True while calls are under way, the program is being listed, or clients hold sessions or subscriptions
/// there.
fn is_in_use(core: &BackendCore) -> bool {
    let (_, resources, tasks) = core.subscriptions.filter();
    !core.calls.is_empty()
        || core.listing.load(Ordering::Relaxed)
        || core.sessions.count() > 0
        || resources.is_some()
        || tasks.is_some()
}
