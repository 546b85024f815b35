//! Orders of the console's forms. Each has passed the checks of its form, and is recorded for audit.

use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use tokio::time::timeout;
use vmcp_console::links::link;
use vmcp_engine::engine::Engine;
use vmcp_engine::server_registrar::ServerChange;
use vmcp_engine::telemetry::tool_metrics::Filter;

use super::access::ConsoleDoor;
use super::catalog::{Done, NamedTool, unknown};

/// Time within which a written change of the configuration is in force.
const IN_FORCE_WITHIN: Duration = Duration::from_secs(5);

/// Answers `POST /console/refresh`.
pub(super) async fn refresh(State(door): State<ConsoleDoor>, Query(query): Query<NamedTool>) -> Response {
    // Without a name, every server would be meant.
    if query.server.is_empty() || !door.engine().refresh(Some(&query.server)) {
        return unknown("server", &query.server).into_response();
    }
    back("server", &[("server", &query.server)], Done::Refreshed)
}

/// Answers `POST /console/restart`.
pub(super) async fn restart(State(door): State<ConsoleDoor>, Query(query): Query<NamedTool>) -> Response {
    match door.engine().snapshot().backends.get(query.server.as_str()) {
        Some(backend) => backend.restart(),
        None => return unknown("enabled server", &query.server).into_response(),
    }
    back("server", &[("server", &query.server)], Done::Restarted)
}

/// Answers `POST /console/approve`: trusts the definition that the person has read, and no later one.
pub(super) async fn approve(State(door): State<ConsoleDoor>, Query(query): Query<NamedTool>) -> Response {
    match door.engine().approve_tool(&query.server, &query.tool, Some(&query.hash)).await {
        Ok(true) => back("tool", &[("server", &query.server), ("tool", &query.tool)], Done::Approved),
        Ok(false) => {
            let words = "the definition changed again, or no longer waits for approval: load the tool's page again, and \
                         read the difference that it shows now\n";
            (StatusCode::CONFLICT, words).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// Answers `POST /console/forget`: the figures of a tool, here and at the other replicas.
pub(super) async fn forget(State(door): State<ConsoleDoor>, Query(query): Query<NamedTool>) -> Response {
    // Without a name, every tool would be meant.
    if query.server.is_empty() || query.tool.is_empty() {
        return unknown("tool", &query.tool).into_response();
    }
    let filter = Filter { backend: Some(query.server.clone()), tool: Some(query.tool.clone()) };
    door.engine().reset_metrics(filter, false).await;
    back("tool", &[("server", &query.server), ("tool", &query.tool)], Done::Forgotten)
}

/// Answers `POST /console/enable`.
pub(super) async fn enable(State(door): State<ConsoleDoor>, Query(query): Query<NamedTool>) -> Response {
    switch(door.engine(), &query.server, true).await
}

/// Answers `POST /console/disable`.
pub(super) async fn disable(State(door): State<ConsoleDoor>, Query(query): Query<NamedTool>) -> Response {
    switch(door.engine(), &query.server, false).await
}

/// Switches a server on or off in the configuration, and answers once that is in force.
async fn switch(engine: &Engine, server: &str, enabled: bool) -> Response {
    let Some(registrar) = engine.registrar() else {
        let words =
            "this process does not change its servers: change the resource that configures the server\n";
        return (StatusCode::CONFLICT, words).into_response();
    };
    if !engine.snapshot().config.backends.iter().any(|backend| *backend.name == *server) {
        return unknown("server", server).into_response();
    }
    let change = ServerChange::SetEnabled { name: server.to_owned(), enabled };
    if let Err(error) = registrar.change(change).await {
        return (StatusCode::CONFLICT, format!("{error}\n")).into_response();
    }
    // Subscribed first: a snapshot that comes after the look wakes the task.
    let mut snapshots = engine.snapshots();
    let in_force = async {
        while engine.snapshot().backends.contains_key(server) != enabled {
            if snapshots.changed().await.is_err() {
                return;
            }
        }
    };
    // Beyond the limit, the next page shows the server as it is.
    let _ = timeout(IN_FORCE_WITHIN, in_force).await;
    back("server", &[("server", server)], if enabled { Done::Enabled } else { Done::Disabled })
}

fn back(page: &str, query: &[(&str, &str)], done: Done) -> Response {
    let query: Vec<_> = query.iter().copied().chain([("done", done.word())]).collect();
    Redirect::to(&link(page, &query)).into_response()
}
