//! An engine in this process, for one question.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tower::ServiceExt as _;
use vmcp_backend::State;
use vmcp_config::Config;
use vmcp_config::status::EmbeddingState;

use super::CallFailure;
use crate::cli::failure::Failure;
use crate::cli::{output, progress};
use crate::edge::port::admin::{self, Admin};
use crate::engine::{Engine, Options};
use crate::identity::Identity;
use crate::route::{self, Caller};

const POLL: Duration = Duration::from_millis(10);
/// How long backends may take to end.
const GRACE: Duration = Duration::from_secs(2);

/// What the engine must have before it is asked.
pub(in crate::cli) enum Need<'a> {
    /// Every backend has been listed, or has failed.
    Backends,
    /// The same, and every tool has its vector if it can have one.
    Search,
    /// This tool, if there is one.
    Tool(&'a str),
}

impl Need<'_> {
    fn is_met(&self, engine: &Engine) -> bool {
        let settled = engine.settled().now_or_never().is_some();
        match self {
            Need::Backends => settled,
            Need::Search => settled && engine.embedding_status().state != EmbeddingState::Working,
            Need::Tool(name) => settled || engine.snapshot().view(Identity::Anonymous).tool(name).is_some(),
        }
    }
}

/// An engine and what was seen of its start.
pub(in crate::cli) struct Own {
    engine: Engine,
    /// Its admin port, without a port.
    admin: Router,
    /// How long each backend took to be connected or to fail.
    pub(in crate::cli) took: BTreeMap<String, Duration>,
}

impl Own {
    /// Starts an engine and waits for what is needed, for at most `limit`.
    pub(super) async fn start(mut config: Config, need: &Need<'_>, limit: Duration) -> Result<Own, Failure> {
        // Somebody is waiting: one attempt says what there is to say.
        config.proxy.max_connection_retries = 0;
        let options = Options { embed: matches!(need, Need::Search), cached: false, ..Options::default() };
        let engine = Engine::start(config, options).await?;
        let admin = admin::report_routes(Admin::new(engine.clone(), None));
        let mut own = Own { engine, admin, took: BTreeMap::new() };
        own.wait(need, limit).await;
        Ok(own)
    }

    async fn wait(&mut self, need: &Need<'_>, limit: Duration) {
        let started = Instant::now();
        let spinner = progress::spinner("starting backends");
        loop {
            let missing = self.look(started);
            let missing = if missing.is_empty() { "embeddings".to_owned() } else { missing.join(", ") };
            if need.is_met(&self.engine) {
                break;
            }
            if started.elapsed() > limit {
                output::note(&format!(
                    "{} s have passed (--wait); going on without {missing}",
                    limit.as_secs()
                ));
                break;
            }
            spinner.set_message(format!("waiting for {missing}"));
            tokio::time::sleep(POLL).await;
        }
        spinner.finish_and_clear();
    }

    /// Notes which backends are done, and returns those that are not.
    fn look(&mut self, started: Instant) -> Vec<String> {
        let snapshot = self.engine.snapshot();
        let mut status = self.engine.backend_status();
        status.retain(|status| snapshot.backends.contains_key(status.name.as_str()));
        let waits = |state| matches!(state, State::Configured | State::Connecting);
        let (waiting, done): (Vec<_>, Vec<_>) = status.into_iter().partition(|status| waits(status.state));
        for status in done {
            self.took.entry(status.name).or_insert_with(|| started.elapsed());
        }
        waiting.into_iter().map(|status| status.name).collect()
    }

    /// Asks the admin port.
    pub(super) async fn admin<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let request = http::Request::get(format!("/{path}")).body(Body::empty())?;
        let response = self.admin.clone().oneshot(request).await?;
        Ok(serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?)
    }

    /// Calls a tool.
    pub(super) async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<Value, CallFailure> {
        let params = serde_json::value::to_raw_value(&json!({ "name": tool, "arguments": arguments }))?;
        match route::call_tool(&self.engine, &Caller::default(), &params).await.outcome {
            Ok(result) => Ok(serde_json::from_str(result.get())?),
            Err(error) => Err(CallFailure::of_protocol(&serde_json::from_str(error.get())?)),
        }
    }

    /// Stops the backends.
    pub(super) async fn stop(self) {
        self.engine.shutdown(GRACE).await;
    }
}
