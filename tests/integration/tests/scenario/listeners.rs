//! Server-push messages: subscriptions, log messages and questions outside of requests, over GET and listen
//! streams.

mod ended_elsewhere;
mod own_resources;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use vmcp_integration::{Client, Fixture, Messages, Vmcp, VmcpBuilder, eventually, free_port};

const UPDATED: &str = "notifications/resources/updated";
const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

async fn start_with_backends(backends: &[Fixture]) -> Vmcp {
    let vmcp = backends.iter().fold(Vmcp::new(), VmcpBuilder::backend).start().await;
    for backend in backends {
        vmcp.with_tool(&format!("{}_echo", backend.name)).await;
    }
    vmcp
}

async fn old() -> Fixture {
    Fixture::http("old", "echo").args(["--era", "legacy"]).start().await
}

async fn new() -> Fixture {
    Fixture::http("new", "echo").args(["--era", "modern"]).start().await
}

fn greeting(backend: &Fixture) -> Value {
    json!({"uri": format!("fixture://{}/greeting", backend.name)})
}

async fn send(backend: &Fixture, method: &str, params: &Value) {
    let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
    backend.control(json!({"do": "send", "message": message})).await;
}

async fn listening(backend: &Fixture, streams: u64) {
    eventually(&format!("{streams} streams at {}", backend.name), async || {
        (backend.stats().await["listeners"].as_u64()? >= streams).then_some(())
    })
    .await;
}

async fn add_tool(backend: &Fixture, name: &str) {
    let tool = json!({"name": name, "description": "New", "inputSchema": {"type": "object"}});
    backend.control(json!({"do": "add_tool", "tool": tool})).await;
}

/// Returns the parameters of the next message, which has to be of this method.
async fn next_message(messages: &mut Messages, method: &str) -> Value {
    next_whole(messages, method).await["params"].clone()
}

/// Returns the next message, which has to be of this method. Changes of lists are passed over unless they are
/// asked for: a first listing may end after the stream was opened.
async fn next_whole(messages: &mut Messages, method: &str) -> Value {
    let is_change = |method: &str| method.ends_with("/list_changed");
    loop {
        let message = messages.next().await.expect("an open stream");
        let of = message["method"].as_str().unwrap_or_default();
        if of == method || is_change(method) || !is_change(of) {
            assert_eq!(of, method, "{message}");
            return message;
        }
    }
}

/// Returns the parameters of the next message of a method; others may come before it.
async fn next_of(messages: &mut Messages, method: &str) -> Value {
    loop {
        let message = messages.next().await.expect("an open stream");
        if message["method"] == method {
            return message["params"].clone();
        }
    }
}

/// Returns the parameters of the next update of a resource; lists may change meanwhile.
async fn next_update(messages: &mut Messages) -> Value {
    next_of(messages, UPDATED).await
}

/// Opens a session that the legacy `backend` knows, and its GET stream.
async fn session(vmcp: &Vmcp, backend: &Fixture, capabilities: Value) -> (Client, Messages) {
    let client = Client::legacy_with(&vmcp.url, "2025-11-25", "raw", capabilities).await;
    client.call_tool(&format!("{}_echo", backend.name), json!({"message": "hi"})).await.result();
    let messages = Messages::of(client.listen().await);
    (client, messages)
}

#[tokio::test]
async fn each_session_subscribes_and_hears_for_as_long_as_it_wants() {
    let backends = [old().await, new().await];
    let vmcp = start_with_backends(&backends).await;
    for backend in &backends {
        let uri = greeting(backend);
        let (one, two, other) = (vmcp.legacy().await, vmcp.legacy().await, vmcp.legacy().await);
        let mut first = Messages::of(one.listen().await);
        let mut second = Messages::of(two.listen().await);
        let mut third = Messages::of(other.listen().await);
        for client in [&one, &two, &one] {
            assert_eq!(client.request("resources/subscribe", uri.clone()).await.result(), &json!({}));
        }
        listening(backend, 1).await;
        send(backend, UPDATED, &uri).await;
        assert_eq!(next_message(&mut first, UPDATED).await, uri);
        assert_eq!(next_message(&mut second, UPDATED).await, uri);

        one.request("resources/unsubscribe", uri.clone()).await.result();
        if backend.name == "old" {
            assert_eq!(backend.received("resources/subscribe").await, 2, "each in its own session");
            eventually("the end of the subscription", async || {
                (backend.received("resources/unsubscribe").await == 1).then_some(())
            })
            .await;
        }
        send(backend, UPDATED, &uri).await;
        next_message(&mut second, UPDATED).await;
        add_tool(backend, "another").await;
        for stream in [&mut first, &mut second, &mut third] {
            next_message(stream, TOOLS_CHANGED).await;
        }
    }
    let client = vmcp.legacy().await;
    let unknown = client.request("resources/subscribe", json!({"uri": "fixture://nobody/x"})).await;
    assert_eq!(unknown.error()["code"], -32002);
    let nothing = client.request("resources/unsubscribe", json!({"uri": "fixture://nobody/x"})).await;
    assert_eq!(nothing.result(), &json!({}));
    assert_eq!(client.request("resources/subscribe", json!({})).await.error()["code"], -32602);
}

