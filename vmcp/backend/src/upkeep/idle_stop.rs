//! Stop of idle programs: a connection to a program that no call has needed for `idleTimeout` is taken out of
//! use. Its definitions stay, and the next call makes another connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;
use vmcp_json::text;
use vmcp_wire::lists::tasks;

use crate::connection::Connection;
use crate::request::{Response, RpcOutcome};
use crate::sharing::core::BackendCore;

/// Interval at which a program in use is looked at again, and the least pause of all.
const IN_USE_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time for which a program that began a task counts as used, one day: the task is in its memory, and the
/// client may ask for the outcome late.
const TASK_HOLD: Duration = Duration::from_hours(24);
/// Longest result that is read for a new task; a new task is short.
const MAX_TASK_BYTES: usize = 16 << 10;

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

/// Keeps the program of a call that has become a task.
pub(crate) fn keep_for_task(core: &BackendCore, response: &Response) {
    let RpcOutcome::Result(result) = &response.outcome else { return };
    let may_be_task = core.facts.spec.starts_process()
        && result.size() <= MAX_TASK_BYTES
        && result.contains(&text::quoted(tasks::TASK_ID));
    if may_be_task && tasks::created(result, response.era).is_some() {
        core.usage.hold(TASK_HOLD);
    }
}
