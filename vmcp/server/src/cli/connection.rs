//! The connection of a command to the tools it asks about: a running server, or, if none runs with the
//! configuration file, an engine in this process over the same file.

mod call_failure;
mod claims_file;
mod consent;
pub(super) mod http_client;
mod in_process;
mod remote_server;
mod server_options;
pub(super) mod tool_report;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use url::Url;
use vmcp_config::status::{self, BackendState, BackendStatus, StatusReport};
use vmcp_config::{Config, Secret};
use vmcp_edge::port::admin::diagnosis::explain_tool::{ExplainRequest, ToolExplanation};
use vmcp_edge::port::admin::operator_call::{OperatorAnswer, OperatorCall};

pub(super) use self::call_failure::CallFailure;
pub(super) use self::claims_file::ClaimsFile;
pub(super) use self::consent::Consent;
pub(super) use self::in_process::{InProcessEngine, Readiness};
pub(super) use self::remote_server::{AdminPort, McpPort};
pub(super) use self::server_options::{ServerOptions, duration};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::progress;
use crate::cli::options::{GlobalOptions, no_file};
use crate::cli::process::block_on;
use crate::cli::running_server::{RunningServer, connectable, local_socket, mcp_url};
use vmcp_engine::access::identity::Identity;

/// Time that a server has to answer a request to its admin port.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which a refresh is polled. The first poll comes after it too: by then the refresh shows in the
/// status.
const REFRESH_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A running server or an engine in this process.
pub(super) enum Connection {
    /// A running server.
    Server {
        /// MCP endpoint, if known.
        mcp: Option<McpPort>,
        /// Admin port, if known.
        admin: Option<AdminPort>,
    },
    /// An engine in this process, over the configuration file.
    InProcess(InProcessEngine),
}

/// Starts the logs, opens a connection, runs `work` with it, and closes it.
pub(super) fn with_connection<T>(
    global: &GlobalOptions,
    server_options: &ServerOptions,
    need: &Readiness<'_>,
    work: impl AsyncFnOnce(&Connection) -> Result<T, CommandFailure>,
) -> Result<T, CommandFailure> {
    global.start_logs()?;
    block_on(async {
        let connection = Connection::open(global, server_options, need).await?;
        let outcome = work(&connection).await;
        connection.close().await;
        outcome
    })
}

/// As [`with_connection`], for a client with these claims and under the policies of the configuration file:
/// always in this process.
pub(super) fn with_identity<T>(
    global: &GlobalOptions,
    claims: ClaimsFile,
    need: &Readiness<'_>,
    wait: Duration,
    work: impl AsyncFnOnce(&Connection) -> Result<T, CommandFailure>,
) -> Result<T, CommandFailure> {
    let file = global.load_or_running()?.ok_or_else(no_file)?;
    global.start_logs()?;
    block_on(async {
        let identity = Some(claims.into_identity());
        let started = InProcessEngine::start(file.config, need, wait, identity).await;
        let connection = started.map(Connection::InProcess)?;
        let outcome = work(&connection).await;
        connection.close().await;
        outcome
    })
}

/// As [`with_connection`], but an engine in this process applies the policies of the configuration file to a
/// client, as a server does.
pub(super) fn with_policies<T>(
    global: &GlobalOptions,
    server_options: &ServerOptions,
    identity: Identity,
    need: &Readiness<'_>,
    work: impl AsyncFnOnce(&Connection) -> Result<T, CommandFailure>,
) -> Result<T, CommandFailure> {
    global.start_logs()?;
    block_on(async {
        let server =
            if server_options.local { None } else { Connection::find_server(global, server_options).await? };
        let connection = if let Some(server) = server {
            server
        } else {
            let file = global.load_or_running()?.ok_or_else(no_file)?;
            let started = InProcessEngine::start(file.config, need, server_options.wait, Some(identity));
            Connection::InProcess(started.await?)
        };
        let outcome = work(&connection).await;
        connection.close().await;
        outcome
    })
}

/// As [`with_connection`], for commands that need a running server.
pub(super) fn with_server<T>(
    global: &GlobalOptions,
    server_options: &ServerOptions,
    work: impl AsyncFnOnce(&Connection) -> Result<T, CommandFailure>,
) -> Result<T, CommandFailure> {
    with_server_if_any(global, server_options, async |connection| match connection {
        Some(connection) => work(connection).await,
        None => Err(CommandFailure::new("no vmcp runs with this configuration")
            .exit(Exit::Unreachable)
            .remedy("start one: `vmcp start`, or in this terminal `vmcp serve`")),
    })
}

