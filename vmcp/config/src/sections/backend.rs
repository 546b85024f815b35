//! `backends`: the MCP servers behind this one, and how each is reached.

mod validation;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::Url;

pub(crate) use self::validation::{SharedBackendSettings, validate};
use crate::sections::proxy::TIMEOUT;
use crate::values::duration::{self, RawDuration};
use crate::values::headers::Headers;
use crate::values::secret::Secret;

/// How many backends one file may name.
pub const MAX_BACKENDS: usize = 10_000;
/// Characters in a backend's name.
pub const MAX_BACKEND_NAME: usize = 63;
/// Names that would look like our own tools.
pub(crate) const RESERVED_NAMES: [&str; 2] = ["optim", "composite"];

/// One MCP server, as configured. Two that are equal need no reconnect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Unique; lower-case letters, digits, `-`, `_` and `.`, at most 63.
    pub name: Arc<str>,
    /// How it is reached.
    pub transport: Transport,
    /// `false`: listed, never connected, hidden from search and calls (GMT-15).
    pub enabled: bool,
    /// Longest call of one of its tools; `None`: `proxy.toolTimeout`.
    pub timeout: Option<Duration>,
    /// Longest connection attempt; `None`: `proxy.connectionTimeout`.
    pub connection_timeout: Option<Duration>,
    /// Connect at start even if `proxy.lazyConnect` is on: set here or in `proxy.preconnectServers` (GOB-23).
    pub preconnect: bool,
}

/// How a backend is reached.
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
    },
}

impl Transport {
    /// The transport's name in the file and in status: `streamable-http`, `sse`, `stdio`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Http { .. } => "streamable-http",
            Self::Sse { .. } => "sse",
            Self::Stdio { .. } => "stdio",
        }
    }
}

impl Backend {
    /// SHA-256, in hex, over what decides which definitions this backend offers: the transport and its address or
    /// command line, and the names of headers and variables. Not their values: a rotated token keeps what was cached.
    pub fn fingerprint(&self) -> String {
        let mut parts = vec![self.transport.kind()];
        match &self.transport {
            Transport::Http { url, headers } | Transport::Sse { url, headers } => {
                parts.push(url.as_str());
                parts.extend(headers.keys().map(String::as_str));
            }
            Transport::Stdio { command, args, env, cwd } => {
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
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hex::encode(hash.finalize())
    }
}

/// One MCP server: either `command` (started here, spoken to on its standard input and output) or `url`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Backend")]
pub struct RawBackend {
    /// Required. Unique name; the default prefix of its tools. Lower-case letters, digits, `-`, `_` and `.`, at most 63.
    #[schemars(required)]
    pub name: Option<String>,
    /// The program to start, or the program and its arguments as a list.
    pub command: Option<RawCommand>,
    /// Arguments of `command`, after those in its list.
    pub args: Vec<String>,
    /// Environment variables of the program. It inherits only a minimal environment otherwise.
    pub env: BTreeMap<String, Secret>,
    /// Working directory of the program.
    pub cwd: Option<String>,
    /// Address of a remote server, http or https, without credentials.
    pub url: Option<String>,
    /// Transport: `stdio` with `command`; `streamable-http` (default) or `sse` with `url`.
    pub transport: Option<RawTransport>,
    /// HTTP headers sent with every request to `url`, such as `Authorization`.
    pub headers: BTreeMap<String, Secret>,
    /// `false`: listed, but neither connected nor searched nor called.
    pub enabled: bool,
    /// Longest call of one of its tools. Default: `proxy.toolTimeout`.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub timeout: Option<RawDuration>,
    /// Longest connection attempt. Default: `proxy.connectionTimeout`.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub connection_timeout: Option<RawDuration>,
    /// Connect at start, even if `proxy.lazyConnect` is on.
    pub preconnect: bool,
}

impl Default for RawBackend {
    fn default() -> Self {
        Self {
            name: None,
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            url: None,
            transport: None,
            headers: BTreeMap::new(),
            enabled: true,
            timeout: None,
            connection_timeout: None,
            preconnect: false,
        }
    }
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

/// How a backend is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Transport")]
pub enum RawTransport {
    /// A child process.
    Stdio,
    /// Streamable HTTP; the protocol era is found out.
    StreamableHttp,
    /// The older HTTP+SSE transport.
    Sse,
}

/// Whether a backend may have this name.
pub fn is_backend_name(name: &str) -> bool {
    normalize_name(name).as_deref() == Some(name) && !RESERVED_NAMES.contains(&name)
}

/// The legal name that is closest to `name`: lower case, other characters as `-`, at most 63, letters or digits at
/// both ends (GMT-14). `None` when nothing is left.
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
    // Only ASCII is left, so that any place is a boundary.
    let cut = trimmed.get(..MAX_BACKEND_NAME).unwrap_or(trimmed).trim_end_matches(['-', '_', '.']);
    (!cut.is_empty()).then(|| cut.to_owned())
}
