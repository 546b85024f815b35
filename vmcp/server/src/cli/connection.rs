//! Where the answers come from: a running server, or an engine of our own over the configuration file.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use axum::Router;
use clap::Args;
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ClientConfig, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tower::ServiceExt as _;
use url::Url;
use vmcp_backend::State;
use vmcp_model::config::{Config, parse_duration};

use super::failure::{Exit, Failure};
use super::options::Global;
use super::status::Status;
use super::{block_on, output, progress};
use crate::edge::admin::{self, Admin};
use crate::engine::{EmbeddingState, Engine, Options};
use crate::route::{self, Caller};

/// How long a server on this machine may take to show that it is there.
const PROBE: Duration = Duration::from_millis(500);
/// How long a server may take to answer its operator.
const ADMIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);
/// How long the backends of an engine of our own may take to end.
const GRACE: Duration = Duration::from_secs(2);

/// Which server is asked.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Which server (default: the one that runs with the configuration file; else its backends are started here)"
)]
pub(super) struct Reach {
    /// MCP endpoint of a running server
    #[arg(long, value_name = "URL", env = "VMCP_URL")]
    url: Option<Url>,
    /// Admin port of a running server
    #[arg(long, value_name = "URL", env = "VMCP_ADMIN_URL")]
    admin_url: Option<Url>,
    /// Ask no running server: start the backends of the configuration file here
    #[arg(long)]
    local: bool,
    /// How long to wait for backends that are started here
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    wait: Duration,
}

/// Reads a duration as the configuration has them.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write it like 500ms, 30s or 1m30s".to_owned())
}

/// What an engine of our own must have before it is asked.
pub(super) enum Need<'a> {
    /// Every backend has been listed, or has failed.
    Backends,
    /// The same, and every tool has its vector if it can have one.
    Search,
    /// This tool, if there is one.
    Tool(&'a str),
}

/// A way to ask.
pub(super) enum Connection {
    /// A server.
    Server {
        /// Its MCP endpoint, if known.
        mcp: Option<Url>,
        /// Its admin port, if known.
        admin: Option<Url>,
    },
    /// An engine in this process.
    Own {
        /// The engine.
        engine: Engine,
        /// Its admin port, without a port.
        admin: Router,
        /// How long each backend took to be listed or to fail.
        took: BTreeMap<String, Duration>,
    },
}

/// Opens a connection, works with it, and closes it.
pub(super) fn with<T>(
    global: &Global,
    reach: &Reach,
    need: &Need<'_>,
    work: impl AsyncFnOnce(&Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    global.start_logs()?;
    block_on(async {
        let connection = Connection::open(global, reach, need).await?;
        let outcome = work(&connection).await;
        connection.close().await;
        outcome
    })
}

impl Connection {
    async fn open(global: &Global, reach: &Reach, need: &Need<'_>) -> Result<Connection, Failure> {
        let Reach { url, admin_url, local, wait } = reach;
        if !local && (url.is_some() || admin_url.is_some()) {
            return Ok(Connection::Server { mcp: url.clone(), admin: admin_url.clone() });
        }
        let file = match global.load() {
            Ok(file) => file,
            // Without a file, there may still be a server at the usual place.
            Err(failure) => {
                let usual = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
                let found = if *local || global.config_path().is_ok() {
                    None
                } else {
                    probe(usual(8080), usual(9090)).await
                };
                return found.map(|(server, _)| server).ok_or(failure);
            }
        };
        let server = &file.config.server;
        if !local
            && let Some((found, status)) = probe(server.listen, server.admin_listen).await
            && serves(&status, &file.config)
        {
            return Ok(found);
        }
        Connection::start(file.config, need, *wait).await
    }

    /// Starts an engine and waits for what is needed.
    async fn start(config: Config, need: &Need<'_>, limit: Duration) -> Result<Connection, Failure> {
        let options = Options { embed: matches!(need, Need::Search), cached: false, ..Options::default() };
        let engine = Engine::start(config, options).await?;
        let started = Instant::now();
        let spinner = progress::spinner("starting backends");
        let mut took = BTreeMap::new();
        loop {
            let missing: Vec<_> = engine
                .backend_status()
                .into_iter()
                .filter_map(|status| {
                    let waits = matches!(status.state, State::Configured | State::Connecting);
                    let enabled = engine.snapshot().backends.contains_key(status.name.as_str());
                    if !waits {
                        took.entry(status.name.clone()).or_insert_with(|| started.elapsed());
                    }
                    (waits && enabled).then_some(status.name)
                })
                .collect();
            if need.is_met(&engine) {
                break;
            }
            if started.elapsed() > limit {
                output::note(&format!(
                    "{} s have passed (--wait); going on without {}",
                    limit.as_secs(),
                    missing.join(", ")
                ));
                break;
            }
            spinner.set_message(if missing.is_empty() {
                "reading tools".to_owned()
            } else {
                format!("waiting for {}", missing.join(", "))
            });
            tokio::time::sleep(POLL).await;
        }
        spinner.finish_and_clear();
        let admin = admin::router(Admin::new(engine.clone(), None));
        Ok(Connection::Own { engine, admin, took })
    }

    async fn close(self) {
        if let Connection::Own { engine, .. } = self {
            engine.shutdown(GRACE).await;
        }
    }

    /// What `/admin/status` says.
    pub(super) async fn status(&self) -> Result<Status, Failure> {
        self.admin("admin/status").await
    }

    /// Asks the admin port.
    pub(super) async fn admin<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        match self {
            Connection::Server { admin: Some(admin), .. } => get(admin, path, ADMIN).await,
            Connection::Server { admin: None, .. } => Err(Failure::new(
                "this is asked of a server's admin port, and only its MCP endpoint is known",
            )
            .exit(Exit::Usage)
            .remedy("add --admin-url http://ADDR:PORT")),
            Connection::Own { admin, .. } => {
                let request = http::Request::get(format!("/{path}")).body(axum::body::Body::empty())?;
                let response = admin.clone().oneshot(request).await?;
                let body = response.into_body().collect().await?.to_bytes();
                Ok(serde_json::from_slice(&body)?)
            }
        }
    }

    /// Calls a tool; gives its `CallToolResult`, which may say that it failed.
    pub(super) async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<Value, CallFailure> {
        match self {
            Connection::Server { mcp: Some(url), .. } => call_over_http(url, tool, arguments).await,
            Connection::Server { mcp: None, .. } => Err(CallFailure::Other(
                Failure::new("this is asked of a server's MCP endpoint, and only its admin port is known")
                    .exit(Exit::Usage)
                    .remedy("add --url http://ADDR:PORT/mcp"),
            )),
            Connection::Own { engine, .. } => {
                let params =
                    serde_json::value::to_raw_value(&json!({ "name": tool, "arguments": arguments }))?;
                let answer = route::call_tool(engine, &Caller::default(), &params).await;
                match answer.outcome {
                    Ok(result) => Ok(serde_json::from_str(result.get())?),
                    Err(error) => Err(CallFailure::of_protocol(&serde_json::from_str(error.get())?)),
                }
            }
        }
    }
}