/// As [`with_server`], for commands that can do without one.
pub(super) fn with_server_if_any<T>(
    global: &GlobalOptions,
    server_options: &ServerOptions,
    work: impl AsyncFnOnce(Option<&Connection>) -> Result<T, CommandFailure>,
) -> Result<T, CommandFailure> {
    global.start_logs()?;
    block_on(async {
        let connection = Connection::find_server(global, server_options).await?;
        work(connection.as_ref()).await
    })
}

/// Starts the logs, starts an engine over `config` in this process, runs `work` with it, and stops it.
pub(super) fn with_engine<T>(
    global: &GlobalOptions,
    config: Config,
    need: &Readiness<'_>,
    wait: Duration,
    work: impl AsyncFnOnce(&Connection) -> Result<T, CommandFailure>,
) -> Result<T, CommandFailure> {
    global.start_logs()?;
    block_on(async {
        let connection = InProcessEngine::start(config, need, wait, None).await.map(Connection::InProcess)?;
        let outcome = work(&connection).await;
        connection.close().await;
        outcome
    })
}

/// Returns the address of the web console at an admin port, once it has answered.
pub(super) async fn console_at(admin: Url, timeout: Duration) -> Result<String, CommandFailure> {
    AdminPort { url: admin, token: None, socket: None }.console_url(timeout).await
}

impl Connection {
    /// Returns the running server: the named server, else the server with the configuration file.
    async fn find_server(
        global: &GlobalOptions,
        server_options: &ServerOptions,
    ) -> Result<Option<Connection>, CommandFailure> {
        if server_options.names_server() {
            return Ok(Some(Connection::named(server_options)));
        }
        let ServerOptions { admin_token, token, .. } = server_options;
        let found = Connection::recorded(global, admin_token.as_ref(), &global.config_or_running()?).await;
        Ok(found.map(|server| server.with_token(token.as_ref())))
    }

    /// Returns the server at the addresses that the options name.
    fn named(server_options: &ServerOptions) -> Connection {
        let ServerOptions { url, token, admin_url, admin_token, .. } = server_options;
        let admin = admin_url.clone().map(|url| AdminPort { url, token: admin_token.clone(), socket: None });
        Connection::Server { mcp: url.clone().map(|url| McpPort { url, token: token.clone() }), admin }
    }

    /// Returns the same server, asked with this token at its MCP endpoint.
    fn with_token(self, token: Option<&Secret>) -> Connection {
        match self {
            Connection::Server { mcp, admin } => {
                let mcp = mcp.map(|port| McpPort { token: token.cloned(), ..port });
                Connection::Server { mcp, admin }
            }
            own @ Connection::InProcess(_) => own,
        }
    }

    /// Returns the server that recorded itself for the configuration file `config`: one with ports, else one
    /// that a client started. It knows its backends' secrets; this command needs none of them.
    pub(super) async fn recorded(
        global: &GlobalOptions,
        token: Option<&Secret>,
        config: &Path,
    ) -> Option<Connection> {
        for running in RunningServer::all_of(config) {
            let of_file = || Some(global.load_file(config).ok()?.config.server.admin_tokens.first()?.clone());
            let token = token.cloned().or_else(of_file);
            let found = probe_server((running.mcp, running.tls), running.admin, token).await;
            if let Some((server, _)) = found.filter(|(_, status)| status.pid == running.pid) {
                return Some(server);
            }
        }
        for socket in local_socket::sockets_for(config) {
            let admin = AdminPort::at_socket(socket)?;
            let answer: Result<StatusReport, _> =
                admin.get("admin/status", remote_server::PROBE_TIMEOUT).await;
            if answer.is_ok() {
                return Some(Connection::Server { mcp: None, admin: Some(admin) });
            }
        }
        None
    }

    /// Returns true for a server that a client started and talks to by standard input and output.
    pub(super) fn is_of_client(&self) -> bool {
        matches!(self, Connection::Server { admin: Some(AdminPort { socket: Some(_), .. }), .. })
    }

    /// Requests an action of a running server.
    pub(super) async fn post(&self, path: &str) -> Result<(), CommandFailure> {
        self.admin_port()?.post(path, ADMIN_TIMEOUT).await
    }

