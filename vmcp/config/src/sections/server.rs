//! `server`: listening addresses, limits on clients, graceful shutdown, and the secrets and hosts that
//! protect the ports.

pub(crate) mod console;
pub(crate) mod console_sign_in;
pub(crate) mod registry;
pub(crate) mod tls;

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use console::ConsoleAccess;
use console_sign_in::{ConsoleSignIn, RawConsoleSignIn};
use ipnet::IpNet;
use registry::{RawServedRegistry, ServedRegistry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tls::{RawTls, Tls};

use crate::problems::{self, Report};
use crate::values::duration::{self, MAX_DURATION, RawDuration};
use crate::values::secret::{self, Secret};

/// Range of `drainTimeout`, up to 24 h; 0 cuts calls in flight at once.
const DRAIN_TIMEOUT: RangeInclusive<Duration> = Duration::ZERO..=MAX_DURATION;
/// Range of `receiveTimeout` and `writeTimeout`, from 1 s to 24 h.
const CLIENT_TIMEOUT: RangeInclusive<Duration> = Duration::from_secs(1)..=MAX_DURATION;
/// Range of `shutdownDelay`, up to 10 min.
const SHUTDOWN_DELAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_mins(10);
/// Fewest characters of a session key or an admin token; a shorter one could be guessed.
const MIN_SECRET_CHARS: usize = 16;

/// Listening sockets and their limits. A change of an address takes effect after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Address of the client port: `/mcp` and the REST twin. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Address of the admin port: health, readiness, metrics, status.
    pub admin_listen: SocketAddr,
    /// Address of the events port: `/ws/events`; `None`: it is not served.
    pub events_listen: Option<SocketAddr>,
    /// Time that calls in flight are given to end after SIGTERM; then they are cut.
    pub drain_timeout: Duration,
    /// Time after SIGTERM during which connections are still accepted while `/readyz` already answers 503: a
    /// load balancer needs a moment to notice.
    pub shutdown_delay: Duration,
    /// Most client connections at a time; a further one is answered with 503.
    pub max_connections: usize,
    /// Most connections of one client at a time; a further one is answered with 503.
    pub max_connections_per_client: usize,
    /// Most bytes of request bodies and answers in memory at a time; a further request is answered with 503.
    pub max_buffered_bytes: usize,
    /// Most requests of one client at a time; a further one is answered with 429.
    pub max_requests_per_client: usize,
    /// Most bytes that the requests and unread answers of one client hold; a further request is answered with
    /// 429.
    pub max_buffered_bytes_per_client: usize,
    /// Time limit for the headers of a request, and again for its body. An idle connection is closed after
    /// the same time.
    pub receive_timeout: Duration,
    /// Time that a client may leave sent bytes unread before its connection is closed.
    pub write_timeout: Duration,
    /// Values of `Host` that are served, lower case, with or without port. Empty: the loopback names when
    /// `listen` is a loopback address (a guard against DNS rebinding), else any.
    pub allowed_hosts: Vec<String>,
    /// Values of `Origin` that are served besides loopback ones, such as `https://chat.example.com`. `*`:
    /// any.
    pub allowed_origins: Vec<String>,
    /// Secrets from which the keys that seal session ids and sign cookies of the console are derived: the
    /// first seals, all open. Empty: a random one is made at start, and no session survives a restart.
    pub session_keys: Vec<Secret>,
    /// TLS of the client port; `None`: it speaks plain HTTP.
    pub tls: Option<Tls>,
    /// Networks of proxies whose `Forwarded` and `X-Forwarded-For` tell the client's address.
    pub trusted_proxies: Vec<IpNet>,
    /// Address at which other replicas reach the client port of this process; `None`: they do not.
    pub peer_address: Option<SocketAddr>,
    /// Admin ports of the other replicas, as host and port.
    pub peers: Vec<String>,
    /// Bearer tokens for `/admin/*`, any of which is accepted. Empty: `/admin/*` is served only if
    /// `admin_listen` is a loopback address.
    pub admin_tokens: Vec<Secret>,
    /// Bearer tokens for `/metrics`, besides `admin_tokens`. Empty: `/metrics` wants none.
    pub metrics_tokens: Vec<Secret>,
    /// People to whom the web console on the admin port is served.
    pub console: ConsoleAccess,
    /// Provider at which people sign in to the console; `None`: they do not.
    pub console_sign_in: Option<Arc<ConsoleSignIn>>,
    /// Bearer tokens of people who read the console and give no orders there.
    pub viewer_tokens: Vec<Secret>,
    /// The registry API on the client port; `None`: it is not served.
    pub registry: Option<ServedRegistry>,
    /// File of definitions of tools that are trusted before the definitions that backends list first; `None`:
    /// trust is on first use.
    pub trusted_tools_path: Option<PathBuf>,
}

