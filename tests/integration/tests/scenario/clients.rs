//! Real clients list, find and call: the Python SDK and the TypeScript SDK in both major versions, fastmcp,
//! mcp-use, the MCP clients of openai-agents and langchain, and the Inspector.

use serde_json::{Value, json};
use tokio::process::Command;
use vmcp_integration::{Fixture, Vmcp, binary, installed, node, python, run_script};

async fn echo() -> (Fixture, Vmcp) {
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).start().await;
    vmcp.with_tool("echo_add").await;
    (echo, vmcp)
}

fn check(mode: &str, seen: &Value) {
    let legacy = mode == "legacy";
    assert_eq!(seen["revision"], if legacy { "2025-11-25" } else { "2026-07-28" }, "{mode}: {seen}");
    let tools = seen["tools"].as_array().expect("tools");
    for tool in ["optim_find_tool", "optim_call_tool", "echo_add"] {
        assert!(tools.contains(&json!(tool)), "{mode}: {seen}");
    }
    assert_eq!(seen["found"], "echo_add", "{mode}: {seen}");
    assert_eq!(seen["called"], "5", "{mode}: {seen}");
    let steps: Vec<_> = seen["progress"].as_array().expect("progress").iter().map(Value::as_f64).collect();
    assert_eq!(steps, [Some(1.0), Some(2.0), Some(3.0)], "{mode}: {seen}");
    assert_eq!(seen["resource"], "Hello from echo", "{mode}: {seen}");
    assert_eq!(seen["prompt"], "Greet Ada", "{mode}: {seen}");
}

#[tokio::test]
async fn the_python_sdk_lists_finds_and_calls() {
    let (_echo, vmcp) = echo().await;
    for mode in ["auto", "legacy", "2026-07-28"] {
        let script = include_str!("../../clients/client.py");
        let seen = run_script(&python("python"), &["-", &vmcp.url, mode], script, &installed("python")).await;
        check(mode, &seen);
    }
}

#[tokio::test]
async fn the_typescript_sdk_lists_finds_and_calls() {
    let (_echo, vmcp) = echo().await;
    for mode in ["auto", "legacy", "2026-07-28"] {
        let script = include_str!("../../clients/client.mjs");
        let args = ["--input-type=module", "-", &vmcp.url, mode];
        check(mode, &run_script(&node("node"), &args, script, &installed("node")).await);
    }
}

#[tokio::test]
async fn the_inspector_lists_finds_and_calls() {
    let (_echo, vmcp) = echo().await;
    let folder = tempfile::tempdir().expect("a folder");
    for era in ["legacy", "auto", "modern"] {
        let server = json!({"type": "streamable-http", "url": vmcp.url, "protocolEra": era});
        let config = folder.path().join("inspector.json");
        std::fs::write(&config, json!({"mcpServers": {"vmcp": server}}).to_string()).expect("writing");
        let inspect = async |args: &[&str]| {
            let mut command = Command::new(node("node"));
            command
                .arg(node("mcp-inspector"))
                .args(["--cli", "--config"])
                .arg(&config)
                .args(["--server", "vmcp"]);
            command.args(args).env("MCP_INSPECTOR_SECRET_STORE", "memory").env("HOME", folder.path());
            let output = command.kill_on_drop(true).output().await.expect("the Inspector");
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            serde_json::from_str::<Value>(&out)
                .unwrap_or_else(|error| panic!("{era} {args:?}: {error}\n{out}\n{err}"))
        };
        let listed = inspect(&["--method", "tools/list"]).await.to_string();
        assert!(listed.contains("find_tool") && listed.contains("echo_add"), "{era}: {listed}");
        let find = [
            "--method",
            "tools/call",
            "--tool-name",
            "optim.find_tool",
            "--tool-arg",
            "tool_description=add numbers",
        ];
        let found = inspect(&find).await;
        assert_eq!(found["structuredContent"]["tools"][0]["name"], "echo_add", "{era}: {found}");
        let call =
            ["--method", "tools/call", "--tool-name", "echo_add", "--tool-arg", "a=2", "--tool-arg", "b=3"];
        let called = inspect(&call).await;
        assert_eq!(called["structuredContent"]["sum"].as_f64(), Some(5.0), "{era}: {called}");
    }
}

#[tokio::test]
async fn client_libraries_list_find_and_call_over_http_and_stdio() {
    let (echo, vmcp) = echo().await;
    let folder = tempfile::tempdir().expect("a folder");
    let config = json!({"backends": [echo.backend], "optimizer": {"embeddings": {"provider": "none"},
        "storage": {"dir": folder.path().join("storage")}}});
    let file = folder.path().join("vmcp.yaml");
    std::fs::write(&file, config.to_string()).expect("writing");
    let (program, file) = (binary("vmcp").display().to_string(), file.display().to_string());
    let command = [program.as_str(), "serve", "--stdio", "--log-level", "error", "--config", &file];
    let python = include_str!("../../clients/library.py");
    let script = include_str!("../../clients/library.mjs");
    let over_http = [vmcp.url.as_str()];
    let both = [&over_http[..], &["--"], &command].concat();
    for (library, place) in [
        ("python-sdk-1", "agents"),
        ("fastmcp", "python"),
        ("openai-agents", "agents"),
        ("mcp-use", "agents"),
        ("langchain", "agents"),
    ] {
        let interpreter = installed(&format!("{place}/bin/python"));
        let args = [&["-", library], &both[..]].concat();
        let seen = run_script(&interpreter, &args, python, &installed(place)).await;
        let seen = seen.as_array().expect("an entry for each target");
        assert_eq!(seen.len(), 2, "{library}: {seen:?}");
        for seen in seen {
            has_called(library, seen);
        }
    }
    for target in [&over_http[..], &command] {
        let args = [&["--input-type=module", "-"], target].concat();
        let seen = run_script(&node("node"), &args, script, &installed("node")).await;
        has_called("typescript-sdk-1", &seen);
    }
}

fn has_called(library: &str, seen: &Value) {
    let tools = seen["tools"].as_array().expect("tools");
    for tool in ["optim_find_tool", "optim_call_tool"] {
        assert!(tools.contains(&json!(tool)), "{library}: {seen}");
    }
    assert_eq!((&seen["found"], &seen["called"]), (&json!("echo_add"), &json!("5")), "{library}: {seen}");
}