    /// Requests an action of a running server that may take up to `limit`, and returns its report.
    pub(super) async fn post_for<T: DeserializeOwned>(
        &self,
        path: &str,
        limit: Duration,
    ) -> Result<T, CommandFailure> {
        self.admin_port()?.post_for(path, limit).await
    }

    /// Changes a setting of a running server, and returns its report.
    pub(super) async fn put<T: DeserializeOwned>(&self, path: &str) -> Result<T, CommandFailure> {
        self.admin_port()?.exchange(Method::PUT, path, None, ADMIN_TIMEOUT).await
    }

    /// Returns a report of a running server about one thing, which it may not know.
    pub(super) async fn lookup<T: DeserializeOwned>(&self, path: &str) -> Result<T, CommandFailure> {
        self.admin_port()?.exchange(Method::GET, path, None, ADMIN_TIMEOUT).await
    }

    /// Explains one tool.
    pub(super) async fn explain_tool(
        &self,
        request: &ExplainRequest,
    ) -> Result<ToolExplanation, CommandFailure> {
        match self {
            Connection::InProcess(own) => own.explain_tool(request).await,
            Connection::Server { .. } => {
                let body = serde_json::to_value(request)?;
                let path = "admin/explain-tool";
                self.admin_port()?.exchange(Method::POST, path, Some(&body), ADMIN_TIMEOUT).await
            }
        }
    }

    /// Returns a report of a running server.
    pub(super) async fn report<T: DeserializeOwned>(&self, path: &str) -> Result<T, CommandFailure> {
        self.admin_port()?.get(path, ADMIN_TIMEOUT).await
    }

    fn admin_port(&self) -> Result<&AdminPort, CommandFailure> {
        match self {
            Connection::Server { admin: Some(admin), .. } => Ok(admin),
            _ => Err(CommandFailure::new("this needs the admin port of a running server")
                .exit(Exit::Usage)
                .remedy("add --admin-url http://ADDR:PORT")),
        }
    }

    /// Chooses the server: the named server, else the server with the configuration file, else an engine
    /// in this process.
    async fn open(
        global: &GlobalOptions,
        server_options: &ServerOptions,
        need: &Readiness<'_>,
    ) -> Result<Connection, CommandFailure> {
        let ServerOptions { admin_token, token, local, wait, .. } = server_options;
        if !local && server_options.names_server() {
            return Ok(Connection::named(server_options));
        }
        if !local
            && let Ok(path) = global.config_or_running()
            && let Some(server) = Connection::recorded(global, admin_token.as_ref(), &path).await
        {
            return Ok(server.with_token(token.as_ref()));
        }
        let Some(file) = global.load_or_running()? else {
            // Without a file, a server may still run at the default ports.
            let usual = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let found = if *local {
                None
            } else {
                probe_server((usual(8080), false), usual(9090), admin_token.clone()).await
            };
            return found.map(|(server, _)| server.with_token(token.as_ref())).ok_or_else(no_file);
        };
        let server = &file.config.server;
        let of_admin = admin_token.as_ref().or(server.admin_tokens.first()).cloned();
        let client_port = (server.listen, server.tls.is_some());
        if !local
            && let Some((found, status)) = probe_server(client_port, server.admin_listen, of_admin).await
            && runs_with(&status, &file.config)
        {
            return Ok(found.with_token(token.as_ref()));
        }
        InProcessEngine::start(file.config, need, *wait, None).await.map(Connection::InProcess)
    }

    async fn close(self) {
        if let Connection::InProcess(own) = self {
            own.stop().await;
        }
    }

    /// Makes a running server connect and list all its backends now, lazy ones included, and waits until none
    /// is connecting or `limit` has passed; a backend whose failure is known already holds up nothing. An
    /// engine in this process has just done so.
    pub(super) async fn refresh_backends(&self, limit: Duration) -> Result<(), CommandFailure> {
        let Connection::Server { admin: Some(admin), .. } = self else { return Ok(()) };
        let spinner = progress::spinner("refreshing the backends");
        let started = Instant::now();
        admin.post("admin/refresh", limit).await?;
        // The refresh begins at once; the status of a moment later shows backends as connecting.
        tokio::time::sleep(REFRESH_POLL_INTERVAL).await;
        while started.elapsed() < limit && self.status().await?.backends.iter().any(is_awaited) {
            tokio::time::sleep(REFRESH_POLL_INTERVAL).await;
        }
        spinner.finish_and_clear();
        Ok(())
    }

    /// Gets `/admin/status`.
    pub(super) async fn status(&self) -> Result<StatusReport, CommandFailure> {
        self.admin("admin/status").await
    }