/// Listening addresses, limits on clients, graceful shutdown.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Server")]
pub struct RawServer {
    /// Address and port for clients (`/mcp`). Port 0 takes a free one. A change takes effect after a restart.
    pub listen: String,
    /// Address and port for health, readiness, metrics and status. A change takes effect after a restart.
    pub admin_listen: String,
    /// Address and port of `/ws/events`, a websocket with hooks, changed definitions and states of backends,
    /// for the people of the admin port. Absent: it is not served. A change takes effect after a restart.
    pub events_listen: Option<String>,
    /// Time that calls in flight are given to end after SIGTERM (graceful shutdown). Calls that take longer
    /// are cut; `0s` cuts all at once.
    #[schemars(extend("x-range" = duration::words(&DRAIN_TIMEOUT)))]
    pub drain_timeout: RawDuration,
    /// Time after SIGTERM during which connections are still accepted while `/readyz` already answers 503, so
    /// that a load balancer can move clients away. The drain follows.
    #[schemars(extend("x-range" = duration::words(&SHUTDOWN_DELAY)))]
    pub shutdown_delay: RawDuration,
    /// Most client connections at a time; a further one is answered with 503.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_connections: usize,
    /// Most connections of one client (its IP address) at a time; a further one is answered with 503. Absent:
    /// three quarters of `maxConnections`, so that no client takes all.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_connections_per_client: Option<usize>,
    /// Most bytes of request bodies and answers in memory at a time, of all clients and backends together; a
    /// further request is answered with 503. The default suits a pod of 512 MiB.
    #[schemars(range(min = 1_048_576, max = 1_099_511_627_776_u64))]
    pub max_buffered_bytes: usize,
    /// Most requests of one client (its IP address) at a time; a further one is answered with 429. Behind a
    /// proxy that hides addresses, all clients are one.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_requests_per_client: usize,
    /// Most bytes that the requests and unread answers of one client (its IP address) hold in memory at a
    /// time; a further request is answered with 429.
    #[schemars(range(min = 1_048_576, max = 1_099_511_627_776_u64))]
    pub max_buffered_bytes_per_client: usize,
    /// Time limit for the headers of a request, and again for its body; a slower request is dropped. A
    /// connection without a request is closed after the same time.
    #[schemars(extend("x-range" = duration::words(&CLIENT_TIMEOUT)))]
    pub receive_timeout: RawDuration,
    /// Time that a client may leave sent bytes unread before its connection is closed.
    #[schemars(extend("x-range" = duration::words(&CLIENT_TIMEOUT)))]
    pub write_timeout: RawDuration,
    /// Values of the `Host` header that are served; others are answered with 403. Empty: loopback names if
    /// `listen` is a loopback address (a guard against DNS rebinding), else any.
    pub allowed_hosts: Vec<String>,
    /// Values of the `Origin` header that are served besides loopback ones, such as
    /// `https://chat.example.com`; others are answered with 403. `*`: any.
    pub allowed_origins: Vec<String>,
    /// Secrets of at least 16 characters that seal session ids and sign cookies of the console. The first
    /// seals new ids and all open them, so that a key can be rotated. Empty: a random one is made at start,
    /// and sessions do not survive a restart.
    pub session_keys: Vec<Secret>,
    /// TLS of the client port. Absent: plain HTTP, for a proxy that ends TLS.
    pub tls: Option<RawTls>,
    /// Addresses or networks (`10.0.0.0/8`) of proxies in front of the client port. A request that comes from
    /// one of them counts, in limits and audit events, as of the client that its `Forwarded` or
    /// `X-Forwarded-For` names: the last address in it outside of these networks.
    pub trusted_proxies: Vec<String>,
    /// IP address, with a port if it is not that of `listen`, at which other replicas with the same
    /// `sessionKeys` reach this process: they hand on what only this process can answer. Empty: they do not.
    pub peer_address: String,
    /// Admin ports of the other replicas, as `host:port`; a name that has several addresses means all of
    /// them, and this process among them does not matter. Counts of tools' calls are summed over replicas,
    /// learned pairs and approvals are shared; the replicas need one of `adminTokens` in common.
    pub peers: Vec<String>,
    /// Bearer tokens of at least 16 characters for `/admin/*`, any of which is accepted. Empty: `/admin/*` is
    /// served only if `adminListen` is a loopback address.
    pub admin_tokens: Vec<Secret>,
    /// Bearer tokens of at least 16 characters for `/metrics`, any of which is accepted, as is each of
    /// `adminTokens`. Empty: `/metrics` wants no token.
    pub metrics_tokens: Vec<Secret>,
    /// Bearer tokens of at least 16 characters of people who may read the web console, and give no orders
    /// there. They open nothing else. With `console: loopback` they need `adminTokens`, without which the
    /// console asks for no token.
    pub viewer_tokens: Vec<Secret>,
    /// The web console on the admin port: `off`, `loopback`, `tokens` or `oidc`.
    pub console: ConsoleAccess,
    /// OpenID provider at which people sign in to the web console, for `console: oidc`.
    pub console_sign_in: Option<RawConsoleSignIn>,
    /// `GET /v0.1/servers`: the profiles of this server, for IDEs that allow the servers of a registry alone.
    /// Off by default.
    pub registry: RawServedRegistry,
    /// Path of a file with trusted definitions of tools, as `GET /admin/tools/trusted` answers, of at most
    /// 960 KiB. Under `onToolChange: Quarantine` a tool in it is served with the definition of the file, or a
    /// definition that was approved later, whatever this process saw first. A missing or unreadable file is a
    /// mistake, so that nothing is trusted on first use. In a cluster, the operator writes it. Empty: trust
    /// is on first use.
    pub trusted_tools_path: String,
}

