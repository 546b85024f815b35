//! `backends`: the MCP servers behind this one, and the transport to each: a child process, streamable HTTP,
//! SSE or websocket.

mod codex;
mod common_mistakes;
pub(crate) mod known_secrets;
pub(crate) mod outgoing_auth;
mod validation;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::Url;

pub use self::codex::{Codex, RawCodex};
pub(crate) use self::common_mistakes::check_own_address;
use self::known_secrets::KnownSecrets;
pub(crate) use self::validation::{SharedBackendSettings, validate};
use crate::addresses::ReachableAddresses;
use crate::rules::{NamePattern, RESERVED_NAMES};
use crate::sections::backend::outgoing_auth::Credentials;
use crate::sections::proxy::{IDLE_TIMEOUT, TIMEOUT};
use crate::values::duration::{self, RawDuration};
use crate::values::headers::Headers;
use crate::values::secret::Secret;

/// Most backends in one file; more are a mistake.
pub const MAX_BACKENDS: usize = 10_000;
/// Most characters in a backend's name.
pub const MAX_BACKEND_NAME: usize = 63;

/// One MCP server, as configured. A reload keeps the connection of a backend that is equal to the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Unique name: lower-case letters, digits, `-`, `_` and `.`, at most [`MAX_BACKEND_NAME`].
    pub name: Arc<str>,
    /// Transport to the server.
    pub transport: Transport,
    /// False: shown in status, but never connected, and hidden from search and calls.
    pub enabled: bool,
    /// Time limit of a call of one of its tools; `None`: `proxy.toolTimeout`.
    pub timeout: Option<Duration>,
    /// Time limit of one connection attempt; `None`: `proxy.connectionTimeout`.
    pub connection_timeout: Option<Duration>,
    /// PEM file of authorities that the server is trusted by, besides those of the system.
    pub ca_bundle_path: Option<PathBuf>,
    /// Addresses that the host of its URL may have.
    pub addresses: ReachableAddresses,
    /// Connects at start even if `proxy.lazyConnect` is on; set in the entry or by `proxy.preconnectServers`.
    pub preconnect: bool,
    /// Clients that share a connection; `None`: decided by what the server is.
    pub isolation: Option<Isolation>,
    /// Era in which the server is spoken to.
    pub protocol_era: ProtocolEra,
    /// Own connections that clients may have at the server together; `None`: by transport.
    pub max_sessions: Option<u32>,
    /// Processes kept ready for the next clients while sessions are opened one after the other.
    pub warm_sessions: u32,
    /// Credentials that are fetched; constant ones are among the headers of `transport`.
    pub credentials: Credentials,
    /// Names of the headers of clients that the server gets, in lower case.
    pub passthrough_headers: BTreeSet<String>,
    /// Secrets of this entry, to be masked in what the server writes.
    pub known_secrets: KnownSecrets,
    /// Settings of Codex, if the program is its app server and no MCP server.
    pub codex: Option<Codex>,
}

/// Transport to a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// Streamable HTTP, either protocol era.
    Http {
        /// The endpoint.
        url: Url,
        /// Sent with every request.
        headers: Headers,
    },
    /// The HTTP+SSE transport of 2024-11-05.
    Sse {
        /// The URL of the event stream.
        url: Url,
        /// Sent with every request.
        headers: Headers,
    },
    /// JSON-RPC in text frames of a websocket (RFC 6455), with the subprotocol `mcp`.
    WebSocket {
        /// Its address, `ws` or `wss`.
        url: Url,
        /// Sent with the handshake.
        headers: Headers,
    },
    /// A child process that speaks on its standard input and output.
    Stdio {
        /// The program: a path, or a name that is looked up in `PATH`.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Environment variables added to a minimal environment.
        env: BTreeMap<String, Secret>,
        /// Its working directory; `None`: ours.
        cwd: Option<PathBuf>,
        /// Variables of vmcp's own environment that it gets besides the usual ones.
        inherit_env: Vec<NamePattern>,
        /// Time without a call after which it is stopped until the next one; `None`: `proxy.idleTimeout`.
        idle_timeout: Option<Duration>,
    },
}

impl Transport {
    /// Returns the transport's name in the file and in status: `streamable-http`, `sse`, `websocket`
    /// or `stdio`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Http { .. } => "streamable-http",
            Self::Sse { .. } => "sse",
            Self::WebSocket { .. } => "websocket",
            Self::Stdio { .. } => "stdio",
        }
    }

    /// Returns the address of a server; `None` for a program.
    pub fn url(&self) -> Option<&Url> {
        match self {
            Self::Http { url, .. } | Self::Sse { url, .. } | Self::WebSocket { url, .. } => Some(url),
            Self::Stdio { .. } => None,
        }
    }

    /// Returns the headers of every request, or of a websocket's handshake; `None` for a program.
    pub fn headers(&self) -> Option<&Headers> {
        match self {
            Self::Http { headers, .. } | Self::Sse { headers, .. } | Self::WebSocket { headers, .. } => {
                Some(headers)
            }
            Self::Stdio { .. } => None,
        }
    }

    /// Like [`Self::headers`], to be changed.
    pub fn headers_mut(&mut self) -> Option<&mut Headers> {
        match self {
            Self::Http { headers, .. } | Self::Sse { headers, .. } | Self::WebSocket { headers, .. } => {
                Some(headers)
            }
            Self::Stdio { .. } => None,
        }
    }
}