impl Need<'_> {
    fn is_met(&self, engine: &Engine) -> bool {
        let settled = engine.settled().now_or_never().is_some();
        match self {
            Need::Backends => settled,
            Need::Search => settled && engine.embedding_status().state != EmbeddingState::Working,
            Need::Tool(name) => settled || engine.snapshot().tool(name).is_some(),
        }
    }
}

/// Why a call has no result.
pub(super) enum CallFailure {
    /// There is no tool of this name.
    UnknownTool,
    /// Anything else.
    Other(Failure),
}

impl CallFailure {
    /// From a JSON-RPC error.
    fn of_protocol(error: &Value) -> CallFailure {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("an error without a message");
        if message.starts_with("Unknown tool") {
            return CallFailure::UnknownTool;
        }
        CallFailure::Other(Failure::new(message))
    }
}

impl<E: Into<Failure>> From<E> for CallFailure {
    fn from(error: E) -> CallFailure {
        CallFailure::Other(error.into())
    }
}

async fn call_over_http(url: &Url, tool: &str, arguments: Map<String, Value>) -> Result<Value, CallFailure> {
    let unreachable = |reason: String| {
        Failure::new(format!("{url}: {reason}")).exit(Exit::Unreachable).remedy(
            "is `vmcp serve` running there? --url names another endpoint, --local starts the backends here",
        )
    };
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    };
    let transport = StreamableHttpClientTransport::from_uri(url.as_str());
    let client = ClientConfig::default().serve_with_lifecycle(transport, lifecycle).await;
    let client = client.map_err(|error| unreachable(error.to_string()))?;
    let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    let answer = client.call_tool_once(request).await;
    // The answer is here; a session that cannot be ended will end by itself.
    let _ = client.cancel().await;
    match answer {
        Ok(CallToolResponse::Complete(result)) => Ok(serde_json::to_value(result)?),
        Ok(_) => Err(Failure::new("the tool asks a question first, which a command line cannot answer")
            .remedy("call it from an MCP client that answers questions of tools (elicitation)")
            .into()),
        Err(ServiceError::McpError(error)) => Err(CallFailure::of_protocol(&serde_json::to_value(error)?)),
        Err(error) => Err(unreachable(error.to_string()).into()),
    }
}

/// The server at these addresses, if one is there and is ours.
async fn probe(listen: SocketAddr, admin: SocketAddr) -> Option<(Connection, Status)> {
    let admin = Url::parse(&format!("http://{}", reachable(admin))).ok()?;
    let mcp = Url::parse(&format!("http://{}/mcp", reachable(listen))).ok()?;
    let status: Status =
        get(&admin, "admin/status", PROBE).await.ok().filter(|status: &Status| status.name == "vmcp")?;
    Some((Connection::Server { mcp: Some(mcp), admin: Some(admin) }, status))
}

/// Whether a server has the backends of this configuration; if not, it runs with another file.
fn serves(status: &Status, config: &Config) -> bool {
    let mut theirs: Vec<_> = status.backends.iter().map(|backend| backend.name.as_str()).collect();
    let mut ours: Vec<_> = config.backends.iter().map(|backend| &*backend.name).collect();
    theirs.sort_unstable();
    ours.sort_unstable();
    theirs == ours
}

/// Where to connect to for something that listens everywhere.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

async fn get<T: DeserializeOwned>(base: &Url, path: &str, timeout: Duration) -> Result<T, Failure> {
    let url = format!("{}/{path}", base.as_str().trim_end_matches('/'));
    let unreachable = |error: reqwest::Error| {
        Failure::new(format!("{url}: {}", root_cause(&error))).exit(Exit::Unreachable).remedy(
            "is `vmcp serve` running there? --admin-url names another port, --local starts the backends here",
        )
    };
    // The server is on this machine or named by its address: no proxy belongs in between.
    let client = reqwest::Client::builder().timeout(timeout).no_proxy().build().map_err(unreachable)?;
    let response =
        client.get(&url).send().await.and_then(reqwest::Response::error_for_status).map_err(unreachable)?;
    response.json().await.map_err(|error| {
        Failure::new(format!("{url} is not the admin port of a vmcp of this version: {}", root_cause(&error)))
    })
}

/// The innermost message: the outer ones only say that something failed.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}