#[tokio::test]
async fn a_modern_stream_says_what_it_carries_and_tags_it() {
    let backends = [old().await, new().await];
    let mut vmcp = start_with_backends(&backends).await;
    for backend in &backends {
        let uri = greeting(backend);
        let session = vmcp.legacy().await;
        let mut get = Messages::of(session.listen().await);
        session.request("resources/subscribe", uri.clone()).await.result();
        let filter =
            json!({"promptsListChanged": true, "resourceSubscriptions": [uri["uri"], "fixture://nobody/x"]});
        let modern = vmcp.modern();
        let opened = modern.open_as(77, "subscriptions/listen", json!({"notifications": filter})).await;
        let mut listen = Messages::of(opened);
        let tag = json!({"io.modelcontextprotocol/subscriptionId": 77});
        let accepted = json!({"promptsListChanged": true, "resourceSubscriptions": [uri["uri"]]});
        assert_eq!(
            next_message(&mut listen, "notifications/subscriptions/acknowledged").await,
            json!({"notifications": accepted, "_meta": tag})
        );
        listening(backend, 1).await;
        send(backend, UPDATED, &uri).await;
        assert_eq!(next_message(&mut listen, UPDATED).await, json!({"uri": uri["uri"], "_meta": tag}));
        assert_eq!(next_message(&mut get, UPDATED).await, uri);
        drop(listen);
        send(backend, UPDATED, &uri).await;
        assert_eq!(next_message(&mut get, UPDATED).await, uri);
    }
    let filter = json!({"resourceSubscriptions": [greeting(&backends[1])["uri"]]});
    let opened = vmcp.modern().open_as(78, "subscriptions/listen", json!({"notifications": filter})).await;
    let mut listen = Messages::of(opened);
    next_message(&mut listen, "notifications/subscriptions/acknowledged").await;
    vmcp.process.signal("TERM").await;
    let last = listen.next().await.expect("a result");
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(78), &json!("complete")), "{last}");
    assert_eq!(listen.next().await, None);
    vmcp.process.ended().await;
}

#[tokio::test]
async fn who_never_reads_its_stream_is_cut_off_and_others_are_not() {
    let backend = old().await;
    let vmcp = start_with_backends(std::slice::from_ref(&backend)).await;
    let (client, deaf) = session(&vmcp, &backend, json!({})).await;
    let (_other, mut heard) = session(&vmcp, &backend, json!({})).await;
    listening(&backend, 3).await;
    let params = json!({"level": "info", "data": "x".repeat(64 * 1024)});
    let message = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
    eventually("the end of the stream", async || {
        backend.control(json!({"do": "send", "message": message, "times": 8})).await;
        for _ in 0..8 {
            next_message(&mut heard, "notifications/message").await;
        }
        vmcp.metrics().await.contains("vmcp_listeners_cut_off_total 1\n").then_some(())
    })
    .await;
    // The client may open another stream.
    let mut again = Messages::of(client.listen().await);
    send(&backend, "notifications/message", &json!({"level": "info", "data": "again"})).await;
    assert_eq!(next_message(&mut again, "notifications/message").await["data"], "again");
    drop(deaf);
}

