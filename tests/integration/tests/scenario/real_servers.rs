//! Real servers from PyPI and npm, of both eras, over stdio and HTTP.

use serde_json::{Value, json};
use tokio::process::Command;
use vmcp_integration::{Client, Process, Vmcp, free_port, installed, node, python};

fn started(name: &str, command: &[&str]) -> Value {
    json!({"name": name, "command": command})
}

fn show(path: &std::path::Path) -> String {
    path.display().to_string()
}

/// Makes a Git repository with one commit.
async fn repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("readme.txt"), "hello").expect("writing");
    for args in [
        vec!["init", "--quiet"],
        vec!["add", "."],
        vec![
            "-c",
            "user.name=Ada",
            "-c",
            "user.email=ada@example.com",
            "commit",
            "--quiet",
            "-m",
            "First of all",
        ],
    ] {
        let status = Command::new("git").args(&args).current_dir(folder.path()).status().await;
        assert!(status.is_ok_and(|status| status.success()), "git {args:?}");
    }
    folder
}

/// Calls a tool directly and through `optim.call_tool`, in both eras, and checks the text of each answer.
async fn calls(vmcp: &Vmcp, tool: &str, arguments: Value, expected: &str) {
    vmcp.with_tool(tool).await;
    let both: [Client; 2] = [vmcp.modern(), vmcp.legacy().await];
    for client in both {
        for answer in [
            client.call_tool(tool, arguments.clone()).await,
            client.call_found(tool, arguments.clone()).await,
        ] {
            assert!(answer.content_text().contains(expected), "{tool}: {}", answer.text);
        }
    }
}

#[tokio::test]
async fn servers_from_pypi_over_stdio() {
    let repository = repository().await;
    let vmcp = Vmcp::new()
        .backend_entry(started("time", &[&show(&python("mcp-server-time"))]))
        .backend_entry(started("git", &[&show(&python("mcp-server-git"))]))
        .backend_entry(started("fetch", &[&show(&python("mcp-server-fetch"))]))
        .config(json!({"optimizer": {"exposure": "All"}}))
        .start()
        .await;
    calls(&vmcp, "time_get_current_time", json!({"timezone": "Asia/Tokyo"}), "Asia/Tokyo").await;
    calls(&vmcp, "git_git_log", json!({"repo_path": show(repository.path())}), "First of all").await;
    let client = vmcp.with_tool("fetch_fetch").await;
    let answer = client.call_tool("fetch_fetch", json!({"url": "http://127.0.0.1:9/"})).await;
    assert!(answer.message["error"].is_object() || answer.is_tool_error(), "{}", answer.text);
    let found = client.find_tool(json!({"tool_description": "get the current time in Tokyo"})).await;
    assert_eq!(found.structured()["tools"][0]["name"], "time_get_current_time", "{}", found.text);
}

#[tokio::test]
async fn servers_from_npm_over_stdio() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("note.txt"), "buy milk").expect("writing");
    let memory = json!({"name": "memory", "command": [show(&node("mcp-server-memory"))],
        "env": {"MEMORY_FILE_PATH": show(&folder.path().join("memory.json"))}});
    let vmcp = Vmcp::new()
        .backend_entry(started("files", &[&show(&node("mcp-server-filesystem")), &show(folder.path())]))
        .backend_entry(started("everything", &[&show(&node("mcp-server-everything"))]))
        .backend_entry(started("thinking", &[&show(&node("mcp-server-sequential-thinking"))]))
        .backend_entry(memory)
        .config(json!({"optimizer": {"exposure": "All"}}))
        .start()
        .await;
    calls(&vmcp, "files_read_text_file", json!({"path": show(&folder.path().join("note.txt"))}), "buy milk")
        .await;
    calls(&vmcp, "everything_echo", json!({"message": "hi there"}), "hi there").await;
    let entities =
        json!({"entities": [{"name": "Ada", "entityType": "person", "observations": ["likes engines"]}]});
    vmcp.with_tool("memory_create_entities")
        .await
        .call_tool("memory_create_entities", entities)
        .await
        .result();
    calls(&vmcp, "memory_read_graph", json!({}), "likes engines").await;
    let thought =
        json!({"thought": "think", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1});
    calls(&vmcp, "thinking_sequentialthinking", thought, "thoughtNumber").await;
    let resources = vmcp.modern().request("resources/list", json!({})).await;
    assert!(
        resources.result()["resources"].as_array().is_some_and(|all| !all.is_empty()),
        "{}",
        resources.text
    );
}

#[tokio::test]
async fn servers_over_http_of_every_era() {
    let port = free_port();
    let mut everything = Command::new(node("mcp-server-everything"));
    let everything =
        Process::start("everything", everything.arg("streamableHttp").env("PORT", port.to_string()));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/server.mjs");
    let script = std::fs::read_to_string(script).expect("the script");
    let typescript = async |legacy: &str| {
        let mut command = Command::new(node("node"));
        command.args(["--input-type=module", "--eval", &script, legacy]).current_dir(installed("node"));
        let process = Process::start(legacy, &mut command);
        let url = process.line_after("listening on ").await;
        (process, url)
    };
    let (_dual, dual_url) = typescript("stateless").await;
    let (_modern, modern_url) = typescript("reject").await;
    let fast_port = free_port();
    let mut fast = Command::new(python("python"));
    fast.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/clients/server.py")).arg(fast_port.to_string());
    let fast = Process::start("fastmcp", &mut fast);
    // vmcp tries a backend that is down four times within seconds and then every 30 seconds, so it must be up
    // first.
    fast.line_after("Uvicorn running on").await;
    everything.line_after("listening on port").await;
    let vmcp = Vmcp::new()
        .backend_entry(json!({"name": "everything", "url": format!("http://127.0.0.1:{port}/mcp")}))
        .backend_entry(json!({"name": "dual", "url": dual_url}))
        .backend_entry(json!({"name": "modern", "url": modern_url}))
        .backend_entry(json!({"name": "fast", "url": format!("http://127.0.0.1:{fast_port}/mcp")}))
        .start()
        .await;
    calls(&vmcp, "everything_echo", json!({"message": "hi there"}), "hi there").await;
    calls(&vmcp, "dual_multiply", json!({"a": 6, "b": 7}), "42").await;
    calls(&vmcp, "modern_multiply", json!({"a": 6, "b": 7}), "42").await;
    calls(&vmcp, "fast_reverse", json!({"text": "stressed"}), "desserts").await;
}