impl Default for RawServer {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8080".to_owned(),
            admin_listen: "127.0.0.1:9090".to_owned(),
            events_listen: None,
            drain_timeout: "30s".into(),
            shutdown_delay: "0s".into(),
            max_connections: 10_000,
            max_connections_per_client: None,
            max_buffered_bytes: 128 << 20,
            max_requests_per_client: 4096,
            max_buffered_bytes_per_client: 64 << 20,
            receive_timeout: "1m".into(),
            write_timeout: "30s".into(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            session_keys: Vec::new(),
            tls: None,
            trusted_proxies: Vec::new(),
            peer_address: String::new(),
            peers: Vec::new(),
            admin_tokens: Vec::new(),
            metrics_tokens: Vec::new(),
            viewer_tokens: Vec::new(),
            console: ConsoleAccess::default(),
            console_sign_in: None,
            registry: RawServedRegistry::default(),
            trusted_tools_path: String::new(),
        }
    }
}

impl RawServer {
    pub(crate) fn validate(&self, report: &mut Report) -> Server {
        let listen = validate_address(&self.listen, "server.listen", report);
        let admin_listen = validate_address(&self.admin_listen, "server.adminListen", report);
        if listen == admin_listen && listen.port() != 0 {
            report.problem(
                "server.adminListen",
                "the same as `server.listen`; nothing administrative is served to clients",
                "choose another port",
            );
        }
        let events_listen = self.validate_events_listen(&[listen, admin_listen], report);
        check_secrets(&self.session_keys, "server.sessionKeys", report);
        check_secrets(&self.admin_tokens, "server.adminTokens", report);
        check_secrets(&self.metrics_tokens, "server.metricsTokens", report);
        check_secrets(&self.viewer_tokens, "server.viewerTokens", report);
        let sign_in = self.console_sign_in.as_ref();
        self.console.check(&self.admin_tokens, &self.viewer_tokens, sign_in, report);
        if self.tls.is_some() {
            tls::check_peers(&self.peer_address, report);
        }
        Server {
            listen,
            admin_listen,
            events_listen,
            tls: self.tls.as_ref().map(|tls| tls.validate(report)),
            drain_timeout: self.drain_timeout.validate("server.drainTimeout", &DRAIN_TIMEOUT, report),
            shutdown_delay: self.shutdown_delay.validate("server.shutdownDelay", &SHUTDOWN_DELAY, report),
            max_connections: self.max_connections,
            max_connections_per_client: self
                .max_connections_per_client
                .unwrap_or_else(|| self.max_connections - self.max_connections / 4),
            max_buffered_bytes: self.max_buffered_bytes,
            max_requests_per_client: self.max_requests_per_client,
            max_buffered_bytes_per_client: self.max_buffered_bytes_per_client,
            receive_timeout: self.receive_timeout.validate("server.receiveTimeout", &CLIENT_TIMEOUT, report),
            write_timeout: self.write_timeout.validate("server.writeTimeout", &CLIENT_TIMEOUT, report),
            allowed_hosts: self
                .allowed_hosts
                .iter()
                .enumerate()
                .map(|(i, host)| validate_host(host, i, report))
                .collect(),
            allowed_origins: self
                .allowed_origins
                .iter()
                .enumerate()
                .map(|(i, origin)| validate_origin(origin, i, report))
                .collect(),
            session_keys: self.session_keys.clone(),
            trusted_proxies: validate_proxies(&self.trusted_proxies, report),
            peer_address: validate_peer_address(&self.peer_address, listen, report),
            peers: self.peers.iter().enumerate().map(|(i, peer)| validate_peer(peer, i, report)).collect(),
            admin_tokens: self.admin_tokens.clone(),
            metrics_tokens: self.metrics_tokens.clone(),
            console: self.console,
            console_sign_in: self
                .console_sign_in
                .as_ref()
                .and_then(|sign_in| sign_in.validate(report))
                .map(Arc::new),
            viewer_tokens: self.viewer_tokens.clone(),
            registry: self.registry.validate(report),
            trusted_tools_path: validate_path(&self.trusted_tools_path, "server.trustedToolsPath", report),
        }
    }
}

