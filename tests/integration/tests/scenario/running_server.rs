//! A server in the background, and the commands that look after it.

use serde_json::{Value, json};
use vmcp_integration::{Fixture, eventually, free_port};

use super::laptop::{Laptop, settings};
use super::stdio_edge::Pipe;

#[tokio::test]
async fn a_server_in_the_background_is_watched_and_stopped() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let laptop = Laptop::new(&settings(std::slice::from_ref(&echo.backend)));
    let none = laptop.run(&["status", "-o", "json"]).await;
    let status: Value = serde_json::from_str(&none.stdout).expect("JSON");
    assert_eq!((none.code, &status["running"], &status["pid"]), (Some(0), &json!(false), &Value::Null));
    let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let serve = ["serve", "--detach", "--listen", &ports[0], "--admin-listen", &ports[1]];
    let started = laptop.run(&serve).await;
    assert_eq!(started.code, Some(0), "{}", started.stderr);
    assert!(
        started.stderr.contains(&format!("http://{}/mcp in the background", ports[0])),
        "{}",
        started.stderr
    );
    assert_eq!(laptop.run(&serve).await.code, Some(1), "it runs already");
    eventually("the backend", async || {
        laptop.run(&["status"]).await.stdout.contains("1 connected").then_some(())
    })
    .await;
    let called = laptop.run(&["call", "echo_add", "a=2", "b=3"]).await;
    assert_eq!(called.stdout.trim(), "5", "{}", called.stderr);
    let calls = laptop.run(&["calls", "--json"]).await;
    let calls: Vec<Value> = calls
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("one JSON object a line"))
        .collect();
    let call = calls.iter().find(|call| call["item"] == "echo_add").expect("the call");
    assert_eq!((&call["backend"], &call["outcome"]), (&json!("echo"), &json!("ok")), "{call}");
    let logs = laptop.run(&["logs", "echo"]).await.stdout;
    assert!(logs.contains("echo: ") && logs.contains("connected"), "{logs}");
    assert_eq!(laptop.run(&["logs", "nobody"]).await.code, Some(3));

    let pid = async || {
        let status = laptop.run(&["backends", "-o", "json"]).await;
        let status: Value = serde_json::from_str(&status.stdout).expect("JSON");
        status["backends"][0]["restarts"].as_u64()
    };
    assert_eq!(pid().await, Some(0));
    let restarted = laptop.run(&["restart", "echo"]).await;
    assert_eq!(restarted.code, Some(0), "{}", restarted.stderr);
    assert_eq!(pid().await, Some(1));
    assert_eq!(laptop.run(&["restart", "nobody"]).await.code, Some(3));

    let stopped = laptop.run(&["stop"]).await;
    assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
    assert_eq!(laptop.run(&["stop"]).await.code, Some(4));
    // A configuration with mistakes does not start.
    laptop.write("vmcp.yaml", "backends: [");
    assert_eq!(laptop.run(&serve).await.code, Some(1));
}

#[tokio::test]
async fn figures_and_calls_are_those_of_one_configuration_and_outlive_its_server() {
    let echo = Fixture::http("echo", "echo").start().await;
    let config = settings(std::slice::from_ref(&echo.backend));
    let laptop = Laptop::new(&config);
    std::fs::create_dir(laptop.path("other")).expect("a folder");
    laptop.write("other/vmcp.yaml", &config.to_string());
    let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let serve = ["serve", "--detach", "--listen", &ports[0], "--admin-listen", &ports[1]];
    assert_eq!(laptop.run(&serve).await.code, Some(0));
    let called = laptop.run(&["call", "echo_add", "a=2", "b=3"]).await;
    assert_eq!(called.stdout.trim(), "5", "{}", called.stderr);
    let found = laptop.run(&["find", "add two numbers"]).await;
    assert_eq!(found.code, Some(0), "{}", found.stderr);
    assert_eq!(laptop.run(&["stop"]).await.code, Some(0));

    // Both files name the same server.
    let own = laptop.run(&["metrics"]).await;
    assert!(own.code == Some(0) && own.stdout.contains("add"), "{}{}", own.stdout, own.stderr);
    let other = laptop.run(&["metrics", "--config", "other/vmcp.yaml"]).await;
    assert_eq!((other.code, other.stdout.trim()), (Some(3), ""), "{}", other.stderr);

    // Another process has the calls: under the listed name, with the bytes of each.
    assert_eq!(laptop.run(&serve).await.code, Some(0));
    let calls = laptop.run(&["calls"]).await.stdout;
    for item in ["echo_add", "optim_find_tool"] {
        let call = calls.lines().find(|line| line.ends_with(item));
        let call = call.unwrap_or_else(|| panic!("{item} is not in\n{calls}"));
        assert!(!call.contains(" 0 B in") && !call.contains(" 0 B out"), "{call}");
    }
    assert_eq!(laptop.run(&["stop"]).await.code, Some(0));
}