impl Backend {
    /// Returns the name of the transport, as [`Transport::kind`]; `codex` for an app server of Codex.
    pub fn kind(&self) -> &'static str {
        if self.codex.is_some() { "codex" } else { self.transport.kind() }
    }

    /// Returns true if the backend is a program that is started here.
    pub fn starts_process(&self) -> bool {
        matches!(self.transport, Transport::Stdio { .. })
    }

    /// Returns true if what the server is sent proves who the client is: clients then share no connection
    /// that the server keeps state for.
    pub fn tells_clients_apart(&self) -> bool {
        self.credentials.is_per_client() || !self.passthrough_headers.is_empty()
    }

    /// Returns the SHA-256, in hexadecimal digits, of everything that decides which definitions the backend
    /// offers: the transport, its address or command line, and the names of headers and variables. Their
    /// values do not count, so that a rotated token keeps the cached definitions.
    pub fn fingerprint(&self) -> String {
        let mut parts = vec![self.kind()];
        if self.codex.as_ref().is_some_and(|codex| codex.allow_dangerous) {
            // Its tools offer another sandbox.
            parts.push("dangerous");
        }
        match &self.transport {
            Transport::Http { url, headers }
            | Transport::Sse { url, headers }
            | Transport::WebSocket { url, headers } => {
                parts.push(url.as_str());
                parts.extend(headers.keys().map(String::as_str));
            }
            Transport::Stdio { command, args, env, cwd, .. } => {
                parts.push(command);
                parts.push(cwd.as_ref().and_then(|cwd| cwd.to_str()).unwrap_or_default());
                parts.extend(args.iter().map(String::as_str));
                // Arguments end here: `[A]` without variables is not `[]` with the variable A.
                parts.push("\0env");
                parts.extend(env.keys().map(String::as_str));
            }
        }
        let mut hash = Sha256::new();
        for part in parts {
            // The length first: `[ab, c]` is not `[a, bc]`.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hex::encode(hash.finalize())
    }
}

/// One MCP server: either `command` (a program started here, spoken to on its standard input and output) or
/// `url`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Backend")]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct RawBackend {
    /// Required. Unique name; also the default prefix of the backend's tools. Lower-case letters, digits,
    /// `-`, `_` and `.`, at most 63.
    #[schemars(required)]
    pub name: Option<String>,
    /// Program to start, or the program and its arguments as a list. Excludes `url`.
    pub command: Option<RawCommand>,
    /// Arguments of `command`, after those in its list.
    pub args: Vec<String>,
    /// Environment variables of the program, besides a minimal environment and those of `inheritEnv`.
    pub env: BTreeMap<String, Secret>,
    /// Variables of vmcp's own environment that the program gets, by name; `*` stands for any characters, so
    /// that `AWS_*` is every one of AWS and `*` all. Without being named it gets what programs need to find
    /// their files, a desktop and the usual agents (`HOME`, `PATH`, `LANG`, proxies, certificates, `DISPLAY`,
    /// `SSH_AUTH_SOCK`, `DOCKER_HOST`, `KUBECONFIG`, `AWS_PROFILE`, …), and no secrets.
    pub inherit_env: Vec<String>,
    /// Stop the program after this time without a call; its tools stay listed, and the next call starts it
    /// again. It loses what it keeps in memory. `0`: never. Default: `proxy.idleTimeout`.
    #[schemars(extend("x-range" = duration::words(&IDLE_TIMEOUT)))]
    pub idle_timeout: Option<RawDuration>,
    /// Working directory of the program. Default: that of vmcp.
    pub cwd: Option<String>,
    /// Address of a remote server, without credentials: `http` or `https`, or `ws` or `wss` for a websocket.
    /// Excludes `command`.
    pub url: Option<String>,
    /// Transport: `stdio` with `command`; `codex` with the app server of Codex as `command` (default:
    /// `[codex, app-server]`); `streamable-http` (default), `sse` or, with a `ws` or `wss` address,
    /// `websocket` with `url`.
    pub transport: Option<RawTransport>,
    /// Settings of `transport: codex`.
    pub codex: Option<RawCodex>,
    /// HTTP headers of every request to `url`, or of the handshake of a websocket, such as `Authorization`;
    /// at most 64.
    pub headers: BTreeMap<String, Secret>,
    /// Use this backend. `false`: it is shown in status, but neither connected nor searched nor called.
    pub enabled: bool,
    /// Time limit of a call of one of this backend's tools, up to `proxy.maxToolTimeout`. Default:
    /// `proxy.toolTimeout`; with `transport: codex` `proxy.maxToolTimeout`.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub timeout: Option<RawDuration>,
    /// Time limit of one connection attempt. Default: `proxy.connectionTimeout`.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub connection_timeout: Option<RawDuration>,
    /// PEM file of certificate authorities that a server at an `https` or `wss` URL is trusted by, besides
    /// those of the system. A file that changes is read again when a connection fails.
    pub ca_bundle_path: Option<String>,
    /// Addresses that the host of `url` may have, judged at each connection after its name is resolved:
    /// `public`; `local`, which adds private and loopback addresses; `any`, which adds link-local and
    /// reserved ones, such as those of metadata services of clouds. A server that a client added has
    /// `public`, unless a rule of `optimizer.admin.allow` names its host.
    pub addresses: ReachableAddresses,
    /// Connect at start even if `proxy.lazyConnect` is on.
    pub preconnect: bool,
    /// Clients that share a connection to this backend: a session, an event stream, a process. Default:
    /// `session` where the server is of the legacy era and may keep state (stdio, SSE, websocket, HTTP with
    /// session ids), else `shared`.
    pub isolation: Option<Isolation>,
    /// Era in which a server that speaks both is spoken to.
    pub protocol_era: ProtocolEra,
    /// Own connections that clients may have at this backend together, 1 to 100000; one more ends the longest
    /// idle one. Default: 64 processes, 1000 event streams or websockets, 10000 HTTP
    /// sessions.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_sessions: Option<u32>,
    /// Processes of this program, 0 to 16, that are kept ready for the next client sessions: a second session
    /// within 5 minutes of the one before starts them, and 5 minutes without one end them.
    #[schemars(range(min = 0, max = 16))]
    pub warm_sessions: u32,
    /// Serve only tools that the server itself declares to change nothing (`readOnlyHint: true`). All others
    /// are hidden from lists, search and calls. The declaration is the server's word, no guarantee.
    pub read_only: bool,
    /// Let the server ask clients: the user (elicitation), the model (sampling), the folders (roots).
    /// `false`: it is told that clients answer nothing, a question is refused, and a call that needs an
    /// answer fails.
    pub questions: bool,
}

