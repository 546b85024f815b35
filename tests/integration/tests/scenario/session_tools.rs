//! A tool that a server adds in one client's session is that client's: announced, listed, found and called
//! there, and unknown to every other client.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use vmcp_embed::testing::FakeService;
use vmcp_integration::{Bridge, Client, Fixture, Messages, Vmcp, VmcpBuilder, eventually};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

/// A client that reads what comes on its GET stream.
struct Listener {
    client: Client,
    inbox: Arc<Mutex<Vec<Value>>>,
    reader: AbortHandle,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Listener {
    async fn of(client: Client) -> Self {
        let (inbox, mut messages) = (Arc::new(Mutex::new(Vec::new())), Messages::of(client.listen().await));
        let all = Arc::clone(&inbox);
        let reader = tokio::spawn(async move {
            while let Some(message) = messages.next().await {
                all.lock().push(message);
            }
        });
        Self { client, inbox, reader: reader.abort_handle() }
    }

    /// Returns how often a change of tools was announced.
    fn announcements(&self) -> usize {
        self.inbox.lock().iter().filter(|message| message["method"] == TOOLS_CHANGED).count()
    }

    async fn finds(&self, tool: &str) -> bool {
        let found = self.client.find_tool(json!({"tool_description": "keep torches in the air"})).await;
        let tools = found.structured()["tools"].as_array().expect("tools");
        tools.iter().any(|found| found["name"] == tool)
    }
}

#[tokio::test]
async fn a_tool_of_one_session_is_on_that_sessions_list_alone() {
    let (stdio, sse, http, program) = (
        Fixture::stdio("stdio", "owner").args(["--era", "legacy"]).start().await,
        Fixture::sse("sse", "owner").args(["--era", "legacy"]).start().await,
        Fixture::http("http", "owner").args(["--era", "legacy"]).start().await,
        Fixture::stdio("program", "owner").args(["--era", "legacy"]).start().await,
    );
    let command = program.command();
    let bridge = Bridge::start(&command.iter().map(String::as_str).collect::<Vec<_>>(), &[]).await;
    let bridged = json!({"name": "bridged", "url": bridge.url});
    let vmcp = [&stdio, &sse, &http].into_iter().fold(Vmcp::new(), VmcpBuilder::backend);
    let vmcp = vmcp.backend_entry(bridged).config(json!({"optimizer": {"exposure": "All"}})).start().await;
    let servers = ["stdio", "sse", "http", "bridged"];
    for server in servers {
        vmcp.with_tool(&format!("{server}_unpack")).await;
    }
    let (ann, bob) = (Listener::of(vmcp.legacy().await).await, Listener::of(vmcp.legacy().await).await);
    for server in servers {
        let (me, unpack, juggle) =
            (format!("{server}_me"), format!("{server}_unpack"), format!("{server}_juggle"));
        let told = ann.announcements();
        let answer = ann.client.call_tool(&unpack, json!({})).await;
        assert_eq!(answer.content_text(), "unpacked", "{}", answer.text);
        eventually(&format!("{server} tells the client that its tools changed"), async || {
            (ann.announcements() > told).then_some(())
        })
        .await;
        let listed = ann.client.tools().await;
        assert!(listed.contains_key(&juggle) && listed.contains_key(&me), "{server}: {listed:?}");
        let juggled = ann.client.call_tool(&juggle, json!({})).await;
        assert_eq!(juggled.content_text(), "three torches", "{}", juggled.text);
        let found = ann.client.call_found(&juggle, json!({})).await;
        assert_eq!(found.content_text(), "three torches", "{}", found.text);
        assert!(ann.finds(&juggle).await && !bob.finds(&juggle).await, "{server}");
        assert!(!bob.client.tools().await.contains_key(&juggle), "{server}");
        let unknown = bob.client.call_tool(&juggle, json!({})).await;
        assert_eq!(unknown.error()["code"], -32602, "{}", unknown.text);
    }
    assert_eq!(bob.announcements(), 0, "{:?}", bob.inbox.lock());

    // Another session gets an equal listing, and has state of its own.
    bob.client.call_tool("http_unpack", json!({})).await;
    eventually("the other client is told", async || (bob.announcements() > 0).then_some(())).await;
    assert!(bob.client.tools().await.contains_key("http_juggle"));
    assert_eq!(bob.client.call_tool("http_juggle", json!({})).await.content_text(), "three torches");
    let third = vmcp.legacy().await;
    assert!(!third.tools().await.keys().any(|tool| tool.ends_with("_juggle")));
}

#[tokio::test]
async fn a_tool_that_changes_in_one_session_is_under_quarantine_there_alone() {
    let server = Fixture::http("http", "owner").args(["--era", "legacy"]).start().await;
    let settings = json!({"optimizer": {"exposure": "All"}, "aggregation": {"onToolChange": "Quarantine"}});
    let vmcp = Vmcp::new().backend(&server).config(settings).start().await;
    vmcp.with_tool("http_unpack").await;
    let (ann, bob) = (Listener::of(vmcp.legacy().await).await, Listener::of(vmcp.legacy().await).await);
    // The call gives each its session upstream.
    for client in [&ann, &bob] {
        client.client.call_tool("http_me", json!({})).await;
    }
    ann.client.call_tool("http_unpack", json!({})).await;
    eventually("the added tool is listed, and the changed one is not", async || {
        let listed = ann.client.tools().await;
        (listed.contains_key("http_juggle") && !listed.contains_key("http_unpack")).then_some(())
    })
    .await;
    let refused = ann.client.call_tool("http_unpack", json!({})).await;
    assert_eq!(refused.error()["code"], -32602, "{}", refused.text);
    let refused = ann.client.call_found("http_unpack", json!({})).await;
    assert!(refused.content_text().contains("tool not found"), "{}", refused.text);
    assert_eq!(server.calls("unpack").await, 1);
    assert_eq!(ann.client.call_tool("http_juggle", json!({})).await.content_text(), "three torches");

    assert!(bob.client.tools().await.contains_key("http_unpack"), "nothing changed for others");
    let status = vmcp.status().await;
    assert!(status["backends"][0]["quarantined"].is_null(), "{status}");
    assert_eq!(bob.client.call_tool("http_unpack", json!({})).await.content_text(), "unpacked");
}

#[tokio::test]
async fn tools_of_a_session_go_with_its_connection() {
    let end = json!({"do": "die", "method": "prompts/get"});
    let http = Fixture::http("http", "owner").args(["--era", "legacy"]).start().await;
    let stdio = Fixture::stdio("stdio", "owner").args(["--era", "legacy"]).fault(&end).start().await;
    let vmcp = [&http, &stdio].into_iter().fold(Vmcp::new(), VmcpBuilder::backend);
    let vmcp = vmcp.config(json!({"optimizer": {"exposure": "All"}})).start().await;
    for server in ["http", "stdio"] {
        vmcp.with_tool(&format!("{server}_unpack")).await;
        let client = Listener::of(vmcp.legacy().await).await;
        let juggle = format!("{server}_juggle");
        client.client.call_tool(&format!("{server}_unpack"), json!({})).await;
        eventually("the added tool is listed", async || {
            client.client.tools().await.contains_key(&juggle).then_some(())
        })
        .await;
        let told = client.announcements();
        if server == "http" {
            http.control(json!({"do": "drop_sessions"})).await;
        } else {
            let prompt = json!({"name": "stdio_greet", "arguments": {"who": "Ann"}});
            client.client.request("prompts/get", prompt).await;
        }
        // The next call has a connection on which nothing was added.
        client.client.call_tool(&format!("{server}_me"), json!({})).await;
        eventually("the client is told that its tools changed", async || {
            (client.announcements() > told).then_some(())
        })
        .await;
        let listed = client.client.tools().await;
        assert!(!listed.contains_key(&juggle), "{server}: {listed:?}");
        assert!(listed.contains_key(&format!("{server}_unpack")), "{server}: {listed:?}");
        assert!(client.client.call_tool(&juggle, json!({})).await.is_failure(), "{server}");
    }
}

#[tokio::test]
async fn a_tool_of_some_sessions_is_embedded_once() {
    let service = FakeService::start().await.expect("a port");
    let server = Fixture::http("http", "owner").args(["--era", "legacy"]).start().await;
    let embeddings = json!({"provider": "tei", "tei": {"endpoint": service.url()}, "onUnavailable": "fail"});
    let vmcp = Vmcp::new().backend(&server).config(json!({"optimizer": {"embeddings": embeddings}}));
    let vmcp = vmcp.start().await;
    vmcp.with_tool("http_unpack").await;
    for client in [vmcp.legacy().await, vmcp.legacy().await] {
        let client = Listener::of(client).await;
        client.client.call_tool("http_unpack", json!({})).await;
        eventually("the tool is found, with vectors", async || {
            let found = client.client.find_tool(json!({"tool_description": "torches in the air"})).await;
            let (answer, tool) = (found.structured(), json!("http_juggle"));
            let is_found =
                answer["tools"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == tool));
            (is_found && answer["search_mode"] == "hybrid" && answer.get("degraded").is_none()).then_some(())
        })
        .await;
    }
    // The search has vectors with those of other tools already.
    let embedded = || service.inputs().into_iter().filter(|text| text.contains("juggle")).count();
    eventually("the text of the tool at the service", async || (embedded() > 0).then_some(())).await;
    assert_eq!(embedded(), 1, "{:?}", service.inputs());
}
