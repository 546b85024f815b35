//! Entries of `vmcp.yaml` made from another client's servers.

use serde::Serialize;
use serde_saphyr::FlowSeq;
use url::{Host, Url};

use super::dialects::Server;
use super::secrets::{self, Secrets};
use vmcp_config::{BackendEntry, is_reserved_header};

/// Settings of other clients that mean nothing here, or only to a person.
const IGNORABLE: [&str; 12] = [
    "description",
    "gallery",
    "version",
    "autoApprove",
    "alwaysAllow",
    "trust",
    "name",
    "display_name",
    "bundled",
    "source",
    "autoRun",
    "alwaysLoad",
];
/// Longest time limit that is taken over, in seconds: the default of `proxy.maxToolTimeout`.
const MAX_TIMEOUT_SECONDS: f64 = 600.0;
/// Longest time of a start that is taken over, in seconds.
const MAX_START_SECONDS: f64 = 600.0;
/// Port at which `vmcp serve` listens by default.
const OWN_PORT: u16 = 8080;

/// One entry of `aggregation.tools`, as it is written.
#[derive(Serialize)]
pub(super) struct ToolRules {
    workload: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<FlowSeq<Vec<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exclude: Option<FlowSeq<Vec<String>>>,
}

/// Converts a server, and the tools of it that the other client uses. The error says why it is left out.
pub(super) fn convert(
    name: &str,
    mut server: Server,
    secrets: &mut Secrets<'_>,
    notes: &mut Vec<String>,
) -> Result<(BackendEntry, Option<ToolRules>), String> {
    if !cfg!(windows) {
        without_windows(&mut server, notes);
    }
    if leads_to_vmcp(name, &server) {
        return Err("it leads to vmcp itself".to_owned());
    }
    let transport = transport(server.kind.as_deref().unwrap_or_default())?;
    let others: Vec<_> =
        server.others.keys().filter(|key| !IGNORABLE.contains(&key.as_str())).cloned().collect();
    if !others.is_empty() {
        notes.push(format!("not taken over: {}", others.join(", ")));
    }
    let timeout = server.timeout_seconds();
    if timeout.is_some_and(|timeout| timeout > MAX_TIMEOUT_SECONDS) {
        notes.push("timeout not taken over: it is longer than proxy.maxToolTimeout, 10m".to_owned());
    }
    let timeout = timeout.filter(|timeout| *timeout <= MAX_TIMEOUT_SECONDS);
    let shared = BackendEntry {
        name: name.to_owned(),
        enabled: server.disabled.then_some(false),
        timeout: timeout.map(seconds),
        connection_timeout: server.start_seconds().filter(|start| *start <= MAX_START_SECONDS).map(seconds),
        ..BackendEntry::default()
    };
    let list = |tools: &Vec<String>| (!tools.is_empty()).then(|| FlowSeq(tools.clone()));
    let (filter, exclude) = (list(&server.only), list(&server.without));
    let rules = (filter.is_some() || exclude.is_some()).then(|| ToolRules {
        workload: name.to_owned(),
        filter,
        exclude,
    });
    let entry = match (&server.command, &server.url) {
        (Some(_), url) => {
            if url.is_some() {
                notes.push("url left out: the server has a command too".to_owned());
            }
            with_command(shared, server, secrets, notes)
        }
        (None, Some(_)) => BackendEntry { transport, ..with_url(shared, server, secrets, notes) },
        (None, None) => return Err("neither `command` nor `url` is given".to_owned()),
    };
    Ok((entry, rules))
}

/// Removes `cmd /c` in front of a command, and `.cmd` or `.exe` behind the name of a program: a file that a
/// team shares has them for Windows.
fn without_windows(server: &mut Server, notes: &mut Vec<String>) {
    let Some(command) = &mut server.command else { return };
    let name = command.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    let is_switch = server.args.first().is_some_and(|first| first.eq_ignore_ascii_case("/c"));
    if matches!(&*name, "cmd" | "cmd.exe") && is_switch && server.args.len() > 1 {
        *command = server.args.drain(..2).next_back().unwrap_or_default();
        notes.push("`cmd /c` left out: it is for Windows".to_owned());
    }
    let has_path = command.contains(['/', '\\']);
    let suffix = [".cmd", ".exe"].into_iter().find(|suffix| command.to_ascii_lowercase().ends_with(*suffix));
    if let Some(suffix) = suffix.filter(|suffix| !has_path && command.len() > suffix.len()) {
        command.truncate(command.len() - suffix.len());
        notes.push(format!("`{suffix}` left out behind {command}: it is for Windows"));
    }
}

