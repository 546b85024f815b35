//! A server in the background, and the commands that look after it.

use serde_json::{Value, json};
use vmcp_integration::{Fixture, eventually, free_port};

use super::laptop::{Laptop, settings};

#[tokio::test]
async fn a_server_in_the_background_is_watched_and_stopped() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let laptop = Laptop::new(&settings(std::slice::from_ref(&echo.backend)));
    assert_eq!(laptop.run(&["status"]).await.code, Some(4), "none runs");
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
