//! A fake app server on the other end of pipes.

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split};

use super::*;

/// One end of a pipe, spoken to line by line.
struct Peer {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
}

impl Peer {
    fn new(pipe: DuplexStream) -> Peer {
        let (reader, writer) = split(pipe);
        Peer { reader: BufReader::new(reader), writer }
    }

    async fn say(&mut self, message: &Value) {
        write_line(&mut self.writer, message).await.unwrap();
    }

    /// Returns the next message; null at the end.
    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap_or(Value::Null)
    }
}

/// Starts an adapter; returns its client and its Codex, after the handshake.
async fn started(workspaces: Vec<PathBuf>, max_line: usize) -> (Peer, Peer) {
    let (client, client_end) = duplex(1 << 20);
    let (codex, codex_end) = duplex(1 << 20);
    let settings = AdapterSettings { version: "1".to_owned(), allow_dangerous: false, workspaces };
    tokio::spawn(async move {
        let (reader, writer) = split(client_end);
        let client = Lines { reader, writer };
        let (reader, writer) = split(codex_end);
        serve(client, Lines { reader, writer }, settings, max_line).await;
    });
    let (mut client, mut codex) = (Peer::new(client), Peer::new(codex));
    client.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})).await;
    let handshake = codex.hear().await;
    assert_eq!(handshake["method"], "initialize");
    codex.say(&json!({"id": handshake["id"], "result": {"userAgent": "fake"}})).await;
    assert_eq!(codex.hear().await["method"], "initialized");
    assert_eq!(client.hear().await["result"]["serverInfo"]["name"], "codex");
    (client, codex)
}

fn call(arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "codex", "arguments": arguments}})
}

#[tokio::test]
async fn garbage_long_lines_and_unknown_notifications_disturb_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut client, mut codex) = started(vec![dir.path().to_owned()], 4096).await;
    client.say(&call(&json!({"prompt": "go"}))).await;
    let start = codex.hear().await;
    codex.writer.write_all(b"no JSON\n{\"half\": \n[1]\n").await.unwrap();
    codex.say(&json!({"method": "new/notification", "params": {"threadId": "t"}})).await;
    codex.say(&json!({"method": "item/completed", "params": {"item": "x".repeat(5000)}})).await;
    codex.say(&json!({"id": start["id"], "result": {"thread": {"id": "t"}}})).await;
    assert_eq!(codex.hear().await["method"], "turn/start");
}

#[tokio::test]
async fn a_codex_that_dies_in_a_turn_gets_a_clear_answer_that_names_the_thread() {
    let dir = tempfile::tempdir().unwrap();
    let (mut client, mut codex) = started(vec![dir.path().to_owned()], 1 << 20).await;
    client.say(&call(&json!({"prompt": "go"}))).await;
    let start = codex.hear().await;
    codex.say(&json!({"id": start["id"], "result": {"thread": {"id": "t"}}})).await;
    codex.hear().await;
    drop(codex);
    let result = client.hear().await["result"].clone();
    let told = &result["structuredContent"];
    assert_eq!((&result["isError"], &told["thread_id"]), (&json!(true), &json!("t")));
    assert!(told["error"].as_str().unwrap().contains("Codex ended"), "{told}");
    assert_eq!(client.hear().await, Value::Null, "the stream ends with Codex");
}

#[tokio::test]
async fn a_backend_without_a_workspace_refuses_turns() {
    // The root is left out, in any spelling.
    for workspaces in [Vec::new(), vec!["/.".into()]] {
        let (mut client, _codex) = started(workspaces, 1 << 20).await;
        for arguments in [json!({"prompt": "go"}), json!({"prompt": "go", "cwd": "/"})] {
            client.say(&call(&arguments)).await;
            let error = client.hear().await["result"]["structuredContent"]["error"].clone();
            assert!(error.as_str().unwrap().contains("neither `cwd` nor `codex.workspaces`"), "{error}");
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_directory_outside_of_the_workspaces_is_refused_by_any_name() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path().join("w");
    std::fs::create_dir_all(workspace.join("in")).unwrap();
    std::fs::create_dir(dir.path().join("w2")).unwrap();
    std::os::unix::fs::symlink(dir.path(), workspace.join("link")).unwrap();
    let (mut client, mut codex) = started(vec![workspace.clone()], 1 << 20).await;
    for outside in ["/", "..", "link", "in/../..", "../w2", "missing"] {
        client.say(&call(&json!({"prompt": "go", "cwd": outside}))).await;
        let error = client.hear().await["result"]["structuredContent"]["error"].clone();
        assert!(error.as_str().unwrap().starts_with("cwd "), "{outside}: {error}");
    }
    client.say(&call(&json!({"prompt": "go", "cwd": "in"}))).await;
    let start = codex.hear().await;
    let inside = workspace.canonicalize().unwrap().join("in");
    assert_eq!(start["params"]["cwd"], inside.to_str().unwrap());
}