#[tokio::test]
async fn a_log_level_holds_for_its_session_wherever_messages_come_from() {
    let backends = [old().await, new().await];
    let vmcp = start_with_backends(&backends).await;
    let [old, _new] = &backends;
    let (client, mut get) = session(&vmcp, old, json!({})).await;
    let level = async |level: &str| client.request("logging/setLevel", json!({"level": level})).await;
    assert_eq!(level("verbose").await.error()["code"], -32602);
    assert_eq!(level("error").await.result(), &json!({}));
    let told = async |count| {
        eventually("the level to reach the backend", async || {
            (old.received("logging/setLevel").await >= count).then_some(())
        })
        .await;
    };
    told(1).await;
    let log = async || client.call_tool("old_log", json!({"message": "hi"})).await.notifications.len();
    assert_eq!(log().await, 0, "its level is info");
    listening(old, 2).await;
    for level in ["info", "error"] {
        send(old, "notifications/message", &json!({"level": level, "data": level})).await;
    }
    assert_eq!(next_message(&mut get, "notifications/message").await["data"], "error");
    level("debug").await.result();
    told(2).await;
    assert_eq!(log().await, 1);
    let seen = client.call_tool("new_inspect", json!({})).await;
    assert_eq!(seen.structured()["_meta"]["io.modelcontextprotocol/logLevel"], "debug");
    let seen = vmcp.legacy().await.call_tool("new_inspect", json!({})).await;
    assert_eq!(seen.structured()["_meta"]["io.modelcontextprotocol/logLevel"], "info", "another session");
}

#[tokio::test]
async fn a_question_outside_of_a_call_comes_on_the_stream() {
    let backend = old().await;
    let vmcp = start_with_backends(std::slice::from_ref(&backend)).await;
    let (client, mut get) = session(&vmcp, &backend, json!({"elicitation": {}})).await;
    listening(&backend, 2).await;
    let params = json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
    let question = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params});
    backend.control(json!({"do": "send", "message": question})).await;
    let asked = next_whole(&mut get, "elicitation/create").await;
    let mut named = params.clone();
    named["message"] = "The server old asks: Who?".into();
    named["_meta"] = json!({"vmcp/server": "old"});
    assert_eq!(asked["params"], named);
    let said = json!({"action": "accept", "content": {}});
    assert_eq!(client.reply(&asked["id"], &said).await.status(), 202);
    eventually("the answer", async || {
        let stats = backend.stats().await;
        let mut responses = stats["responses"].as_array()?.iter();
        responses.any(|response| response["id"] == "q" && response["result"] == said).then_some(())
    })
    .await;
}

#[tokio::test]
async fn of_several_streams_one_carries_each_message() {
    let backend = old().await;
    let vmcp = start_with_backends(std::slice::from_ref(&backend)).await;
    let (client, mut first) = session(&vmcp, &backend, json!({})).await;
    let uri = greeting(&backend);
    client.request("resources/subscribe", uri.clone()).await.result();
    let mut second = Messages::of(client.listen().await);
    listening(&backend, 1).await;
    send(&backend, UPDATED, &uri).await;
    next_message(&mut second, UPDATED).await;
    add_tool(&backend, "another").await;
    next_message(&mut second, TOOLS_CHANGED).await;
    drop(second);
    let heard = eventually("the other stream to take over", async || {
        send(&backend, UPDATED, &uri).await;
        timeout(Duration::from_millis(100), first.next()).await.ok().flatten()
    })
    .await;
    assert_eq!(heard["method"], UPDATED, "the change of the tools went to the other one: {heard}");
}

#[tokio::test]
async fn a_session_that_ends_leaves_nothing_behind() {
    let backend = old().await;
    let vmcp = start_with_backends(std::slice::from_ref(&backend)).await;
    let (client, mut get) = session(&vmcp, &backend, json!({"roots": {"listChanged": true}})).await;
    client.notify("notifications/roots/list_changed", json!({})).await;
    eventually("the roots to be announced", async || {
        (backend.received("notifications/roots/list_changed").await == 1).then_some(())
    })
    .await;
    client.request("resources/subscribe", greeting(&backend)).await.result();
    listening(&backend, 2).await;
    assert_eq!(client.close().await.status(), 200);
    assert_eq!(get.next().await, None);
    eventually("the end of its session and its subscription", async || {
        let stats = backend.stats().await;
        let ended = stats["http"]["DELETE"] == 1 && stats["methods"]["resources/unsubscribe"] == 1;
        (ended && stats["listeners"] == 1).then_some(())
    })
    .await;
    assert_eq!(client.listen().await.status(), 404);
}