impl Default for RawBackend {
    fn default() -> Self {
        Self {
            name: None,
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            inherit_env: Vec::new(),
            idle_timeout: None,
            cwd: None,
            url: None,
            transport: None,
            codex: None,
            headers: BTreeMap::new(),
            enabled: true,
            timeout: None,
            connection_timeout: None,
            ca_bundle_path: None,
            addresses: ReachableAddresses::Any,
            preconnect: false,
            isolation: None,
            protocol_era: ProtocolEra::Auto,
            max_sessions: None,
            warm_sessions: 1,
            read_only: false,
            questions: true,
        }
    }
}

/// Clients that share one connection to a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Isolation {
    /// All clients share one connection; the server is stateless, and asks outside of HTTP calls nothing.
    Shared,
    /// The clients of one principal (by address, until clients authenticate) share one.
    Principal,
    /// Each client session has its own; so has each call of a client without a session.
    Session,
}

/// Era in which a backend is spoken to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ProtocolEra {
    /// The era of the client that calls, if the server speaks it; else the one of the server.
    #[default]
    Auto,
    /// 2026-07-28 only.
    Modern,
    /// Sessions (2025-11-25 and before) only.
    Legacy,
}

/// A command line.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Command")]
pub enum RawCommand {
    /// Just the program.
    Program(String),
    /// The program and its arguments.
    Line(Vec<String>),
}

/// Transports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Transport")]
pub enum RawTransport {
    /// A child process on its standard input and output.
    Stdio,
    /// Streamable HTTP; the protocol's era is negotiated.
    StreamableHttp,
    /// The older HTTP+SSE transport.
    Sse,
    /// Text frames of a websocket, with the subprotocol `mcp`.
    Websocket,
    /// The app server of Codex (`codex app-server`), a child process that speaks another protocol than MCP.
    Codex,
}

/// Returns true if a backend may have this name.
pub fn is_backend_name(name: &str) -> bool {
    normalize_name(name).as_deref() == Some(name) && !RESERVED_NAMES.contains(&name)
}

/// Returns the legal name that is closest to `name`: lower case, other characters as `-`, at most
/// [`MAX_BACKEND_NAME`] characters, a letter or digit at both ends. `None` if nothing is left.
///
/// # Examples
///
/// ```
/// use vmcp_config::normalize_name;
///
/// assert_eq!(normalize_name("My Server (new)").as_deref(), Some("my-server-new"));
/// assert_eq!(normalize_name("日本"), None);
/// ```
pub fn normalize_name(name: &str) -> Option<String> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.');
    let mut normalized = String::new();
    for c in name.chars().map(|c| c.to_ascii_lowercase()) {
        if legal(c) || c == '-' {
            normalized.push(c);
        } else if !normalized.ends_with('-') {
            normalized.push('-');
        }
    }
    let trimmed = normalized.trim_matches(['-', '_', '.']);
    // Only ASCII is left, so that a cut is always on a character's boundary.
    let cut = trimmed.get(..MAX_BACKEND_NAME).unwrap_or(trimmed).trim_end_matches(['-', '_', '.']);
    (!cut.is_empty()).then(|| cut.to_owned())
}
