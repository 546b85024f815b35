//! Two clients of one server, with different roots, questions, log levels and state, get what each of them
//! would get alone: over every transport, in both eras, through the bridge and at two replicas.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::task::AbortHandle;
use vmcp_integration::{Bridge, Client, HttpAnswer, Messages, Process, Vmcp, eventually, free_port, python};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/owner.py");
const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A server that keeps state and asks, over one transport.
struct Owner {
    transport: &'static str,
    entry: Value,
    _process: Option<Process>,
}

impl Owner {
    async fn start(transport: &'static str) -> Self {
        let python = python("python").display().to_string();
        if transport == "stdio" {
            let entry = json!({"name": "owner", "command": [python, SCRIPT, "stdio"]});
            return Self { transport, entry, _process: None };
        }
        let port = free_port();
        let process =
            Process::start("owner", Command::new(python).args([SCRIPT, transport, &port.to_string()]));
        process.line_after("Uvicorn running on").await;
        let path = if transport == "sse" { "sse" } else { "mcp" };
        let mut entry = json!({"name": "owner", "url": format!("http://127.0.0.1:{port}/{path}")});
        if transport == "sse" {
            entry["transport"] = "sse".into();
        }
        Self { transport, entry, _process: Some(process) }
    }

    async fn all() -> [Self; 3] {
        [Self::start("stdio").await, Self::start("sse").await, Self::start("http").await]
    }

    /// Returns a server with this backend; `settings` are added to its entry.
    async fn behind(&self, settings: Value) -> Vmcp {
        let mut entry = self.entry.clone();
        for (key, value) in settings.as_object().into_iter().flatten() {
            entry[key] = value.clone();
        }
        let passthrough = json!({"aggregation": {"conflictResolution": "passthrough"},
            "server": {"sessionKeys": ["${SESSION_KEY}"]}});
        let vmcp = Vmcp::new().backend_entry(entry).config(passthrough).env("SESSION_KEY", KEY).start().await;
        vmcp.with_tool("count").await;
        vmcp
    }
}

/// A person with a client. A legacy one listens on its GET stream and answers what comes there.
struct Person {
    name: &'static str,
    client: Arc<Client>,
    inbox: Arc<Mutex<Vec<Value>>>,
    listener: Option<AbortHandle>,
}

impl Drop for Person {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}

fn capable() -> Value {
    json!({"elicitation": {}, "roots": {}})
}

fn answer_of(name: &str, method: &str) -> Value {
    match method {
        "roots/list" => json!({"roots": [{"uri": format!("file:///home/{name}")}]}),
        _ => json!({"action": "accept", "content": {"name": name}}),
    }
}

impl Person {
    async fn legacy(name: &'static str, url: &str) -> Self {
        Self::listening(name, Client::legacy_with(url, "2025-11-25", name, capable()).await).await
    }

    async fn listening(name: &'static str, client: Client) -> Self {
        let (client, inbox) = (Arc::new(client), Arc::new(Mutex::new(Vec::new())));
        let mut messages = Messages::of(client.listen().await);
        let (to, all) = (Arc::clone(&client), Arc::clone(&inbox));
        let listener = tokio::spawn(async move {
            while let Some(message) = messages.next().await {
                if let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) {
                    to.reply(id, &answer_of(name, method)).await;
                }
                all.lock().push(message);
            }
        });
        Self { name, client, inbox, listener: Some(listener.abort_handle()) }
    }

    fn modern(name: &'static str, url: &str) -> Self {
        let client = Arc::new(Client::modern(url).named(name).declaring(capable()));
        Self { name, client, inbox: Arc::default(), listener: None }
    }

    async fn call(&self, tool: &str, arguments: Value) -> (HttpAnswer, Vec<Value>) {
        let params = json!({"name": tool, "arguments": arguments});
        self.client.converse("tools/call", params, &|method, _| answer_of(self.name, method)).await
    }

    async fn text(&self, tool: &str) -> String {
        self.call(tool, json!({})).await.0.content_text()
    }

    /// Returns the texts of messages that came outside of calls: log lines and questions.
    fn late(&self) -> Vec<String> {
        let inbox = self.inbox.lock();
        let text = |message: &Value| {
            let params = &message["params"];
            let text = params["data"].as_str().or_else(|| params["message"].as_str())?;
            // A question names its server.
            Some(text.strip_prefix("The server owner asks: ").unwrap_or(text).to_owned())
        };
        inbox.iter().filter_map(text).collect()
    }
}

