//! `vmcp mcp-server`: the clients of one configuration share a running server, which the first one starts.

use serde_json::{Value, json};
use tokio::process::Command;
use vmcp_integration::{
    Fixture, MODERN, binary, children, eventually, free_port, installed, node, run_script,
};

use super::laptop::{Laptop, settings};
use super::stdio_edge::Pipe;

const OWN: [&str; 5] = ["start", "stop", "restart", "status", "init_project"];

/// A home whose configuration has one server, at ports of its own.
fn laptop(echo: &Fixture) -> Laptop {
    let mut config = settings(std::slice::from_ref(&echo.backend));
    let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    config["server"] = json!({"listen": ports[0], "adminListen": ports[1]});
    Laptop::new(&config)
}

fn proxy(laptop: &Laptop) -> Command {
    let mut command = laptop.command(&["mcp-server"]);
    command.env_remove("VMCP_LISTEN").env_remove("VMCP_URL");
    command
}

fn open(laptop: &Laptop) -> Pipe {
    Pipe::start(proxy(laptop), tempfile::tempdir().expect("a folder"))
}

/// Opens the session of a client, and returns the answer.
pub(super) async fn initialize(pipe: &mut Pipe) -> Value {
    let client = json!({"name": "x", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let opened = pipe.ask(0, "initialize", params).await;
    pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    opened
}

/// Calls a tool, and returns the structured content.
async fn call(pipe: &mut Pipe, id: u64, name: &str, arguments: Value) -> Value {
    let answer = pipe.ask(id, "tools/call", json!({"name": name, "arguments": arguments})).await;
    let result = &answer["result"];
    if result["structuredContent"].is_object() { result["structuredContent"].clone() } else { answer }
}

async fn names(pipe: &mut Pipe, id: u64) -> Vec<String> {
    let listed = pipe.ask(id, "tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().expect("tools").iter();
    tools.filter_map(|tool| Some(tool["name"].as_str()?.to_owned())).collect()
}

async fn add(pipe: &mut Pipe, id: u64) -> String {
    let call = json!({"name": "echo_add", "arguments": {"a": 2, "b": 3}});
    let answer = pipe.ask(id, "tools/call", call).await;
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

async fn status(laptop: &Laptop) -> Value {
    let shown = laptop.run(&["status", "-o", "json"]).await;
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    serde_json::from_str(&shown.stdout).expect("JSON")
}

/// Returns the state file of the running server.
fn state_file(laptop: &Laptop) -> Value {
    let files = std::fs::read_dir(laptop.path(".cache/vmcp/run")).expect("files").flatten();
    let mut paths = files.map(|file| file.path());
    let path = paths.find(|path| path.extension().is_some_and(|end| end == "json")).expect("the state file");
    serde_json::from_str(&std::fs::read_to_string(path).expect("text")).expect("JSON")
}

#[tokio::test]
async fn clients_that_start_together_share_one_server() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let laptop = laptop(&echo);
    let (mut first, mut second, mut modern) = (open(&laptop), open(&laptop), open(&laptop));
    let meta = json!({"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"_meta": meta});
    let (opened, _, discovered) = tokio::join!(
        initialize(&mut first),
        initialize(&mut second),
        modern.ask(0, "server/discover", params.clone())
    );
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25", "{opened}");
    assert_eq!(discovered["result"]["supportedVersions"][0], MODERN, "{discovered}");
    let files = std::fs::read_dir(laptop.path(".cache/vmcp/run")).expect("state files").flatten();
    let servers = files.filter(|file| file.file_name().to_string_lossy().ends_with(".json")).count();
    assert_eq!(servers, 1, "one server for three clients");

    first.until_listed("echo_add", 100).await;
    assert!(add(&mut second, 1).await.contains('5'));
    let listed = modern.ask(1, "tools/list", params.clone()).await;
    assert_eq!(listed["result"]["resultType"], "complete", "{listed}");
    let of_modern = listed["result"]["tools"].to_string();
    let reported = call(&mut first, 2, "status", json!({})).await;
    let state = status(&laptop).await;
    for report in [&reported, &state] {
        assert_eq!((&report["running"], &report["healthy"]), (&json!(true), &json!(true)), "{report}");
        assert_eq!(report["pid"], state["pid"]);
        let banner = report["formatted_message"].as_str().expect("a banner");
        let port = format!("HTTP Port: {}\n", report["http_port"]);
        assert!(banner.contains("Status: Running\n") && banner.contains(&port), "{banner}");
    }

    // The port offers none of the tools that belong to a local program.
    let over_http =
        vmcp_integration::Client::legacy(state["url"].as_str().expect("a URL"), "2025-11-25", "raw");
    let mut expected: Vec<_> = over_http.await.tools().await.into_iter().map(|(name, _)| name).collect();
    assert!(!expected.iter().any(|name| OWN.contains(&name.as_str())), "{expected:?}");
    expected.extend(OWN.map(str::to_owned));
    assert_eq!(names(&mut first, 3).await, expected);
    assert!(OWN.iter().all(|own| of_modern.contains(&format!("\"name\":\"{own}\""))), "{of_modern}");

    // Any folder is good enough for commands: one server runs.
    std::fs::create_dir(laptop.path("elsewhere")).expect("a folder");
    let mut elsewhere = laptop.command(&["status"]);
    let shown = elsewhere.current_dir(laptop.path("elsewhere")).output().await.expect("vmcp");
    assert!(String::from_utf8_lossy(&shown.stdout).contains("1 connected"), "{shown:?}");
    assert_eq!(laptop.run(&["stop"]).await.code, Some(0));
    for pipe in [first, second, modern] {
        pipe.end().await;
    }
}

/// Counts the programs of MCP servers below a process.
#[cfg(target_os = "linux")]
pub(super) fn programs(server: u32) -> usize {
    let is_fixture = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).next().is_some_and(|program| program.ends_with(b"vmcp-fixture"))
    };
    children(server).iter().filter(|pid| is_fixture(pid)).count()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn three_windows_have_one_set_of_programs() {
    let own = Fixture::stdio("own", "echo").args(["--era", "legacy"]).start().await;
    let echo = Fixture::stdio("echo", "echo").args(["--era", "legacy"]).shared().start().await;
    let mut config = settings(&[own.backend.clone(), echo.backend.clone()]);
    let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    config["server"] = json!({"listen": ports[0], "adminListen": ports[1]});
    let laptop = Laptop::new(&config);
    let mut windows = Vec::new();
    for _ in 0..3 {
        let mut window = open(&laptop);
        initialize(&mut window).await;
        window.until_listed("echo_add", 100).await;
        window.until_listed("own_add", 1_000_000).await;
        windows.push(window);
        let server = status(&laptop).await["pid"].as_u64().expect("a process") as u32;
        assert_eq!(programs(server), 2, "{} windows", windows.len());
    }
    let server = status(&laptop).await["pid"].as_u64().expect("a process") as u32;
    for window in &mut windows {
        assert!(add(window, 1).await.contains('5'));
        let proxy = window.child.id().expect("a process");
        eventually("the proxy to be alone", async || children(proxy).is_empty().then_some(())).await;
    }
    assert_eq!(programs(server), 2, "a server that is shared serves the calls of all windows");
    // A server that may keep state gets a process for each window that calls it, and one is kept ready.
    for window in &mut windows {
        let call = json!({"name": "own_add", "arguments": {"a": 2, "b": 3}});
        let answer = window.ask(2, "tools/call", call).await;
        assert_eq!(answer["result"]["content"][0]["text"], "5", "{answer}");
    }
    let count = programs(server);
    assert!((5..=6).contains(&count), "{count} programs for one shared server and one of three windows");
    assert_eq!(laptop.run(&["stop"]).await.code, Some(0));
    for window in windows {
        window.end().await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_stop_is_not_undone_by_a_client_that_waits_to_start_the_server() {
    let echo = Fixture::http("echo", "echo").start().await;
    let laptop = laptop(&echo);
    assert_eq!(laptop.run(&["start"]).await.code, Some(0));
    assert_eq!(laptop.run(&["stop"]).await.code, Some(0));
    let files = std::fs::read_dir(laptop.path(".cache/vmcp/run")).expect("state files").flatten();
    let paths: Vec<_> = files.map(|file| file.path()).collect();
    let with = |end: &str| paths.iter().find(|path| path.extension().is_some_and(|it| it == end));
    let lock = std::fs::File::open(with("lock").expect("the lock")).expect("the lock");
    lock.lock().expect("the lock");
    let mut pipe = open(&laptop);
    let proxy = pipe.child.id().expect("a process");
    let opening = initialize(&mut pipe);
    let stop = async {
        // A start that has opened the file of the lock waits for it.
        let waits = |pid: &u32| {
            let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            let mut targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
            targets.any(|target| Some(&target) == with("lock"))
        };
        eventually("a start that waits", async || children(proxy).iter().any(waits).then_some(())).await;
        std::fs::write(with("stopped").expect("the mark"), "again").expect("writing");
        lock.unlock().expect("the lock");
    };
    let (opened, ()) = tokio::join!(opening, stop);
    let words = opened["result"]["instructions"].as_str().expect("instructions");
    assert!(words.contains("Daemon is not running"), "{opened}");
    assert_eq!(status(&laptop).await["running"], false);
    pipe.end().await;
    // A client that comes after the stop starts the server.
    let mut pipe = open(&laptop);
    initialize(&mut pipe).await;
    pipe.until_listed("echo_add", 100).await;
    assert_eq!(laptop.run(&["stop"]).await.code, Some(0));
    pipe.end().await;
}

#[tokio::test]
async fn a_client_stops_starts_and_restarts_the_server() {
    let echo = Fixture::http("echo", "echo").start().await;
    let laptop = laptop(&echo);
    let mut pipe = open(&laptop);
    initialize(&mut pipe).await;
    pipe.until_listed("echo_add", 100).await;
    let first = status(&laptop).await["pid"].clone();
    let again = call(&mut pipe, 1, "start", json!({})).await;
    assert_eq!((&again["success"], &again["already_running"]), (&json!(false), &json!(true)), "{again}");

    let stopped = call(&mut pipe, 2, "stop", json!({})).await;
    assert_eq!(
        (&stopped["success"], &stopped["message"]),
        (&json!(true), &json!("Daemon stopped successfully")),
        "{stopped}"
    );
    let expected = json!({"success": false, "error": "Daemon is not running. Start it with start() first."});
    assert_eq!(call(&mut pipe, 3, "optim_call_tool", json!({"tool_name": "echo_add"})).await, expected);
    assert_eq!(names(&mut pipe, 4).await, OWN);
    let reported = call(&mut pipe, 5, "status", json!({})).await;
    assert_eq!((&reported["running"], &reported["pid"]), (&json!(false), &Value::Null), "{reported}");
    assert_eq!(call(&mut pipe, 6, "stop", json!({})).await["not_running"], true);

    let started = call(&mut pipe, 7, "start", json!({})).await;
    assert_eq!(
        (&started["success"], &started["healthy"], &started["message"]),
        (&json!(true), &json!(true), &json!("Daemon started successfully")),
        "{started}"
    );
    assert_ne!(started["pid"], first);
    pipe.until(|message| message["method"] == "notifications/tools/list_changed").await;
    pipe.until_listed("echo_add", 200).await;
    let restarted = call(&mut pipe, 8, "restart", json!({})).await;
    assert_eq!(
        (&restarted["success"], &restarted["message"]),
        (&json!(true), &json!("Daemon restarted successfully")),
        "{restarted}"
    );
    assert_ne!(restarted["pid"], started["pid"]);
    pipe.until_listed("echo_add", 300).await;
    assert!(add(&mut pipe, 9).await.contains('5'), "the session went on");

    let project = call(&mut pipe, 10, "init_project", json!({"name": "demo"})).await;
    assert_eq!(project["message"], "Project 'demo' initialized successfully", "{project}");
    assert_eq!(call(&mut pipe, 11, "init_project", json!({})).await["project"], project["project"]);
    assert!(laptop.path(".vmcp/project.json").is_file());
    assert_eq!(laptop.run(&["stop"]).await.code, Some(0));
    // A server that a client's restart starts ends as one of its start does.
    let started = call(&mut pipe, 12, "restart", json!({})).await;
    assert_eq!((&started["success"], &started["killed"]), (&json!(true), &json!(false)), "{started}");
    let options = state_file(&laptop)["options"].clone();
    assert!(!options["end_after_idle"].is_null(), "{options}");
    assert_eq!(laptop.run(&["stop"]).await.code, Some(0));
    pipe.end().await;
}

#[tokio::test]
async fn clients_of_the_port_and_of_the_socket_have_one_drain_time() {
    let echo = Fixture::http("echo", "echo").start().await;
    let mut config = settings(std::slice::from_ref(&echo.backend));
    let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    config["server"] = json!({"listen": ports[0], "adminListen": ports[1], "drainTimeout": "10s"});
    let laptop = Laptop::new(&config);
    let mut pipe = open(&laptop);
    initialize(&mut pipe).await;
    pipe.until_listed("echo_sleep", 100).await;
    let sleep = json!({"name": "echo_sleep", "arguments": {"ms": 600_000}});
    pipe.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": sleep})).await;
    let url = status(&laptop).await["url"].as_str().expect("a URL").to_owned();
    let client = vmcp_integration::Client::legacy(&url, "2025-11-25", "raw").await;
    let response = tokio::spawn(async move { client.open("tools/call", sleep).await });
    eventually("both calls to arrive", async || (echo.calls("sleep").await == 2).then_some(())).await;
    let start = std::time::Instant::now();
    let stopped = laptop.run(&["stop"]).await;
    assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
    // One after the other, they would have 20 seconds.
    assert!(start.elapsed() < std::time::Duration::from_secs(19), "{:?}", start.elapsed());
    response.abort();
}

#[tokio::test]
async fn a_session_goes_on_after_its_server_was_killed() {
    let echo = Fixture::http("echo", "echo").start().await;
    let laptop = laptop(&echo);
    let (mut first, mut second) = (open(&laptop), open(&laptop));
    initialize(&mut first).await;
    initialize(&mut second).await;
    first.until_listed("echo_add", 100).await;
    let before = status(&laptop).await["pid"].to_string();
    let killed = Command::new("kill").args(["-9", &before]).status().await.expect("kill");
    assert!(killed.success());
    // Neither client begins again.
    first.until_listed("echo_add", 200).await;
    second.until_listed("echo_add", 200).await;
    assert!(add(&mut first, 1).await.contains('5') && add(&mut second, 1).await.contains('5'));
    assert_ne!(status(&laptop).await["pid"].to_string(), before);
    assert_eq!(laptop.run(&["stop"]).await.code, Some(0));
    first.end().await;
    second.end().await;
}

/// Copies the built program by a process of its own: a file that this process writes could not be started
/// while another test starts a program (`ETXTBSY`).
#[cfg(target_os = "linux")]
async fn copy_program(to: &std::path::Path) {
    let copied = Command::new("cp").arg(binary("vmcp")).arg(to).status().await.expect("cp");
    assert!(copied.success());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_upgrade_keeps_sessions_and_helpers_of_the_server_that_runs() {
    let echo = Fixture::http("echo", "echo").start().await;
    let mut config = settings(std::slice::from_ref(&echo.backend));
    let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    config["server"] = json!({"listen": ports[0], "adminListen": ports[1]});
    config["optimizer"]["tools"] = json!(["find_tool", "call_tool", "execute_code"]);
    let laptop = Laptop::new(&config);
    let (program, next) = (laptop.path("vmcp"), laptop.path("vmcp.next"));
    copy_program(&program).await;
    copy_program(&next).await;
    let mut client = Command::new(&program);
    client.arg("mcp-server").current_dir(laptop.path("")).env("HOME", laptop.path("")).kill_on_drop(true);
    for name in ["VMCP_LISTEN", "VMCP_URL", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"] {
        client.env_remove(name);
    }
    let mut pipe = Pipe::start(client, tempfile::tempdir().expect("a folder"));
    initialize(&mut pipe).await;
    pipe.until_listed("echo_add", 100).await;
    let before = status(&laptop).await["pid"].clone();

    // An upgrade removes the file, as Homebrew does, or replaces it. The server still starts its helpers.
    std::fs::remove_file(&program).expect("the upgrade");
    for id in [1, 2] {
        let ran = call(&mut pipe, id, "optim_execute_code", json!({"code": "1 + 1"})).await;
        assert_eq!(ran["result"], "2", "{ran}");
    }
    std::fs::rename(&next, &program).expect("the upgrade");
    let restarted = call(&mut pipe, 3, "restart", json!({})).await;
    assert_eq!((&restarted["success"], &restarted["killed"]), (&json!(true), &json!(false)), "{restarted}");
    assert_ne!(restarted["pid"], before);
    let running = std::fs::read_link(format!("/proc/{}/exe", restarted["pid"])).expect("the server's file");
    assert_eq!(running, program.canonicalize().expect("a path"), "the program of the upgrade serves");
    pipe.until_listed("echo_add", 200).await;
    assert!(add(&mut pipe, 4).await.contains('5'), "the session went on");
    assert_eq!(laptop.run(&["stop"]).await.code, Some(0));
    pipe.end().await;
}

#[tokio::test]
async fn a_server_without_clients_ends_unless_a_person_started_it() {
    let echo = Fixture::http("echo", "echo").start().await;
    let laptop = laptop(&echo);
    let mut command = laptop.command(&["mcp-server", "--end-after-idle", "3s"]);
    command.env_remove("VMCP_URL");
    let mut pipe = Pipe::start(command, tempfile::tempdir().expect("a folder"));
    initialize(&mut pipe).await;
    assert_eq!(status(&laptop).await["running"], true);
    pipe.end().await;
    eventually("the end of the server", async || (status(&laptop).await["running"] == false).then_some(()))
        .await;
    let started = laptop.run(&["start", "-o", "json"]).await;
    let started: Value = serde_json::from_str(&started.stdout).expect("JSON");
    assert_eq!(started["healthy"], true, "{started}");
    let state = state_file(&laptop);
    assert_eq!(state["options"]["end_after_idle"], Value::Null, "{state}");
    assert_eq!(laptop.run(&["stop"]).await.code, Some(0));
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let echo = Fixture::http("echo", "echo").start().await;
    let laptop = laptop(&echo);
    let config = std::fs::read_to_string(laptop.path("vmcp.yaml")).expect("the file");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    let address = config["server"]["listen"].as_str().expect("an address");
    let holder = std::net::TcpListener::bind(address).expect("the port");
    let taken = laptop.run(&["start"]).await;
    assert_eq!(taken.code, Some(1), "{}", taken.stderr);
    assert!(taken.stderr.contains(&format!("cannot listen on {address}")), "{}", taken.stderr);
    // A client needs no certain port.
    let mut pipe = open(&laptop);
    initialize(&mut pipe).await;
    pipe.until_listed("echo_add", 100).await;
    assert_ne!(status(&laptop).await["http_port"].to_string(), address.rsplit(':').next().expect("a port"));
    assert_eq!(laptop.run(&["stop"]).await.code, Some(0));
    pipe.end().await;
    drop(holder);

    laptop.write("vmcp.yaml", "backends: [");
    let mut pipe = open(&laptop);
    let opened = initialize(&mut pipe).await;
    let words = opened["result"]["instructions"].as_str().expect("instructions");
    assert!(words.contains("the configuration has mistakes"), "{opened}");
    let failed = call(&mut pipe, 1, "start", json!({})).await;
    assert_eq!(failed["success"], false, "{failed}");
    assert!(failed["error"].to_string().contains("the configuration has mistakes"), "{failed}");
    laptop.write("vmcp.yaml", &config.to_string());
    let started = call(&mut pipe, 2, "start", json!({})).await;
    assert_eq!(started["success"], true, "{started}");
    pipe.until_listed("echo_add", 200).await;
    assert_eq!(laptop.run(&["stop"]).await.code, Some(0));
    pipe.end().await;
}

#[tokio::test]
async fn client_libraries_use_the_shared_server() {
    let echo = Fixture::http("echo", "echo").start().await;
    let laptop = laptop(&echo);
    let (program, file) =
        (binary("vmcp").display().to_string(), laptop.path("vmcp.yaml").display().to_string());
    let target = [program.as_str(), "mcp-server", "--end-after-idle", "60s", "--config", &file];
    for (library, place) in [("python-sdk-1", "agents"), ("fastmcp", "python")] {
        let interpreter = installed(&format!("{place}/bin/python"));
        let args = [&["-", library][..], &target].concat();
        let script = include_str!("../../clients/library.py");
        let seen = run_script(&interpreter, &args, script, &installed(place)).await;
        has_called(library, &seen[0]);
    }
    let args = [&["--input-type=module", "-"][..], &target].concat();
    let script = include_str!("../../clients/library.mjs");
    has_called("typescript-sdk-1", &run_script(&node("node"), &args, script, &installed("node")).await);
    // The libraries do not hand this variable on, so their server keeps its files below HOME.
    let mut stop = Command::new(&program);
    stop.args(["stop", "--config", &file]).env_remove("XDG_CACHE_HOME");
    assert!(stop.status().await.expect("vmcp").success(), "the libraries' clients left one server");
}

fn has_called(library: &str, seen: &Value) {
    let tools = seen["tools"].as_array().expect("tools");
    for tool in ["optim_find_tool", "start", "status"] {
        assert!(tools.contains(&json!(tool)), "{library}: {seen}");
    }
    assert_eq!((&seen["found"], &seen["called"]), (&json!("echo_add"), &json!("5")), "{library}: {seen}");
}