impl RawServer {
    /// Reads the address of the events port, which differs from the `others` and admits someone.
    fn validate_events_listen(&self, others: &[SocketAddr], report: &mut Report) -> Option<SocketAddr> {
        const PATH: &str = "server.eventsListen";
        let address = validate_address(self.events_listen.as_deref()?, PATH, report);
        if address.port() != 0 && others.contains(&address) {
            let message =
                "the same as `server.listen` or `server.adminListen`; events have a port of their own";
            report.problem(PATH, message, "choose another port, such as `127.0.0.1:8766`");
        }
        if !address.ip().is_loopback() && self.admin_tokens.is_empty() && self.metrics_tokens.is_empty() {
            let message = "without tokens, events are served on loopback addresses only";
            report.problem(PATH, message, "set `server.adminTokens`, or listen at `127.0.0.1:8766`");
        }
        Some(address)
    }
}

/// Reads addresses and networks of proxies.
fn validate_proxies(texts: &[String], report: &mut Report) -> Vec<IpNet> {
    let mut networks = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        if let Ok(network) = network {
            networks.push(network.trunc());
            continue;
        }
        let path = problems::item("server.trustedProxies", index);
        let shown = report.shown(&path, text);
        let remedy = "write one such as `10.0.0.7` or `10.0.0.0/8`";
        report.problem(&path, format!("{shown} is no address or network"), remedy);
    }
    networks
}