    /// Waits, at most `limit`, until no backend of a running server is about to start, as after `vmcp start`.
    /// Returns true if there was one. An engine in this process has waited at its own start.
    pub(super) async fn wait_for_starts(&self, limit: Duration) -> bool {
        let Connection::Server { admin: Some(_), .. } = self else { return false };
        let started = Instant::now();
        let mut spinner = None;
        while started.elapsed() < limit {
            let left = limit.saturating_sub(started.elapsed());
            let Ok(Ok(status)) = tokio::time::timeout(left, self.status()).await else { break };
            let starting = status.backends.iter().filter(|backend| is_awaited(backend));
            let names: Vec<_> = starting.map(|backend| backend.name.as_str()).collect();
            let is_over = names.is_empty();
            if is_over && spinner.is_none() {
                return false;
            }
            spinner.get_or_insert_with(|| progress::spinner(format!("waiting for {}", names.join(", "))));
            // Also after the last start: its tools are in the catalog a moment later.
            tokio::time::sleep(REFRESH_POLL_INTERVAL).await;
            if is_over {
                break;
            }
        }
        spinner.is_some()
    }

    /// Gets a report of the admin port.
    pub(super) async fn admin<T: DeserializeOwned>(&self, path: &str) -> Result<T, CommandFailure> {
        match self {
            Connection::Server { admin: Some(admin), .. } => admin.get(path, ADMIN_TIMEOUT).await,
            Connection::Server { admin: None, .. } => Err(CommandFailure::new(
                "this command asks the admin port of a server, and only its MCP endpoint is known",
            )
            .exit(Exit::Usage)
            .remedy("add --admin-url http://ADDR:PORT")),
            Connection::InProcess(own) => own.admin(path).await,
        }
    }

    /// Calls a tool; returns its `CallToolResult`, which may carry `isError`.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        consent: Consent,
    ) -> Result<Value, CallFailure> {
        if let Connection::Server { mcp: Some(port), .. } = self {
            return remote_server::call(port, tool, arguments, consent).await;
        }
        let confirmed = consent == Consent::Given;
        let call = OperatorCall { name: tool.to_owned(), arguments, confirmed };
        let answer = match self {
            Connection::InProcess(own) => own.call(&call).await?,
            Connection::Server { admin: Some(admin), .. } if self.is_of_client() => admin.call(&call).await?,
            Connection::Server { .. } => {
                return Err(CallFailure::Other(
                    CommandFailure::new(
                        "this command asks the MCP endpoint of a server, and only its admin port is known",
                    )
                    .exit(Exit::Usage)
                    .remedy("add --url http://ADDR:PORT/mcp"),
                ));
            }
        };
        match answer {
            OperatorAnswer::Result(result) => Ok(result),
            OperatorAnswer::Error(error) => Err(CallFailure::of_protocol(&error)),
        }
    }
}

/// True for a backend that is connecting and has not failed before.
fn is_awaited(backend: &BackendStatus) -> bool {
    backend.state == BackendState::Connecting && backend.last_error.is_none()
}

/// Returns the vmcp server at these addresses and its status, or `None` if none answers within
/// [`remote_server::PROBE_TIMEOUT`]. `tls`: its client port has TLS.
async fn probe_server(
    (listen, tls): (SocketAddr, bool),
    admin: SocketAddr,
    token: Option<Secret>,
) -> Option<(Connection, StatusReport)> {
    let admin =
        AdminPort { url: Url::parse(&format!("http://{}", connectable(admin))).ok()?, token, socket: None };
    let mcp = McpPort { url: Url::parse(&mcp_url(listen, tls)).ok()?, token: None };
    let status: StatusReport = admin
        .get("admin/status", remote_server::PROBE_TIMEOUT)
        .await
        .ok()
        .filter(|status: &StatusReport| status.name == status::NAME)?;
    Some((Connection::Server { mcp: Some(mcp), admin: Some(admin) }, status))
}

/// Returns true if a server has exactly the backends of this configuration; otherwise it runs with another
/// file.
fn runs_with(status: &StatusReport, config: &Config) -> bool {
    let mut theirs: Vec<_> = status.backends.iter().map(|backend| backend.name.as_str()).collect();
    let mut ours: Vec<_> = config.backends.iter().map(|backend| &*backend.name).collect();
    theirs.sort_unstable();
    ours.sort_unstable();
    theirs == ours
}
