//! `backends`: the MCP servers behind this one, and how each is reached.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write as _,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::Url;

use super::{
    duration::RawDuration,
    headers::{self, Headers},
    http_url,
    problems::{self, Report},
    proxy::{self, TIMEOUT},
    secret::Secret,
};

/// How many backends one file may name.
pub const MAX_BACKENDS: usize = 10_000;
/// Characters in a backend's name.
pub const MAX_BACKEND_NAME: usize = 63;
/// Names that would look like our own tools.
const RESERVED_NAMES: [&str; 2] = ["optim", "composite"];

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
        hash.finalize().iter().fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

/// One MCP server: either `command` (started here, spoken to on its standard input and output) or `url`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Backend")]
pub struct RawBackend {
    /// Unique name; the default prefix of its tools. Lower-case letters, digits, `-`, `_` and `.`, at most 63.
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
    pub timeout: Option<RawDuration>,
    /// Longest connection attempt. Default: `proxy.connectionTimeout`.
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

/// What the file says about backends outside of `backends`.
pub(crate) struct Elsewhere<'a> {
    /// `proxy.preconnectServers`.
    pub preconnect: BTreeSet<&'a str>,
    /// `operational.timeouts.perWorkload`.
    pub per_workload: &'a BTreeMap<String, RawDuration>,
    /// `proxy.maxToolTimeout`.
    pub max_tool_timeout: Duration,
}

/// Validates the list, and gives each backend what is said about it elsewhere.
pub(crate) fn lower(raw: &[RawBackend], elsewhere: &Elsewhere<'_>, report: &mut Report) -> Vec<Backend> {
    if raw.len() > MAX_BACKENDS {
        let message = format!("{} backends", raw.len());
        report.problem("backends", message, format!("keep to at most {MAX_BACKENDS}"));
    }
    let mut first_use = HashMap::new();
    let mut backends = Vec::with_capacity(raw.len());
    for (index, backend) in raw.iter().enumerate() {
        let path = problems::item("backends", index);
        let Some(name) = lower_name(backend.name.as_deref(), &path, report) else { continue };
        if let Some(first) = first_use.insert(name, index) {
            report.problem(
                &problems::key(&path, "name"),
                format!("`{name}` is already the name of backends[{first}]"),
                "give each backend a name of its own",
            );
        }
        let Some(transport) = lower_transport(backend, &path, report) else { continue };
        backends.push(Backend {
            name: name.into(),
            transport,
            enabled: backend.enabled,
            timeout: lower_timeout(backend, name, elsewhere, &path, report),
            connection_timeout: backend
                .connection_timeout
                .as_ref()
                .map(|timeout| timeout.lower(&problems::key(&path, "connectionTimeout"), &TIMEOUT, report)),
            preconnect: backend.preconnect || elsewhere.preconnect.contains(name),
        });
    }
    backends
}

fn lower_timeout(
    backend: &RawBackend,
    name: &str,
    elsewhere: &Elsewhere<'_>,
    path: &str,
    report: &mut Report,
) -> Option<Duration> {
    let own_path = problems::key(path, "timeout");
    let shared_path = problems::key("operational.timeouts.perWorkload", name);
    let (at, timeout) = match (&backend.timeout, elsewhere.per_workload.get(name)) {
        (Some(_), Some(_)) => {
            report.problem(&shared_path, format!("{own_path} says it too"), "keep one of the two");
            return None;
        }
        (Some(own), None) => (own_path, own),
        (None, Some(shared)) => (shared_path, shared),
        (None, None) => return None,
    };
    let timeout = timeout.lower(&at, &TIMEOUT, report);
    Some(proxy::within(elsewhere.max_tool_timeout, &at, timeout, report))
}

fn lower_name<'a>(name: Option<&'a str>, path: &str, report: &mut Report) -> Option<&'a str> {
    let at = problems::key(path, "name");
    let Some(name) = name else {
        report.problem(&at, "missing", "give the backend a short, unique name, such as `name: github`");
        return None;
    };
    let normalized = normalize_name(name);
    if normalized.as_deref() != Some(name) {
        let shown = report.shown(&at, name);
        let remedy = normalized.map(|name| format!("call it `{name}`"));
        report.problem(
            &at,
            format!("{shown} is not a backend name"),
            remedy
                .unwrap_or_else(|| "use lower-case letters, digits, `-`, `_` and `.`, at most 63".to_owned()),
        );
        return None;
    }
    if RESERVED_NAMES.contains(&name) {
        report.problem(&at, format!("`{name}` is reserved for vmcp's own tools"), "choose another name");
        return None;
    }
    Some(name)
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

