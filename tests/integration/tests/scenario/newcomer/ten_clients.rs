//! A newcomer with ten clients: installs a package, imports every client's servers, connects three of the
//! clients, and opens two of them over one set of servers.

use std::path::Path;

use serde_json::{Value, json};
use tokio::process::Command;
use vmcp_integration::{Fixture, children, eventually};

use super::Newcomer;
use crate::scenario::shared_server::{initialize, programs};
use crate::scenario::stdio_edge::Pipe;

/// Clients, with the file of the user and the key of its servers.
const CLIENTS: [(&str, &str, &str); 10] = [
    ("windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers"),
    ("claude", ".claude.json", "mcpServers"),
    ("zed", ".config/zed/settings.json", "context_servers"),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers"),
    ("codex", ".codex/config.toml", "mcp_servers"),
    ("cursor", ".cursor/mcp.json", "mcpServers"),
    ("vscode", ".config/Code/User/mcp.json", "servers"),
    ("gemini", ".gemini/settings.json", "mcpServers"),
    ("goose", ".config/goose/config.yaml", "extensions"),
    ("opencode", ".config/opencode/opencode.json", "mcp"),
];
/// Clients that are connected; the first two are opened.
const CONNECTED: [&str; 3] = ["claude-desktop", "cursor", "codex"];
/// The server that every client has.
const SHARED: &str = "github";

/// Returns a server as an entry of a client's file.
fn entry(client: &str, server: &Fixture) -> Value {
    let words = server.command();
    let (program, args) = words.split_first().expect("a program");
    match client {
        "goose" => json!({"type": "stdio", "enabled": true, "cmd": program, "args": args}),
        "opencode" => json!({"type": "local", "command": words}),
        _ => json!({"command": program, "args": args}),
    }
}

/// Returns the text of a client's file, with its servers in the given order; a map of JSON would sort them.
fn text_of(client: &str, key: &str, servers: [&Fixture; 2]) -> String {
    let named = servers.map(|server| {
        let (name, entry) = (&server.name, entry(client, server));
        match client {
            // Texts and lists of JSON are those of TOML too.
            "codex" => format!("[{key}.{name}]\ncommand = {}\nargs = {}\n", entry["command"], entry["args"]),
            _ => format!("{}: {entry}", json!(name)),
        }
    });
    match client {
        "codex" => named.join("\n"),
        "goose" => format!("{key}:\n  {}\n", named.join("\n  ")),
        _ => format!("{{{}: {{ {} }}}}\n", json!(key), named.join(", ")),
    }
}

fn read(newcomer: &Newcomer, client: &str) -> String {
    let (_, file, _) = CLIENTS.into_iter().find(|(name, ..)| *name == client).expect("a client");
    std::fs::read_to_string(newcomer.home.path().join(file)).expect("the client's file")
}

/// Starts what a client's file names, as a client does that was opened from a menu: with a bare `PATH`.
fn open(newcomer: &Newcomer, client: &str) -> Pipe {
    let file: Value = serde_json::from_str(&read(newcomer, client)).expect("JSON");
    let servers = file["mcpServers"].as_object().expect("servers");
    assert_eq!(servers.keys().collect::<Vec<_>>(), ["vmcp"], "vmcp serves the others");
    let entry = &servers["vmcp"];
    let (program, home) = (entry["command"].as_str().expect("a program"), newcomer.home.path());
    let home = home.canonicalize().expect("the home");
    assert!(Path::new(program).starts_with(&home), "the installed program: {entry}");
    let mut command = Command::new(program);
    command.args(entry["args"].as_array().expect("arguments").iter().filter_map(Value::as_str));
    command.env_clear().env("HOME", newcomer.home.path()).env("PATH", "/usr/bin:/bin").current_dir("/");
    for (name, value) in entry["env"].as_object().into_iter().flatten() {
        command.env(name, value.as_str().expect("a text"));
    }
    Pipe::start(command, tempfile::tempdir().expect("a folder"))
}

