//! Validates the list of backends: names, transports, and the settings that other sections hold for single
//! backends.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::codex;
use super::common_mistakes;
use super::known_secrets::KnownSecrets;
use super::{Backend, MAX_BACKENDS, RawBackend, RawCommand, RawTransport, Transport, normalize_name};
use crate::addresses::ReachableAddresses;
use crate::problems::{self, Report};
use crate::rules::{NamePattern, RESERVED_NAMES};
use crate::sections::backend::outgoing_auth::OutgoingRules;
use crate::sections::proxy::{self, IDLE_TIMEOUT, TIMEOUT};
use crate::values::duration::RawDuration;
use crate::values::headers;
use crate::values::http_url;

/// Settings of single backends in other sections than `backends`.
pub(crate) struct SharedBackendSettings<'a> {
    /// `proxy.preconnectServers`.
    pub preconnect: BTreeSet<&'a str>,
    /// `operational.timeouts.perWorkload`.
    pub per_workload: &'a BTreeMap<String, RawDuration>,
    /// `proxy.maxToolTimeout`.
    pub max_tool_timeout: Duration,
    /// `outgoingAuth` and `passthroughHeaders`.
    pub outgoing: OutgoingRules,
}

/// Validates the list, and merges into each backend its settings from other sections. Also returns, by name,
/// why backends are switched off whose references have no value.
pub(crate) fn validate(
    raw: &[RawBackend],
    shared: &SharedBackendSettings<'_>,
    report: &mut Report,
) -> (Vec<Backend>, BTreeMap<Arc<str>, String>) {
    if raw.len() > MAX_BACKENDS {
        let message = format!("{} backends", raw.len());
        report.problem("backends", message, format!("keep to at most {MAX_BACKENDS}"));
    }
    let mut first_use = HashMap::new();
    let mut unavailable = BTreeMap::new();
    let mut backends = Vec::with_capacity(raw.len());
    for (index, backend) in raw.iter().enumerate() {
        let path = problems::item("backends", index);
        let name = validate_name(backend.name.as_deref(), &path, report);
        let transport = validate_transport(backend, &path, report);
        let codex = codex::validate(backend, &path, report);
        common_mistakes::check(backend, &path, report);
        let connection_timeout = backend
            .connection_timeout
            .as_ref()
            .map(|timeout| timeout.validate(&problems::key(&path, "connectionTimeout"), &TIMEOUT, report));
        // An unnamed backend still has its time-out checked.
        let timeout = validate_timeout(backend, name.unwrap_or_default(), shared, &path, report);
        // A turn of an agent takes minutes.
        let timeout = timeout.or_else(|| codex.is_some().then_some(shared.max_tool_timeout));
        let Some(name) = name else { continue };
        if let Some(first) = first_use.insert(name, index) {
            report.problem(
                &problems::key(&path, "name"),
                format!("`{name}` is already the name of backends[{first}]"),
                "give each backend a name of its own",
            );
        }
        let absent = report.absent_below(&path).or_else(|| shared.outgoing.absent(backend, name, report));
        // A URL of which a part has no value is none; the backend is listed, and never connected.
        let Some(mut transport) = transport.or_else(|| absent.and_then(|_| no_address())) else { continue };
        let is_absent = absent.is_some();
        if let Some(problem) = absent.filter(|_| backend.enabled) {
            unavailable.insert(name.into(), format!("{}; {}", problem.message, problem.remedy));
        }
        let auth = shared.outgoing.apply(name, &mut transport, &path, report);
        let known_secrets = KnownSecrets::of(&transport, report.secrets_below(&path));
        backends.push(Backend {
            name: name.into(),
            transport,
            enabled: backend.enabled && !is_absent,
            timeout,
            connection_timeout,
            ca_bundle_path: backend.ca_bundle_path.as_ref().map(PathBuf::from),
            addresses: backend.addresses,
            preconnect: backend.preconnect || shared.preconnect.contains(name),
            isolation: backend.isolation,
            protocol_era: backend.protocol_era,
            max_sessions: backend.max_sessions,
            warm_sessions: backend.warm_sessions,
            credentials: auth.credentials,
            passthrough_headers: auth.passthrough,
            known_secrets,
            codex,
        });
    }
    (backends, unavailable)
}