/// Returns the transport that a client's word for it means; `None` for the transport of an entry without it.
fn transport(kind: &str) -> Result<Option<&'static str>, String> {
    let plain = kind.trim().to_ascii_lowercase().replace(['-', '_', ' ', '+'], "");
    match &*plain {
        "" | "stdio" | "local" | "process" | "command" | "http" | "https" | "remote" | "streamable"
        | "streamablehttp" | "httpstreamable" | "httpstream" => Ok(None),
        "sse" | "httpsse" => Ok(Some("sse")),
        "ws" | "wss" | "websocket" => Ok(Some("websocket")),
        _ => Err(format!("transport {kind:?} is not supported")),
    }
}

/// Writes a time limit in whole seconds, rounded up.
fn seconds(seconds: f64) -> String {
    format!("{}s", seconds.ceil())
}

fn with_command(
    shared: BackendEntry,
    server: Server,
    secrets: &mut Secrets<'_>,
    notes: &mut Vec<String>,
) -> BackendEntry {
    let command = server.command.unwrap_or_default();
    let mut split = command.split_whitespace().map(str::to_owned);
    let first = split.next().unwrap_or_default();
    let rest: Vec<String> = split.collect();
    let is_line = !rest.is_empty() && server.args.is_empty() && !first.contains(['/', '\\']);
    let (program, args) = if is_line {
        // The arguments may hold secrets, which no note shows.
        notes.push(format!("command split into words: {first:?} and its arguments were one string"));
        (first, rest)
    } else {
        (command, server.args)
    };
    let mut words = vec![secrets::plain(&program)];
    secrets.own = server.env.keys().cloned().collect();
    words.extend(secrets.arguments(&shared.name, &args, notes));
    secrets.own.clear();
    let env = server.env.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let value = secrets.value(&shared.name, &key, &key, &value, notes);
        (key, value)
    });
    let env = env.collect();
    BackendEntry {
        command: Some(FlowSeq(words)),
        env,
        cwd: server.cwd.map(|cwd| secrets::plain(&cwd)),
        ..shared
    }
}

fn with_url(
    shared: BackendEntry,
    server: Server,
    secrets: &mut Secrets<'_>,
    notes: &mut Vec<String>,
) -> BackendEntry {
    let (reserved, headers): (Vec<_>, Vec<_>) =
        server.headers.into_iter().partition(|(key, _)| is_reserved_header(&key.to_ascii_lowercase()));
    notes.extend(reserved.iter().map(|(key, _)| format!("header {key} left out: vmcp sets it itself")));
    let header = |(key, value): (String, String)| {
        let value = secrets.value(&shared.name, &secrets::wanted(&shared.name, &key), &key, &value, notes);
        (key, value)
    };
    let headers = headers.into_iter().map(header).collect();
    let url = Some(secrets.url(&shared.name, &server.url.unwrap_or_default(), notes));
    BackendEntry { url, headers, ..shared }
}

/// Returns true for a server that is vmcp: its command, or the address at which it listens by default. Behind
/// itself, vmcp would list its own tools again and again.
fn leads_to_vmcp(name: &str, server: &Server) -> bool {
    let words = server.command.iter().flat_map(|command| command.split_whitespace());
    let words: Vec<&str> = words.chain(server.args.iter().map(String::as_str)).collect();
    let program = |word: &&str| {
        let file = word.rsplit(['/', '\\']).next().unwrap_or_default();
        matches!(file, "vmcp" | "vmcp.exe")
    };
    if words.iter().any(program) && ["serve", "mcp-server"].iter().any(|command| words.contains(command)) {
        return true;
    }
    let own_address = |text: &str| {
        let Ok(url) = Url::parse(text) else { return false };
        let loopback = match url.host() {
            Some(Host::Domain(host)) => host == "localhost",
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            None => false,
        };
        let usual = url.port_or_known_default() == Some(OWN_PORT) || name == "vmcp";
        loopback && usual && url.path().trim_end_matches('/') == "/mcp"
    };
    server.url.as_deref().into_iter().chain(words).any(own_address)
}