#[tokio::test]
async fn commands_right_after_the_start_wait_for_servers_that_start() {
    let fixture = Fixture::stdio("slow", "echo").start().await;
    let slowly = ["sh", "-c", "sleep 3; exec \"$0\" \"$@\""].map(str::to_owned).to_vec();
    let command = [slowly, fixture.command()].concat();
    let backend = json!({"name": "slow", "command": command});
    for (words, part) in [
        (&["find", "add two numbers"][..], "slow_add"),
        (&["call", "slow_add", "a=2", "b=3"], "5"),
        (&["call", "slow_add", r#"{"a": 2}"#, "b=3"], "5"),
    ] {
        let mut config = settings(std::slice::from_ref(&backend));
        let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
        config["server"] = json!({"listen": ports[0], "adminListen": ports[1]});
        let laptop = Laptop::new(&config);
        assert_eq!(laptop.run(&["start"]).await.code, Some(0));
        let ended = laptop.run(words).await;
        assert_eq!(ended.code, Some(0), "{words:?}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.stdout.contains(part), "{words:?}: {}", ended.stdout);
        let unknown = laptop.run(&["call", "slow_sub", "a=2", "-o", "json"]).await;
        assert_eq!(unknown.code, Some(3), "as without -o json: {}", unknown.stdout);
        assert_eq!(laptop.run(&["stop"]).await.code, Some(0));
    }
}

#[tokio::test]
async fn a_server_that_hangs_is_named_and_signalled() {
    let laptop = Laptop::new(&settings(&[]));
    let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let started =
        laptop.run(&["start", "--listen", &ports[0], "--admin-listen", &ports[1], "-o", "json"]).await;
    let pid = serde_json::from_str::<Value>(&started.stdout).expect("JSON")["pid"].to_string();
    let signal = async |name: &str| {
        let sent = tokio::process::Command::new("kill").args([name, pid.as_str()]).status().await;
        assert!(sent.expect("kill").success());
    };
    signal("-STOP").await;
    let status = laptop.run(&["status"]).await;
    assert!(status.stdout.contains(&format!("process {pid} does not answer")), "{}", status.stdout);
    for command in ["restart", "stop"] {
        let failed = laptop.run(&[command, "--timeout", "1s"]).await;
        assert_eq!(failed.code, Some(1), "{}", failed.stderr);
        assert!(failed.stderr.contains(&format!("process {pid} is still ending")), "{}", failed.stderr);
        assert!(failed.stderr.contains(&format!("kill -9 {pid}")), "{}", failed.stderr);
    }
    // The signals that it was sent end it.
    signal("-CONT").await;
    eventually("its end", async || {
        laptop.run(&["status"]).await.stdout.contains("no vmcp runs").then_some(())
    })
    .await;
    let stays = laptop.run(&["start", "--unless-stopped", "-o", "json"]).await;
    assert!(stays.stdout.contains("stopped on purpose"), "{} {}", stays.stdout, stays.stderr);
}

#[tokio::test]
async fn a_server_that_is_stuck_is_killed_once_its_drain_must_be_over() {
    let mut config = settings(&[]);
    let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    config["server"] = json!({"listen": ports[0], "adminListen": ports[1], "drainTimeout": "0s"});
    let laptop = Laptop::new(&config);
    let report = async |command: &str| -> Value {
        let shown = laptop.run(&[command, "-o", "json"]).await;
        assert_eq!(shown.code, Some(0), "{} {}", shown.stdout, shown.stderr);
        serde_json::from_str(&shown.stdout).expect("JSON")
    };
    let stuck = report("start").await["pid"].to_string();
    let paused = tokio::process::Command::new("kill").args(["-STOP", &stuck]).status().await.expect("kill");
    assert!(paused.success());
    let restarted = report("restart").await;
    assert_eq!((&restarted["success"], &restarted["killed"]), (&json!(true), &json!(true)), "{restarted}");
    let message = restarted["message"].as_str().expect("a message");
    assert!(message.contains("restarted by force") && message.contains("SIGKILL"), "{message}");
    assert_ne!(restarted["pid"].to_string(), stuck);
    let stopped = report("stop").await;
    let expected = json!({"success": true, "message": "Daemon stopped successfully", "pid": restarted["pid"],
        "killed": false});
    assert_eq!(stopped, expected);
}

#[tokio::test]
async fn a_server_that_a_client_started_is_found_by_commands() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let mut config = settings(std::slice::from_ref(&echo.backend));
    config["profiles"] = json!({"work": {"tools": ["echo_add"], "exposure": "All"}});
    let laptop = Laptop::new(&config);
    let folder = tempfile::tempdir().expect("a folder");
    let unknown = laptop.run(&["serve", "--stdio", "--profile", "home"]).await;
    assert_eq!(
        (unknown.code, unknown.stderr.contains("there are work")),
        (Some(3), true),
        "{}",
        unknown.stderr
    );
    let mut pipe = Pipe::start(laptop.command(&["serve", "--stdio", "--profile", "work"]), folder);
    let client = json!({"name": "x", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    pipe.ask(1, "initialize", params).await;
    eventually("the backend", async || {
        laptop.run(&["status"]).await.stdout.contains("1 connected").then_some(())
    })
    .await;
    let listed = pipe.ask(2, "tools/list", json!({})).await;
    let names = listed["result"]["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]);
    let names: Vec<_> = names.filter_map(Value::as_str).filter(|name| name.starts_with("echo")).collect();
    assert_eq!(names, ["echo_add"], "{listed}");

    let status = laptop.run(&["status", "-o", "json"]).await;
    let status: Value = serde_json::from_str(&status.stdout).expect("JSON");
    assert_eq!(status["pid"].as_u64(), pipe.child.id().map(u64::from), "{status}");
    let called = laptop.run(&["call", "echo_add", "a=2", "b=3"]).await;
    assert_eq!(called.stdout.trim(), "5", "{}", called.stderr);
    let found = laptop.run(&["find", "add two numbers"]).await;
    assert!(found.stdout.contains("echo_add"), "{}", found.stderr);
    let calls = laptop.run(&["calls"]).await;
    assert!(calls.stdout.contains("echo_add"), "the call reached the client's server: {}", calls.stdout);
    let checked = laptop.run(&["doctor"]).await;
    assert!(checked.stdout.contains("runs for a client"), "{}", checked.stdout);
    assert_eq!(laptop.run(&["stop"]).await.code, Some(1), "the client would lose its server");
    pipe.end().await;
    assert!(laptop.run(&["status"]).await.stdout.contains("no vmcp runs"), "none runs");
}

#[tokio::test]
async fn the_cause_of_a_server_that_does_not_start_reaches_the_client() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let words = echo.backend["command"].as_array().expect("a command").iter();
    let command: Vec<_> = words.map(|word| format!("'{}'", word.as_str().expect("a word"))).collect();
    let mut config = settings(&[json!({"name": "echo", "command": ["sh", "run.sh"]})]);
    config["proxy"] = json!({"maxConnectionRetries": 0});
    let laptop = Laptop::new(&config);
    laptop.write("run.sh", &format!("exec {}", command.join(" ")));
    let serve = || Pipe::start(laptop.command(&["serve", "--stdio"]), tempfile::tempdir().expect("a folder"));
    let client = json!({"name": "x", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let mut pipe = serve();
    pipe.ask(1, "initialize", params.clone()).await;
    eventually("the listing", async || {
        laptop.run(&["tools"]).await.stdout.contains("echo_add").then_some(())
    })
    .await;
    pipe.end().await;

    laptop.write("run.sh", "echo uvx: invalid peer certificate >&2; exit 2");
    let mut pipe = serve();
    pipe.ask(1, "initialize", params).await;
    let call = json!({"name": "echo_add", "arguments": {"a": 2, "b": 3}});
    let answer = pipe.ask(2, "tools/call", call.clone()).await;
    assert!(answer.to_string().contains("uvx: invalid peer certificate"), "{answer}");
    let call = json!({"name": "optim_call_tool", "arguments": {"tool_name": "echo_add", "parameters": call["arguments"]}});
    let answer = pipe.ask(3, "tools/call", call).await;
    assert!(answer.to_string().contains("uvx: invalid peer certificate"), "{answer}");
    pipe.end().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_service_file_serves_this_configuration() {
    let laptop = Laptop::new(&settings(&[]));
    let printed = laptop.run(&["service", "install", "--print"]).await;
    let config = laptop.path("vmcp.yaml").canonicalize().expect("the file");
    assert!(
        printed.stdout.contains(&format!("serve --config \"{}\"", config.display())),
        "{}",
        printed.stdout
    );
    let installed = laptop.run(&["service", "install", "--no-start"]).await;
    assert_eq!(installed.code, Some(0), "{}", installed.stderr);
    let unit = std::fs::read_to_string(laptop.path(".config/systemd/user/vmcp.service")).expect("the unit");
    assert_eq!(unit, printed.stdout);
}

#[tokio::test]
async fn answers_of_find_tool_are_as_long_as_asked_for() {
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = vmcp_integration::Vmcp::new().backend(&echo).start().await;
    let client = vmcp.with_tool("echo_add").await;
    let mut tokens = Vec::new();
    for detail in ["names", "summary", "full"] {
        let arguments = json!({"tool_description": "add two numbers", "detail": detail});
        let answer = client.call_tool("optim_find_tool", arguments).await;
        let answer = answer.structured();
        let tool = answer["tools"].as_array().expect("tools")[0].clone();
        assert_eq!(tool["name"], "echo_add", "{answer}");
        assert_eq!(tool["description"].is_string(), detail != "names", "{tool}");
        assert_eq!(tool["parameters"]["properties"]["a"]["type"].is_string(), detail != "names", "{tool}");
        tokens.push(answer["token_metrics"]["returned_tokens"].as_u64().expect("tokens"));
    }
    assert!(tokens[0] < tokens[1] && tokens[1] <= tokens[2], "{tokens:?}");
}
