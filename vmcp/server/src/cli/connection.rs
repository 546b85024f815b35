//! Where the answers come from: a running server, or an engine of our own over the configuration file.

mod own;
mod remote;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use url::Url;
use vmcp_config::status::{self, BackendState, StatusReport};
use vmcp_config::{Config, Secret, parse_duration};

use super::failure::{Exit, Failure};
use super::options::{Global, no_file};
use super::{block_on, progress};
pub(super) use own::{Need, Own};
pub(super) use remote::AdminPort;

/// How long a server may take to answer its operator.
const ADMIN: Duration = Duration::from_secs(30);
/// After this time a server that was told to look has begun to.
const BEGUN: Duration = Duration::from_millis(200);

/// Which server is asked.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which server")]
pub(super) struct Reach {
    /// MCP endpoint of a running server [default: of the one that runs with the configuration file; if none does, its
    /// backends are started here]
    #[arg(long, value_name = "URL", env = "VMCP_URL")]
    url: Option<Url>,
    /// Admin port of a running server
    #[arg(long, value_name = "URL", env = "VMCP_ADMIN_URL")]
    admin_url: Option<Url>,
    /// Bearer token for the admin port [default: the first of server.adminTokens of the configuration file]
    #[arg(long, value_name = "TOKEN", env = "VMCP_ADMIN_TOKEN", hide_env_values = true)]
    admin_token: Option<Secret>,
    /// Ask no running server: start the backends of the configuration file here
    #[arg(long)]
    local: bool,
    /// How long to wait for backends that are started here
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(super) wait: Duration,
}

/// Reads a duration as the configuration has them.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write it like 500ms, 30s or 1m30s".to_owned())
}

/// A way to ask.
pub(super) enum Connection {
    /// A server.
    Server {
        /// Its MCP endpoint, if known.
        mcp: Option<Url>,
        /// Its admin port, if known.
        admin: Option<AdminPort>,
    },
    /// An engine in this process.
    Own(Own),
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
        let Reach { url, admin_url, admin_token, local, wait } = reach;
        if !local && (url.is_some() || admin_url.is_some()) {
            let admin = admin_url.clone().map(|url| AdminPort { url, token: admin_token.clone() });
            return Ok(Connection::Server { mcp: url.clone(), admin });
        }
        let Some(file) = global.load_if_any()? else {
            // There may still be a server at the usual place.
            let usual = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let found =
                if *local { None } else { probe(usual(8080), usual(9090), admin_token.clone()).await };
            return found.map(|(server, _)| server).ok_or_else(no_file);
        };
        let server = &file.config.server;
        let token = admin_token.as_ref().or(server.admin_tokens.first()).cloned();
        if !local
            && let Some((found, status)) = probe(server.listen, server.admin_listen, token).await
            && serves(&status, &file.config)
        {
            return Ok(found);
        }
        Own::start(file.config, need, *wait).await.map(Connection::Own)
    }

    async fn close(self) {
        if let Connection::Own(own) = self {
            own.stop().await;
        }
    }

    /// Makes a server look at its backends now, also at those that it has not needed yet, and waits until it has or `limit`
    /// has passed. An engine of our own has just looked.
    pub(super) async fn look_again(&self, limit: Duration) -> Result<(), Failure> {
        let Connection::Server { admin: Some(admin), .. } = self else { return Ok(()) };
        let spinner = progress::spinner("asking the server to look at its backends");
        let started = Instant::now();
        admin.post("admin/refresh", limit).await?;
        // It begins at once, and status shows that it has.
        tokio::time::sleep(BEGUN).await;
        while started.elapsed() < limit
            && self.status().await?.backends.iter().any(|one| one.state == BackendState::Connecting)
        {
            tokio::time::sleep(BEGUN).await;
        }
        spinner.finish_and_clear();
        Ok(())
    }

    /// What `/admin/status` says.
    pub(super) async fn status(&self) -> Result<StatusReport, Failure> {
        self.admin("admin/status").await
    }

    /// Asks the admin port.
    pub(super) async fn admin<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        match self {
            Connection::Server { admin: Some(admin), .. } => admin.get(path, ADMIN).await,
            Connection::Server { admin: None, .. } => Err(Failure::new(
                "this is asked of a server's admin port, and only its MCP endpoint is known",
            )
            .exit(Exit::Usage)
            .remedy("add --admin-url http://ADDR:PORT")),
            Connection::Own(own) => own.admin(path).await,
        }
    }

    /// Calls a tool; gives its `CallToolResult`, which may say that it failed.
    pub(super) async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<Value, CallFailure> {
        match self {
            Connection::Server { mcp: Some(url), .. } => remote::call(url, tool, arguments).await,
            Connection::Server { mcp: None, .. } => Err(CallFailure::Other(
                Failure::new("this is asked of a server's MCP endpoint, and only its admin port is known")
                    .exit(Exit::Usage)
                    .remedy("add --url http://ADDR:PORT/mcp"),
            )),
            Connection::Own(own) => own.call(tool, arguments).await,
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

/// The server at these addresses, if one is there and is ours.
async fn probe(
    listen: SocketAddr,
    admin: SocketAddr,
    token: Option<Secret>,
) -> Option<(Connection, StatusReport)> {
    let admin = AdminPort { url: Url::parse(&format!("http://{}", reachable(admin))).ok()?, token };
    let mcp = Url::parse(&format!("http://{}/mcp", reachable(listen))).ok()?;
    let status: StatusReport = admin
        .get("admin/status", remote::PROBE)
        .await
        .ok()
        .filter(|status: &StatusReport| status.name == status::NAME)?;
    Some((Connection::Server { mcp: Some(mcp), admin: Some(admin) }, status))
}

/// Whether a server has the backends of this configuration; if not, it runs with another file.
fn serves(status: &StatusReport, config: &Config) -> bool {
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