/// Lets both use the server at the same time; returns what each of them saw.
async fn story(ann: &Person, bob: &Person) -> Value {
    let mut counts = Vec::new();
    for _ in 0..2 {
        counts.push(json!([ann.text("count").await, bob.text("count").await]));
    }
    let (by_ann, by_bob) = tokio::join!(ann.text("ask"), bob.text("ask"));
    let roots = [ann.text("roots").await, bob.text("roots").await];
    let names = [ann.text("whoami").await, bob.text("whoami").await];
    json!({"counts": counts, "asked": [by_ann, by_bob], "roots": roots, "names": names})
}

fn alone() -> Value {
    json!({"counts": [["1", "1"], ["2", "2"]], "asked": ["ann", "bob"],
        "roots": ["file:///home/ann", "file:///home/bob"], "names": ["ann", "bob"]})
}

/// Ann's call leaves work behind that logs and asks while only Bob has a call under way.
async fn late(ann: &Person, bob: &Person, what: &str) {
    let waiting = bob.call("wait", json!({"seconds": 2}));
    let begun = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        ann.call("later", json!({"text": "ann's secret"})).await.0.content_text()
    };
    let ((answer, asked), begun) = tokio::join!(waiting, begun);
    assert_eq!((&*answer.content_text(), begun.as_str()), ("waited", "begun"), "{what}");
    assert!(asked.is_empty() && answer.notifications.is_empty(), "{what}: {asked:?} {answer:?}");
    assert!(bob.late().is_empty(), "{what}: {:?}", bob.late());
}