/// Returns the transport of a backend whose address is not known; the name resolves nowhere (RFC 6761).
fn no_address() -> Option<Transport> {
    let url = Url::parse("http://unknown.invalid/").ok()?;
    Some(Transport::Http { url, headers: headers::Headers::default() })
}

fn validate_timeout(
    backend: &RawBackend,
    name: &str,
    shared: &SharedBackendSettings<'_>,
    path: &str,
    report: &mut Report,
) -> Option<Duration> {
    let own_path = problems::key(path, "timeout");
    let shared_path = problems::key("operational.timeouts.perWorkload", name);
    let (at, timeout) = match (&backend.timeout, shared.per_workload.get(name)) {
        (Some(_), Some(_)) => {
            report.problem(&shared_path, format!("{own_path} says it too"), "keep one of the two");
            return None;
        }
        (Some(own), None) => (own_path, own),
        (None, Some(shared)) => (shared_path, shared),
        (None, None) => return None,
    };
    let timeout = timeout.validate(&at, &TIMEOUT, report);
    Some(proxy::cap_timeout(shared.max_tool_timeout, &at, timeout, report))
}

fn validate_name<'a>(name: Option<&'a str>, path: &str, report: &mut Report) -> Option<&'a str> {
    let at = problems::key(path, "name");
    let Some(name) = name else {
        report.problem(&at, "missing", "give the backend a short, unique name, such as `name: github`");
        return None;
    };
    let normalized = normalize_name(name);
    if normalized.as_deref() != Some(name) {
        let shown = report.shown(&at, name);
        let remedy = normalized
            .filter(|_| !report.references.contains_key(&at))
            .map(|name| format!("call it `{name}`"));
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

fn validate_transport(raw: &RawBackend, path: &str, report: &mut Report) -> Option<Transport> {
    match (&raw.command, &raw.url) {
        (Some(_), Some(_)) => {
            let remedy = "keep `command` for a program started here, or `url` for a remote server";
            report.problem(path, "both `command` and `url` are given", remedy);
            None
        }
        (None, None)
            if raw.transport == Some(RawTransport::Codex)
                && !report.is_dropped(&problems::key(path, "command"))
                && !report.is_dropped(&problems::key(path, "url")) =>
        {
            let command = RawCommand::Line(codex::DEFAULT_COMMAND.map(str::to_owned).to_vec());
            validate_stdio(raw, &command, path, report)
        }
        (None, None) => {
            let requires = match raw.transport {
                Some(RawTransport::Stdio) => "transport `stdio` requires `command`",
                Some(RawTransport::StreamableHttp) => "transport `streamable-http` requires `url`",
                Some(RawTransport::Sse) => "transport `sse` requires `url`",
                Some(RawTransport::Websocket) => "transport `websocket` requires `url`",
                Some(RawTransport::Codex) | None => "neither `command` nor `url` is given",
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
        (Some(command), None) => validate_stdio(raw, command, path, report),
        (None, Some(url)) => validate_remote(raw, url, path, report),
    }
}

fn validate_remote(raw: &RawBackend, url: &str, path: &str, report: &mut Report) -> Option<Transport> {
    for (key, given) in [
        ("args", !raw.args.is_empty()),
        ("env", !raw.env.is_empty()),
        ("cwd", raw.cwd.is_some()),
        ("inheritEnv", !raw.inherit_env.is_empty()),
        ("idleTimeout", raw.idle_timeout.is_some()),
    ] {
        if given {
            let remedy = "remove it, or replace `url` by `command`";
            report.mistake(&problems::key(path, key), "only a backend with `command` has this", remedy);
        }
    }
    let headers = headers::validate(&raw.headers, &problems::key(path, "headers"), report);
    let scheme = url.trim().split(':').next().unwrap_or_default().to_ascii_lowercase();
    if let Some(secure) = match scheme.as_str() {
        "http" => Some("https"),
        "ws" => Some("wss"),
        _ => None,
    } && raw.ca_bundle_path.is_some()
    {
        let at = problems::key(path, "caBundlePath");
        let remedy = format!("remove it, or write `{secure}://`");
        report.mistake(&at, "a server without TLS shows no certificate", remedy);
    }
    let url = http_url::validate_server(url, &problems::key(path, "url"), report)?;
    let is_websocket = matches!(url.scheme(), "ws" | "wss");
    match raw.transport {
        None | Some(RawTransport::Websocket) if is_websocket => Some(Transport::WebSocket { url, headers }),
        None | Some(RawTransport::StreamableHttp) if !is_websocket => Some(Transport::Http { url, headers }),
        Some(RawTransport::Sse) if !is_websocket => Some(Transport::Sse { url, headers }),
        Some(RawTransport::Websocket) => {
            let remedy = "write `ws://` or `wss://`, or choose `streamable-http`";
            report.mistake(&problems::key(path, "url"), "not the address of a websocket", remedy);
            None
        }
        Some(RawTransport::Codex) => {
            let remedy = "remove `url`: Codex is started here, by `command` or as `codex app-server`";
            report.mistake(&problems::key(path, "transport"), "`codex` does not go with `url`", remedy);
            None
        }
        Some(RawTransport::Stdio) => {
            let remedy = "remove `transport`, or choose `streamable-http`, `sse` or `websocket`";
            report.mistake(&problems::key(path, "transport"), "`stdio` does not go with `url`", remedy);
            None
        }
        None | Some(RawTransport::StreamableHttp | RawTransport::Sse) => {
            let remedy = "remove `transport`, or write `http://` or `https://`";
            report.mistake(&problems::key(path, "url"), "the address of a websocket", remedy);
            None
        }
    }
}

fn validate_stdio(
    raw: &RawBackend,
    command: &RawCommand,
    path: &str,
    report: &mut Report,
) -> Option<Transport> {
    if !raw.headers.is_empty() {
        let remedy = "remove them, or pass the secret to the program through `env`";
        report.problem(&problems::key(path, "headers"), "only a backend with `url` has this", remedy);
    }
    if raw.ca_bundle_path.is_some() {
        let at = problems::key(path, "caBundlePath");
        report.mistake(&at, "only a backend with `url` has this", "remove it");
    }
    if raw.addresses != ReachableAddresses::Any {
        let at = problems::key(path, "addresses");
        report.mistake(&at, "only a backend with `url` has this", "remove it");
    }
    if matches!(
        raw.transport,
        Some(RawTransport::StreamableHttp | RawTransport::Sse | RawTransport::Websocket)
    ) {
        let remedy = "remove `transport`, or replace `command` by `url`";
        report.problem(&problems::key(path, "transport"), "a backend with `command` speaks stdio", remedy);
    }
    for name in raw.env.keys().filter(|name| name.is_empty() || name.contains(['=', '\0'])) {
        let at = problems::key(&problems::key(path, "env"), name);
        report.mistake(&at, "not the name of an environment variable", "use letters, digits and `_`");
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
    if words.iter().any(|word| word.contains('\0')) {
        report.problem(&at, "a command line cannot hold a NUL character", "remove it");
    }
    for (name, _) in raw.env.iter().filter(|(_, value)| value.expose().contains('\0')) {
        let at = problems::key(&problems::key(path, "env"), name);
        report.problem(&at, "a variable cannot hold a NUL character", "remove it");
    }
    let mut words = words.into_iter();
    let Some(command) = words.next().filter(|command| !command.trim().is_empty()) else {
        if !report.is_dropped(&problems::item(&at, 0)) {
            report.problem(&at, "empty", "name the program to start");
        }
        return None;
    };
    Some(Transport::Stdio {
        command,
        args: words.collect(),
        env: raw.env.clone(),
        cwd: raw.cwd.as_ref().map(PathBuf::from),
        inherit_env: raw.inherit_env.iter().map(NamePattern::new).collect(),
        idle_timeout: raw
            .idle_timeout
            .as_ref()
            .map(|timeout| timeout.validate(&problems::key(path, "idleTimeout"), &IDLE_TIMEOUT, report)),
    })
}
