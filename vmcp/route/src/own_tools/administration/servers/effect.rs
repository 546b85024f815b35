//! Effect of a change: waits until the configuration is in force, and for a server that was switched on until
//! it has answered, each within a bound.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use vmcp_backend::BackendState;
use vmcp_engine::engine::{Engine, Snapshot};

use super::answer::{Changed, NeededValue, refused};
use crate::call::cause;
use crate::caller::CallContext;
use crate::own_tools::own_answer::Refusal;

/// Time within which a change is in force; beyond it, the answer says that it is written only.
const IN_FORCE_WITHIN: Duration = Duration::from_secs(5);
/// Time within which a server should answer; beyond it, the answer says that vmcp keeps trying.
const CONNECTED_WITHIN: Duration = Duration::from_secs(10);

/// Waits for an added server.
pub(super) async fn added(context: CallContext<'_>, name: String, enabled: bool) -> Result<Changed, Refusal> {
    if enabled {
        return connected(context, name, "added").await;
    }
    let known = |snapshot: &Snapshot| snapshot.config.backends.iter().any(|one| *one.name == *name);
    in_force(context.engine, known).await?;
    let message = format!("Server '{name}' added, switched off: enable_mcp_server connects it");
    Ok(Changed::offline(name, false, message))
}

/// Waits for a server to be listed that connects once the user has set values in a place.
pub(super) async fn waits_for_values(
    context: CallContext<'_>,
    name: String,
    needs: &[NeededValue],
    needed_in: &str,
) -> Result<Changed, Refusal> {
    let known = |snapshot: &Snapshot| snapshot.config.backends.iter().any(|one| *one.name == *name);
    in_force(context.engine, known).await?;
    let lines: Vec<_> = needs.iter().map(|need| format!("{}=…", need.variable)).collect();
    let message = format!(
        "Server '{name}' installed; it connects once the user has added to {needed_in}: {}",
        lines.join(", ")
    );
    Ok(Changed::offline(name, true, message))
}

/// Waits for a server that was switched on.
pub(super) async fn enabled(context: CallContext<'_>, name: String) -> Result<Changed, Refusal> {
    connected(context, name, "enabled").await
}

/// Waits for a server that was switched off.
pub(super) async fn disabled(context: CallContext<'_>, name: String) -> Result<Changed, Refusal> {
    in_force(context.engine, |snapshot| !snapshot.backends.contains_key(&*name)).await?;
    let message = format!("Server '{name}' disabled");
    Ok(Changed::offline(name, false, message))
}

/// Waits for a removed server to be gone.
pub(super) async fn removed(context: CallContext<'_>, name: String) -> Result<Changed, Refusal> {
    let known = |snapshot: &Snapshot| snapshot.config.backends.iter().any(|one| *one.name == *name);
    in_force(context.engine, |snapshot| !known(snapshot)).await?;
    let message = format!("Server '{name}' removed");
    Ok(Changed::offline(name, false, message))
}

/// Waits until a server is in force and has answered.
async fn connected(context: CallContext<'_>, name: String, done: &str) -> Result<Changed, Refusal> {
    let engine = context.engine;
    in_force(engine, |snapshot| snapshot.backends.contains_key(&*name)).await?;
    let servers = [Arc::<str>::from(name.as_str())];
    let has_listed = timeout(CONNECTED_WITHIN, engine.refresh_and_wait(&servers, false)).await.is_ok();
    let (snapshot, principal) = (engine.snapshot(), &context.caller.principal);
    engine.prepare(&snapshot, principal).await;
    let view = snapshot.view(principal);
    let status = snapshot.backends.get(&*name).map(vmcp_backend::Backend::status);
    let connected = status.as_ref().is_some_and(|status| status.state == BackendState::Connected);
    let last_error = status.and_then(|status| status.last_error).filter(|_| !connected);
    let message = match (connected, has_listed) {
        (true, _) => format!("Server {done} and connected"),
        (false, true) => format!("Server {done}, but it is not connected yet; vmcp keeps trying"),
        (false, false) => format!(
            "Server {done}, but it has not answered within {} seconds; vmcp keeps trying",
            CONNECTED_WITHIN.as_secs()
        ),
    };
    Ok(Changed {
        success: true,
        enabled: true,
        connected,
        tool_count: view.tools().filter(|tool| *tool.backend == *name).count(),
        message,
        last_error: last_error
            .filter(|_| cause::may_be_shown(&snapshot, principal))
            .map(|error| cause::shortened(&error)),
        installed: None,
        server: name,
    })
}

/// Waits until a snapshot is as wanted.
async fn in_force(engine: &Engine, is_wanted: impl Fn(&Snapshot) -> bool) -> Result<(), Refusal> {
    // Subscribed before the first look, so that no change is missed.
    let mut configurations = engine.configurations();
    let wait = async {
        while !is_wanted(&engine.snapshot()) {
            if configurations.changed().await.is_err() {
                return;
            }
        }
    };
    // After the time-out, the last snapshot decides.
    let _ = timeout(IN_FORCE_WITHIN, wait).await;
    if is_wanted(&engine.snapshot()) {
        return Ok(());
    }
    let is_resource = engine.registrar().is_some_and(|registrar| registrar.runs_programs_in_pods());
    let look = if is_resource { "`kubectl describe` of its resource" } else { "`vmcp status`" };
    Err(refused(format!(
        "the change is written, but not in force after {} seconds; {look} and the log say why",
        IN_FORCE_WITHIN.as_secs()
    )))
}