#[tokio::test]
async fn two_legacy_clients_get_what_each_would_get_alone() {
    let owners = Owner::all().await;
    for owner in &owners {
        let vmcp = owner.behind(json!({})).await;
        let what = owner.transport;
        let (ann, bob) = (Person::legacy("ann", &vmcp.url).await, Person::legacy("bob", &vmcp.url).await);
        assert_eq!(story(&ann, &bob).await, alone(), "{what}");
        late(&ann, &bob, what).await;
        eventually(&format!("the late messages over {what}"), async || {
            (ann.late() == ["ann's secret", "ann's secret"]).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn two_modern_clients_of_a_legacy_server_get_what_each_would_get_alone() {
    let owners = Owner::all().await;
    for owner in &owners {
        let vmcp = owner.behind(json!({"protocolEra": "legacy"})).await;
        let (ann, bob) = (Person::modern("ann", &vmcp.url), Person::modern("bob", &vmcp.url));
        assert_eq!(story(&ann, &bob).await, alone(), "{}", owner.transport);
        late(&ann, &bob, owner.transport).await;
    }
}

#[tokio::test]
async fn log_levels_are_each_clients_own() {
    let owners = Owner::all().await;
    for owner in &owners {
        let vmcp = owner.behind(json!({})).await;
        let (ann, bob) = (Person::legacy("ann", &vmcp.url).await, Person::legacy("bob", &vmcp.url).await);
        ann.client.request("logging/setLevel", json!({"level": "error"})).await.result();
        bob.client.request("logging/setLevel", json!({"level": "debug"})).await.result();
        let (by_ann, by_bob) = tokio::join!(ann.call("log", json!({})), bob.call("log", json!({})));
        let lines = |(answer, _): (HttpAnswer, Vec<Value>)| {
            let logged =
                answer.notifications.iter().filter(|message| message["method"] == "notifications/message");
            logged
                .filter_map(|message| Some(message["params"]["data"].as_str()?.to_owned()))
                .collect::<Vec<_>>()
        };
        assert_eq!(lines(by_ann), ["an error"], "{}", owner.transport);
        assert_eq!(lines(by_bob), ["for your information", "an error"], "{}", owner.transport);
    }
}

#[tokio::test]
async fn through_the_bridge_each_client_has_a_program_of_its_own() {
    let script = python("python").display().to_string();
    let bridge = Bridge::start(&[&script, SCRIPT, "stdio"], &[]).await;
    let entry = json!({"name": "owner", "url": bridge.url});
    let owner = Owner { transport: "bridge", entry, _process: None };
    let vmcp = owner.behind(json!({})).await;
    for (what, url) in [("the bridge", &bridge.url), ("vmcp and the bridge", &vmcp.url)] {
        let (ann, bob) = (Person::legacy("ann", url).await, Person::legacy("bob", url).await);
        assert_eq!(story(&ann, &bob).await, alone(), "{what}");
        late(&ann, &bob, what).await;
        eventually(&format!("the late messages through {what}"), async || {
            (ann.late() == ["ann's secret", "ann's secret"]).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn at_two_replicas_a_session_shares_nothing_with_others() {
    let owner = Owner::start("http").await;
    let stdio = Owner::start("stdio").await;
    for owner in [&owner, &stdio] {
        let (one, other) = (owner.behind(json!({})).await, owner.behind(json!({})).await);
        // Ann's session was opened at the one replica; the other goes on with it.
        let opened = Client::legacy_with(&one.url, "2025-11-25", "ann", capable()).await;
        let session = opened.session.expect("a session");
        let moved = Client::modern(&other.url).as_legacy().with_session(&session);
        let ann = Person::listening("ann", moved).await;
        for replica in [&one, &other] {
            let bob = Person::legacy("bob", &replica.url).await;
            let seen = story(&ann, &bob).await;
            assert_eq!(seen["asked"], alone()["asked"], "{seen}");
            assert_eq!(seen["roots"], alone()["roots"], "{seen}");
            assert_eq!(seen["names"], alone()["names"], "{seen}");
            assert_eq!(seen["counts"][0][1], "1", "{seen}");
            late(&ann, &bob, "two replicas").await;
        }
    }
}

#[tokio::test]
async fn a_server_that_knows_only_its_clients_roots_serves_each_client_its_own_files() {
    let files = vmcp_integration::node("mcp-server-filesystem").display().to_string();
    let vmcp = Vmcp::new()
        .backend_entry(json!({"name": "files", "command": [files]}))
        .config(json!({"aggregation": {"conflictResolution": "passthrough"}}))
        .start()
        .await;
    vmcp.with_tool("read_text_file").await;
    let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let mut clients = Vec::new();
    for (number, folder) in folders.iter().enumerate() {
        std::fs::write(folder.path().join("note.txt"), format!("note {number}")).expect("writing");
        let client = Client::legacy_with(&vmcp.url, "2025-11-25", "raw", json!({"roots": {}})).await;
        let root = json!({"roots": [{"uri": format!("file://{}", folder.path().display()), "name": "mine"}]});
        clients.push((client, root));
    }
    for (number, (client, root)) in clients.iter().enumerate() {
        let read = async |folder: &tempfile::TempDir| {
            let path = folder.path().join("note.txt").display().to_string();
            let params = json!({"name": "read_text_file", "arguments": {"path": path}});
            client.converse("tools/call", params, &|_, _| root.clone()).await.0
        };
        // The server asks for the roots when it is introduced, and the first call may come before the answer.
        eventually("its own file", async || {
            (read(&folders[number]).await.content_text() == format!("note {number}")).then_some(())
        })
        .await;
        let denied = read(&folders[1 - number]).await;
        assert!(denied.is_failure() && denied.text.contains("Access denied"), "{}", denied.text);
    }
}
