//! An engine inside this process, started over the configuration file for one command when no server runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use tower::ServiceExt as _;
use vmcp_backend::BackendState;
use vmcp_config::Config;
use vmcp_config::status::EmbeddingState;

use super::call_failure::CallFailure;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::{notes, progress};
use crate::cli::process::{self, orphan_reaper};
use vmcp_edge::port::admin::Admin;
use vmcp_edge::port::admin::diagnosis::explain_tool::{self, ExplainRequest, ToolExplanation};
use vmcp_edge::port::admin::operator_call::{self, OperatorAnswer, OperatorCall};
use vmcp_edge::port::admin::routes::report_routes;
use vmcp_engine::access::identity::Identity;
use vmcp_engine::access::policy::{AllowAll, Policy};
use vmcp_engine::engine::{Engine, Options, Snapshot};

/// Interval at which the engine is asked whether it is ready.
const READINESS_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Time that a search waits for backends without a saved listing, if others have one: a backend that is down
/// must not hold up every search.
const UNLISTED_WAIT: Duration = Duration::from_secs(3);
/// Time that backends have to stop; those still running are killed.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// State that the engine must reach before the command asks it.
pub(in crate::cli) enum Readiness<'a> {
    /// Every backend has been listed, or has failed.
    Backends,
    /// As [`Readiness::Backends`], and every tool that can have a vector has it.
    Search,
    /// The tool of this name is in the catalog, or every backend has settled without it.
    Tool(&'a str),
}

impl Readiness<'_> {
    fn is_met(&self, engine: &Engine) -> bool {
        let settled = engine.settled().now_or_never().is_some();
        match self {
            Readiness::Backends => settled,
            Readiness::Search => settled && !is_embedding(engine),
            Readiness::Tool(name) => settled || engine.snapshot().whole_view().tool(name).is_some(),
        }
    }
}

fn is_embedding(engine: &Engine) -> bool {
    engine.embedding_status().state == EmbeddingState::Working
}

/// An engine in this process, and the start times of its backends.
pub(in crate::cli) struct InProcessEngine {
    engine: Engine,
    /// Routes of the admin port, called directly instead of through a socket.
    admin: Router,
    /// The client that calls are made for.
    identity: Identity,
    /// Time each backend took to connect or to fail, by its name.
    pub(in crate::cli) took: BTreeMap<String, Duration>,
}

impl InProcessEngine {
    /// Returns the snapshot in force.
    pub(in crate::cli) fn snapshot(&self) -> Arc<Snapshot> {
        self.engine.snapshot()
    }

    /// Starts an engine for the operator, or for a client with an identity, and waits until `need` is met,
    /// for at most `limit`; then it goes on with what is there.
    pub(in crate::cli) async fn start(
        mut config: Config,
        need: &Readiness<'_>,
        limit: Duration,
        identity: Option<Identity>,
    ) -> Result<InProcessEngine, CommandFailure> {
        // A person waits for the command, so a backend gets one attempt instead of exponential backoff.
        config.proxy.max_connection_retries = 0;
        // The operator who runs the command may read the configuration, with all secrets.
        let operator: Option<Arc<dyn Policy>> = match &identity {
            Some(_) => None,
            None => Some(Arc::new(AllowAll::default())),
        };
        let options = Options {
            embed: matches!(need, Readiness::Search),
            // A search needs no connection to a backend that was listed before.
            cached: matches!(need, Readiness::Search),
            orphan_guard: orphan_reaper::guard(),
            script_worker: process::script_worker(),
            policy: operator,
            ..Options::default()
        };
        let engine = Engine::start(config, options).await?;
        let admin = report_routes(Admin::new(engine.clone(), None));
        let identity = identity.unwrap_or_default();
        let mut engine = InProcessEngine { engine, admin, identity, took: BTreeMap::new() };
        engine.wait(need, limit).await;
        Ok(engine)
    }

    async fn wait(&mut self, need: &Readiness<'_>, limit: Duration) {
        let started = Instant::now();
        let knows_some =
            matches!(need, Readiness::Search) && self.engine.snapshot().whole_view().visible_tools > 0;
        let spinner = progress::spinner("starting backends");
        loop {
            let missing = self.record_start_times(started);
            let missing = if missing.is_empty() { "embeddings".to_owned() } else { missing.join(", ") };
            if need.is_met(&self.engine) {
                break;
            }
            if knows_some && started.elapsed() > UNLISTED_WAIT.min(limit) && !is_embedding(&self.engine) {
                notes::note(&format!("not listed yet: {missing}; `vmcp doctor` says why"));
                break;
            }
            if started.elapsed() > limit {
                notes::note(&format!(
                    "{} s have passed (--wait); going on without: {missing}",
                    limit.as_secs()
                ));
                break;
            }
            spinner.set_message(format!("waiting for {missing}"));
            tokio::time::sleep(READINESS_POLL_INTERVAL).await;
        }
        spinner.finish_and_clear();
    }

    /// Records the time of backends that have settled, and returns the names of the other backends.
    fn record_start_times(&mut self, started: Instant) -> Vec<String> {
        let snapshot = self.engine.snapshot();
        let mut status = self.engine.backend_status();
        status.retain(|status| snapshot.backends.contains_key(status.name.as_str()));
        let is_starting = |state| matches!(state, BackendState::Configured | BackendState::Connecting);
        let (waiting, done): (Vec<_>, Vec<_>) =
            status.into_iter().partition(|status| is_starting(status.state) && status.tools.is_none());
        for status in done {
            self.took.entry(status.name).or_insert_with(|| started.elapsed());
        }
        waiting.into_iter().map(|status| status.name).collect()
    }

    /// Gets a report from the routes of the admin port.
    pub(super) async fn admin<T: DeserializeOwned>(&self, path: &str) -> Result<T, CommandFailure> {
        let request = http::Request::get(format!("/{path}")).body(Body::empty())?;
        let response = self.admin.clone().oneshot(request).await?;
        Ok(serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?)
    }

    /// Explains a tool.
    pub(super) async fn explain_tool(
        &self,
        request: &ExplainRequest,
    ) -> Result<ToolExplanation, CommandFailure> {
        let explained = explain_tool::explain(&self.engine, request).await;
        explained.map_err(|error| CommandFailure::new(error).exit(Exit::Usage))
    }

    /// Calls a tool.
    pub(super) async fn call(&self, call: &OperatorCall) -> Result<OperatorAnswer, CallFailure> {
        Ok(operator_call::call(&self.engine, self.identity.clone().into(), call).await?)
    }

    /// Stops the engine and its backends.
    pub(in crate::cli) async fn stop(self) {
        self.engine.shutdown(SHUTDOWN_TIMEOUT).await;
    }
}