#[tokio::test]
async fn subscriptions_follow_a_backend_that_is_configured_anew() {
    let backends = [old().await, new().await];
    let mut vmcp = start_with_backends(&backends).await;
    let mut streams = Vec::new();
    for backend in &backends {
        let client = vmcp.legacy().await;
        let messages = Messages::of(client.listen().await);
        client.request("resources/subscribe", greeting(backend)).await.result();
        streams.push((client, messages));
    }
    let mut specs: Vec<Value> = backends.iter().map(|backend| backend.backend.clone()).collect();
    for spec in &mut specs {
        spec["headers"] = json!({"x-other": "1"});
    }
    vmcp.reconfigure(json!({"backends": specs}));
    let renewal = ["resources/subscribe", "subscriptions/listen"];
    for ((backend, method), (_client, messages)) in backends.iter().zip(renewal).zip(&mut streams) {
        let before = backend.received(method).await.min(1);
        eventually("the subscription to be renewed", async || {
            (backend.received(method).await > before).then_some(())
        })
        .await;
        // Changes in between were announced to no client.
        assert_eq!(next_update(messages).await, greeting(backend));
        eventually("an update", async || {
            send(backend, UPDATED, &greeting(backend)).await;
            let heard = timeout(Duration::from_millis(100), messages.next()).await.ok().flatten()?;
            (heard["method"] == UPDATED).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_subscription_survives_a_reload_whose_backend_is_down() {
    let backend = old().await;
    let mut vmcp = start_with_backends(std::slice::from_ref(&backend)).await;
    let client = vmcp.legacy().await;
    let mut messages = Messages::of(client.listen().await);
    client.request("resources/subscribe", greeting(&backend)).await.result();
    let mut down = backend.backend.clone();
    down["url"] = format!("http://127.0.0.1:{}/mcp", free_port()).into();
    vmcp.reconfigure(json!({"backends": [down]}));
    eventually("the backend to be down", async || {
        let status = vmcp.status().await;
        (status["backends"][0]["state"] != "connected").then_some(())
    })
    .await;
    // The renewal fails meanwhile.
    tokio::time::sleep(Duration::from_secs(3)).await;
    vmcp.reconfigure(json!({"backends": [backend.backend]}));
    assert_eq!(next_update(&mut messages).await, greeting(&backend));
    // A backend that is taken away is told too: the client reads, and sees.
    vmcp.reconfigure(json!({"backends": []}));
    assert_eq!(next_update(&mut messages).await, greeting(&backend));
}

#[tokio::test]
async fn a_modern_stream_carries_the_tasks_that_it_names() {
    let start = |name| Fixture::http(name, "extended").args(["--era", "modern"]).start();
    let backends = [start("one").await, start("two").await];
    let vmcp = backends.iter().fold(Vmcp::new(), VmcpBuilder::backend).start().await;
    for backend in &backends {
        vmcp.with_tool(&format!("{}_work", backend.name)).await;
    }
    let able = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let client = vmcp.modern().declaring(able);
    let created = client.call_tool("two_work", json!({})).await;
    let id = created.result()["taskId"].clone();
    let filter = json!({"notifications": {"taskIds": [id, "nobodys"]}});
    let mut listen = Messages::of(client.open_as(77, "subscriptions/listen", filter.clone()).await);
    let accepted = next_message(&mut listen, "notifications/subscriptions/acknowledged").await;
    assert_eq!(accepted["notifications"], json!({"taskIds": [id]}));
    let heard = eventually("a change of the task", async || {
        send(&backends[1], "notifications/tasks", &json!({"taskId": "two-0", "status": "working"})).await;
        timeout(Duration::from_millis(100), listen.next()).await.ok().flatten()
    })
    .await;
    let tag = json!({"io.modelcontextprotocol/subscriptionId": 77});
    assert_eq!(heard["params"], json!({"taskId": id, "status": "working", "_meta": tag}), "{heard}");

    let mut unable = Messages::of(vmcp.modern().open("subscriptions/listen", filter).await);
    let accepted = next_message(&mut unable, "notifications/subscriptions/acknowledged").await;
    assert_eq!(accepted["notifications"], json!({}));
}