/// Reads an absolute path; an empty text stands for an absent one.
fn validate_path(text: &str, path: &str, report: &mut Report) -> Option<PathBuf> {
    let file = Some(PathBuf::from(text)).filter(|_| !text.is_empty())?;
    if !file.is_absolute() {
        let shown = report.shown(path, text);
        let remedy = "write the whole path, such as `/etc/vmcp/trusted-tools.json`";
        report.problem(path, format!("{shown} is not an absolute path"), remedy);
    }
    Some(file)
}

/// Reads an IP address with or without a port; the port of `listen` is the default.
fn validate_peer_address(text: &str, listen: SocketAddr, report: &mut Report) -> Option<SocketAddr> {
    if text.is_empty() {
        return None;
    }
    let with_port = text.parse().ok();
    let address = with_port.or_else(|| Some(SocketAddr::new(text.parse().ok()?, listen.port())));
    if address.is_none() {
        report.problem(
            "server.peerAddress",
            format!("`{text}` is no IP address"),
            "write the address of this process, such as `${POD_IP:-}`, or leave it out",
        );
    }
    address
}

/// Checks that a peer has a host and a port.
fn validate_peer(text: &str, index: usize, report: &mut Report) -> String {
    let port =
        text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).and_then(|(_, port)| port.parse().ok());
    if port.is_none_or(|port: u16| port == 0) || text.contains('/') {
        let path = problems::item("server.peers", index);
        let shown = report.shown(&path, text);
        report.problem(
            &path,
            format!("{shown} is no host with a port"),
            "write the admin port of a replica, such as `vmcp-peers:9090`",
        );
    }
    text.to_owned()
}

fn check_secrets(secrets: &[Secret], path: &str, report: &mut Report) {
    for (index, secret) in secrets.iter().enumerate() {
        if secret.expose().len() < MIN_SECRET_CHARS {
            report.problem(
                &problems::item(path, index),
                format!("shorter than {MIN_SECRET_CHARS} characters"),
                "use the output of `openssl rand -base64 32`, through the environment or a file",
            );
        } else if let Some(weakness) = secret::weakness(secret) {
            report.problem(
                &problems::item(path, index),
                format!("can be guessed: {weakness}"),
                "use the output of `openssl rand -base64 32`, through the environment or a file",
            );
        }
    }
}

fn validate_address(text: &str, path: &str, report: &mut Report) -> SocketAddr {
    // `localhost` is the one host name that needs no resolver, and the one that people write.
    let numeric = match text.trim().strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.trim().to_owned(),
    };
    numeric.parse().unwrap_or_else(|_| {
        let shown = report.shown(path, text);
        report.problem(
            path,
            format!("{shown} is not an address with a port"),
            "write an IP address and a port, such as `127.0.0.1:8080` or `0.0.0.0:8080`",
        );
        // Stands in only: with the problem above, the configuration is never used.
        SocketAddr::from(([127, 0, 0, 1], 0))
    })
}

fn validate_host(host: &str, index: usize, report: &mut Report) -> String {
    if host.is_empty() || host.contains(['/', '@', '*', ' ']) {
        let path = problems::item("server.allowedHosts", index);
        let shown = report.shown(&path, host);
        let remedy = "write a host with or without port, such as `mcp.example.com`";
        report.problem(&path, format!("{shown} is not a host"), remedy);
    }
    host.to_ascii_lowercase()
}

fn validate_origin(origin: &str, index: usize, report: &mut Report) -> String {
    let parsed = url::Url::parse(origin).ok().map(|url| url.origin().ascii_serialization());
    let lower = origin.trim_end_matches('/').to_ascii_lowercase();
    if origin != "*" && parsed.as_deref() != Some(lower.as_str()) {
        let path = problems::item("server.allowedOrigins", index);
        let shown = report.shown(&path, origin);
        let remedy = "write scheme and host, and the port unless it is the scheme's own, such as `https://chat.example.com`";
        report.problem(&path, format!("{shown} is not an origin"), remedy);
    }
    lower
}
