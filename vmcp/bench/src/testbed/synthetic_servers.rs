//! MCP servers in this process that offer the synthetic tools, and an engine over them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use vmcp_config::Config;
use vmcp_engine::engine::{Engine, Options, Storage};

use crate::synthetic_tools::{InstantEmbedder, SyntheticTool};

/// Time in which every tool of the largest catalog must have its vector.
const EMBEDDING_TIMEOUT: Duration = Duration::from_mins(5);
/// Interval at which the engine is polled.
const EMBEDDING_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// MCP servers at one port, until dropped.
pub(crate) struct SyntheticServers {
    names: Vec<String>,
    address: String,
    _serving: AbortOnDropHandle<()>,
}

/// Entries of `tools/list`, by server.
type Lists = Arc<BTreeMap<String, Vec<Box<RawValue>>>>;

impl SyntheticServers {
    /// Starts one server for each server name among the tools.
    pub(crate) async fn start(definitions: &[SyntheticTool]) -> Result<SyntheticServers> {
        let mut lists: BTreeMap<String, Vec<Box<RawValue>>> = BTreeMap::new();
        for definition in definitions {
            lists.entry(definition.server.clone()).or_default().push(definition.raw.clone());
        }
        let names = lists.keys().cloned().collect();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}", listener.local_addr()?);
        let app = Router::new().route("/{server}/mcp", post(answer)).with_state(Arc::new(lists));
        let serving = tokio::spawn(async move {
            // Serving ends when the task is aborted.
            let _ = axum::serve(listener, app).await;
        });
        Ok(SyntheticServers { names, address, _serving: AbortOnDropHandle::new(serving) })
    }

    /// Returns a configuration with all servers. Reloads vary `max_tools`.
    pub(crate) fn config(&self, max_tools: usize) -> Result<Config> {
        let backends = self
            .names
            .iter()
            .map(|name| json!({"name": name, "url": format!("{}/{name}/mcp", self.address)}));
        let config = json!({
            "backends": backends.collect::<Vec<_>>(),
            "server": {"listen": "127.0.0.1:0", "adminListen": "127.0.0.1:0"},
            "optimizer": {"search": {"maxTools": max_tools}},
        });
        // JSON is YAML.
        Ok(vmcp_config::load(&config.to_string(), "bench.yaml", &|_| None)?.config)
    }

    /// Returns an engine over the servers, once all `tools` tools have their vectors.
    pub(crate) async fn engine(&self, tools: usize) -> Result<Engine> {
        self.engine_of(self.config(8)?, tools).await
    }

    /// Returns an engine under policies, once all `tools` tools have their vectors.
    pub(crate) async fn engine_under(&self, policies: &[String], tools: usize) -> Result<Engine> {
        let text = json!({"incomingAuth": {"authz": {"policies": policies}}}).to_string();
        let mut config = self.config(8)?;
        config.authz = vmcp_config::load(&text, "policies", &|_| None)?.config.authz;
        self.engine_of(config, tools).await
    }

    async fn engine_of(&self, config: Config, tools: usize) -> Result<Engine> {
        let options = Options {
            storage: Storage::Memory,
            embedder: Some(Arc::new(InstantEmbedder)),
            ..Options::default()
        };
        let engine = Box::pin(Engine::start(config, options)).await?;
        let started = Instant::now();
        loop {
            let status = engine.embedding_status();
            if (status.wanted, status.embedded) == (tools, tools) {
                return Ok(engine);
            }
            if started.elapsed() > EMBEDDING_TIMEOUT {
                bail!("{} of {tools} tools are embedded: {:?}", status.embedded, engine.backend_status());
            }
            tokio::time::sleep(EMBEDDING_POLL_INTERVAL).await;
        }
    }
}

async fn answer(
    State(lists): State<Lists>,
    Path(server): Path<String>,
    Json(message): Json<Value>,
) -> Response {
    let Some(id) = message.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let method = message.get("method").and_then(Value::as_str).context("a method");
    let outcome = match method {
        Ok("initialize") => (
            "result",
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": server, "version": "1"}}),
        ),
        Ok("tools/list") => ("result", json!({"tools": lists.get(&server)})),
        Ok("ping") => ("result", json!({})),
        _ => ("error", json!({"code": -32601, "message": "method not found"})),
    };
    let mut body = json!({"jsonrpc": "2.0", "id": id});
    if let Some(object) = body.as_object_mut() {
        object.insert(outcome.0.to_owned(), outcome.1);
    }
    Json(body).into_response()
}
