//! `GET /admin/status`: the report about the whole process.

use axum::extract::State;
use axum::response::{IntoResponse, Json};
use futures::FutureExt as _;
use vmcp_access::oidc::issuer::IssuerStatus;
use vmcp_config::status::{self, IdentityProviderStatus, StatusReport};
use vmcp_wire::lists::pages::List;

use super::Admin;
use vmcp_engine::engine::{Engine, Snapshot};
use vmcp_engine::optim::names::NameStyle;

/// Returns definitions that were renamed or left out, and once all backends have settled, pinned tools that
/// none of them has.
fn issues(engine: &Engine, snapshot: &Snapshot) -> Vec<String> {
    let catalog = snapshot.unfiltered();
    let mut issues: Vec<_> = catalog.issues.iter().map(ToString::to_string).collect();
    if engine.settled().now_or_never().is_some() {
        let pinned = &snapshot.config.optimizer.pinned_tools;
        let missing = pinned.iter().filter(|name| catalog.tool(name).is_none());
        issues.extend(missing.map(|name| format!("{name}{}", status::PINNED_TOOL_MISSING)));
    }
    if engine.lacks_cache() {
        issues.push(status::CACHE_IN_MEMORY.to_owned());
    }
    issues
}

/// Answers `GET /admin/status` with the report that operators, the command line and the operator read.
pub(super) async fn show(State(admin): State<Admin>) -> impl IntoResponse {
    Json(report(&admin))
}

/// Returns the report about the whole process.
pub(in crate::port) fn report(Admin(inner): &Admin) -> StatusReport {
    let engine = &inner.engine;
    let snapshot = engine.snapshot();
    let view = snapshot.whole_view();
    let connections = engine.metrics().client_connections.get();
    StatusReport {
        name: status::NAME.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uptime_seconds: inner.started.elapsed().as_secs(),
        generation: snapshot.generation,
        connections: u64::try_from(connections).unwrap_or_default(),
        configuration: inner.configuration.as_ref().map(|it| it.borrow().clone()).unwrap_or_default(),
        backends: engine.backend_status(),
        tools: view.visible_tools,
        listed_tools: view.list(List::Tools, NameStyle::Dotted).entries().len(),
        baseline_tokens: view.baseline_tokens,
        embeddings: engine.embedding_status(),
        rerank: engine.rerank_status(),
        identity_providers: snapshot.authentication.status().into_iter().map(identity_provider).collect(),
        issues: issues(engine, &snapshot),
        trusted_tools: engine.trust_report().digest.clone(),
    }
}

/// Returns the report about one identity provider.
fn identity_provider(status: IssuerStatus) -> IdentityProviderStatus {
    let IssuerStatus { issuer, keys, failure } = status;
    let (last_error, failing_since) = failure.unzip();
    IdentityProviderStatus {
        issuer,
        keys,
        last_error: last_error.map(|error| error.to_string()),
        failing_since,
    }
}