fn lower_transport(raw: &RawBackend, path: &str, report: &mut Report) -> Option<Transport> {
    match (&raw.command, &raw.url) {
        (Some(_), Some(_)) => {
            let remedy = "keep `command` for a program started here, or `url` for a remote server";
            report.problem(path, "both `command` and `url` are given", remedy);
            None
        }
        (None, None) => {
            let requires = match raw.transport {
                Some(RawTransport::Stdio) => "transport `stdio` requires `command`",
                Some(RawTransport::StreamableHttp) => "transport `streamable-http` requires `url`",
                Some(RawTransport::Sse) => "transport `sse` requires `url`",
                None => "neither `command` nor `url` is given",
            };
            // Either one that was given and refused has been reported.
            for key in ["command", "url"] {
                if report.is_dropped(&problems::key(path, key)) {
                    return None;
                }
            }
            let remedy =
                "add `command: [program, argument]` to start it here, or `url: https://…/mcp` to reach it";
            report.problem(path, requires, remedy);
            None
        }
        (Some(command), None) => lower_stdio(raw, command, path, report),
        (None, Some(url)) => lower_remote(raw, url, path, report),
    }
}

fn lower_remote(raw: &RawBackend, url: &str, path: &str, report: &mut Report) -> Option<Transport> {
    for (key, given) in
        [("args", !raw.args.is_empty()), ("env", !raw.env.is_empty()), ("cwd", raw.cwd.is_some())]
    {
        if given {
            let remedy = "remove it, or replace `url` by `command`";
            report.problem(&problems::key(path, key), "only a backend with `command` has this", remedy);
        }
    }
    let headers = headers::lower(&raw.headers, &problems::key(path, "headers"), report);
    let url = http_url::lower(url, &problems::key(path, "url"), report)?;
    match raw.transport {
        None | Some(RawTransport::StreamableHttp) => Some(Transport::Http { url, headers }),
        Some(RawTransport::Sse) => Some(Transport::Sse { url, headers }),
        Some(RawTransport::Stdio) => {
            let remedy = "remove `transport`, or choose `streamable-http` or `sse`";
            report.problem(&problems::key(path, "transport"), "`stdio` does not go with `url`", remedy);
            None
        }
    }
}

fn lower_stdio(raw: &RawBackend, command: &RawCommand, path: &str, report: &mut Report) -> Option<Transport> {
    if !raw.headers.is_empty() {
        let remedy = "remove them, or pass the secret to the program through `env`";
        report.problem(&problems::key(path, "headers"), "only a backend with `url` has this", remedy);
    }
    if matches!(raw.transport, Some(RawTransport::StreamableHttp | RawTransport::Sse)) {
        let remedy = "remove `transport`, or replace `command` by `url`";
        report.problem(&problems::key(path, "transport"), "a backend with `command` speaks stdio", remedy);
    }
    for name in raw.env.keys().filter(|name| name.is_empty() || name.contains(['=', '\0'])) {
        let at = problems::key(&problems::key(path, "env"), name);
        report.problem(&at, "not the name of an environment variable", "use letters, digits and `_`");
    }
    let at = problems::key(path, "command");
    let mut words = match command {
        RawCommand::Program(program)
            if program.trim().contains(char::is_whitespace) && raw.args.is_empty() =>
        {
            let list = program.split_whitespace().collect::<Vec<_>>().join(", ");
            let remedy = if report.references.contains_key(&at) {
                "write it as a list, such as `[program, argument]`".to_owned()
            } else {
                format!("write it as a list: `[{list}]`")
            };
            report.problem(&at, "a program and its arguments in one string are not split", remedy);
            return None;
        }
        RawCommand::Program(program) => vec![program.clone()],
        RawCommand::Line(words) => words.clone(),
    };
    words.extend_from_slice(&raw.args);
    let mut strings = words.iter().map(String::as_str).chain(raw.env.values().map(Secret::expose));
    if strings.any(|string| string.contains('\0')) {
        report.problem(&at, "a command line cannot hold a NUL character", "remove it");
    }
    let mut words = words.into_iter();
    let Some(command) = words.next().filter(|command| !command.trim().is_empty()) else {
        report.problem(&at, "empty", "name the program to start");
        return None;
    };
    Some(Transport::Stdio {
        command,
        args: words.collect(),
        env: raw.env.clone(),
        cwd: raw.cwd.as_ref().map(PathBuf::from),
    })
}