/// Returns the names of the listed tools, sorted.
async fn listed(window: &mut Pipe, id: u64) -> Vec<String> {
    let listed = window.ask(id, "tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().expect("tools").iter();
    let mut names: Vec<_> = tools.filter_map(|tool| Some(tool["name"].as_str()?.to_owned())).collect();
    names.sort();
    names
}

async fn from_the_installation_to_two_windows(installer: &str) {
    let mut newcomer = Newcomer::without_vmcp();
    newcomer.installs_by(installer).await;
    let shared = Fixture::stdio(SHARED, "echo").start().await;
    let mut own = Vec::new();
    for (index, (client, file, key)) in CLIENTS.into_iter().enumerate() {
        let fixture = Fixture::stdio(&format!("own-{client}"), "echo").start().await;
        // In half of the files, the servers stand against the alphabet.
        let servers = if index % 2 == 0 { [&fixture, &shared] } else { [&shared, &fixture] };
        let path = newcomer.home.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text_of(client, key, servers)).expect("writing");
        own.push(fixture);
    }

    newcomer.follows("mkdir work && cd work").await;
    for (index, (client, ..)) in CLIENTS.into_iter().enumerate() {
        let said = newcomer.follows(&format!("vmcp init --from {client} --merge < /dev/null")).await;
        assert!(said.contains(&format!("own-{client}")), "{client}: {said}");
        let skips = said.contains(&format!("left out, because backends have these names: {SHARED};"));
        assert_eq!(skips, index > 0, "{client}: {said}");
    }
    let mut names: Vec<&str> = own.iter().map(|fixture| fixture.name.as_str()).collect();
    names.push(SHARED);
    let valid = newcomer.follows("vmcp validate").await;
    assert!(valid.contains(&format!("{} backends, 0 warnings", names.len())), "{valid}");
    let config = newcomer.folder.join("vmcp.yaml");
    let [listen, admin] = &newcomer.ports;
    let text = std::fs::read_to_string(&config).expect("the file");
    let ports = format!("server: {{ listen: \"{listen}\", adminListen: \"{admin}\" }}\n");
    std::fs::write(&config, text + &ports).expect("writing");

    for client in CONNECTED {
        let said = newcomer.follows(&format!("vmcp connect {client}")).await;
        assert!(said.contains("taken out, because vmcp serves them: "), "{client}: {said}");
        assert!(!said.contains("still there"), "{client}: {said}");
        let text = read(&newcomer, client);
        assert!(text.contains("mcp-server") && !text.contains("vmcp-fixture"), "{client}: {text}");
    }
    let mut windows = Vec::new();
    for client in CONNECTED.into_iter().take(2) {
        let mut window = open(&newcomer, client);
        initialize(&mut window).await;
        windows.push(window);
    }
    newcomer.waits_for(&names).await;
    let status = newcomer.follows("vmcp status -o json 2>/dev/null").await;
    let status: Value = serde_json::from_str(&status).expect("JSON");
    let server = status["pid"].as_u64().expect("a process") as u32;
    assert_eq!(programs(server), names.len(), "one set of servers for two windows");
    let mut lists = Vec::new();
    for window in &mut windows {
        lists.push(listed(window, 1).await);
        let call = json!({"tool_name": format!("{SHARED}_add"), "parameters": {"a": 2, "b": 3}});
        let call = json!({"name": "optim_call_tool", "arguments": call});
        let answer = window.ask(2, "tools/call", call).await;
        assert_eq!(answer["result"]["content"][0]["text"], "5", "{answer}");
        let proxy = window.child.id().expect("a process");
        eventually("the proxy to be alone", async || children(proxy).is_empty().then_some(())).await;
    }
    assert!(lists[0].contains(&"optim_find_tool".to_owned()), "{lists:?}");
    assert_eq!(lists[0], lists[1], "both windows see the same tools");
    // The called server may keep state: each of two windows has a process of its own, and one is kept ready.
    let count = programs(server);
    assert!((names.len()..=names.len() + 3).contains(&count), "{count} programs");
    newcomer.follows("vmcp stop").await;
    for window in windows {
        window.end().await;
    }
}

#[tokio::test]
async fn ten_clients_of_an_installed_wheel_share_one_set_of_servers() {
    from_the_installation_to_two_windows("uv tool install vmcp-server").await;
}

#[tokio::test]
async fn ten_clients_of_an_installed_npm_package_share_one_set_of_servers() {
    from_the_installation_to_two_windows("npm install --global vmcp").await;
}
