//! Sealed request states: `requestState` is good for a repeat of the same request only, and vmcp alone can
//! write one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use vmcp_integration::{Client, HttpAnswer, Vmcp, eventually};

type Calls = Arc<AtomicU64>;

/// Starts a modern backend whose tool `ask` asks before it answers, and keeps `mine` in its state.
async fn asking() -> (String, Calls) {
    let calls = Calls::default();
    let router = Router::new().route("/mcp", post(answer)).with_state(Arc::clone(&calls));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    (format!("http://{address}/mcp"), calls)
}

async fn answer(State(calls): State<Calls>, Json(message): Json<Value>) -> (StatusCode, Json<Value>) {
    let params = &message["params"];
    let mut result = match message["method"].as_str().unwrap_or_default() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "asking", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]}),
        "tools/call" => {
            calls.fetch_add(1, Ordering::SeqCst);
            if params.get("inputResponses").is_some() {
                json!({"content": [{"type": "text", "text": params["requestState"]}]})
            } else {
                let schema = json!({"type": "object", "properties": {}});
                let question = json!({"method": "elicitation/create",
                    "params": {"mode": "form", "message": "Sure?", "requestedSchema": schema}});
                json!({"resultType": "input_required", "requestState": "mine", "inputRequests": {"q": question}})
            }
        }
        method => {
            let error = json!({"code": -32601, "message": format!("method not found: {method}")});
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
            return (StatusCode::NOT_FOUND, Json(answer));
        }
    };
    let object = result.as_object_mut().expect("a result");
    for (key, value) in
        [("resultType", json!("complete")), ("ttlMs", json!(0)), ("cacheScope", json!("private"))]
    {
        object.entry(key).or_insert(value);
    }
    (StatusCode::OK, Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})))
}

/// Calls `asking_ask`, the first time or with an answer and a state.
async fn ask(client: &Client, arguments: Value, state: Option<Value>) -> HttpAnswer {
    let mut params = json!({"name": "asking_ask", "arguments": arguments, "_meta":
        {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}});
    if let Some(state) = state {
        params["requestState"] = state;
        params["inputResponses"] = json!({"q": {"action": "accept", "content": {}}});
    }
    client.request("tools/call", params).await
}

fn state_of(answer: &HttpAnswer) -> String {
    assert_eq!(answer.result()["resultType"], "input_required", "{}", answer.text);
    answer.result()["requestState"].as_str().expect("a state").to_owned()
}

fn assert_refused(answer: &HttpAnswer, why: &str) {
    assert_eq!(answer.error()["code"], -32602, "{why}: {}", answer.text);
    let message = answer.error()["message"].as_str().unwrap_or_default();
    assert!(message.contains("requestState"), "{why}: {message}");
}

#[tokio::test]
async fn a_state_that_is_not_of_this_request_is_refused_and_the_backend_not_asked() {
    let (url, calls) = asking().await;
    let vmcp = Vmcp::new().backend_entry(json!({"name": "asking", "url": url})).start().await;
    let client = vmcp.with_tool("asking_ask").await;
    let arguments = json!({"x": 1});
    let state = state_of(&ask(&client, arguments.clone(), None).await);
    assert!(!state.contains("mine"), "sealed");
    let session = vmcp.legacy().await.session.expect("a session");
    let before = calls.load(Ordering::SeqCst);

    let middle = state.len() / 2;
    let letter = if state.as_bytes()[middle] == b'A' { "B" } else { "A" };
    for (why, forged) in [
        ("the backend's own", json!("mine")),
        ("flipped", json!(format!("{}{letter}{}", &state[..middle], &state[middle + 1..]))),
        ("truncated", json!(&state[..state.len() - 1])),
        ("longer", json!(format!("{state}A"))),
        ("half", json!(&state[..middle])),
        ("empty", json!("")),
        ("of another purpose", json!(session)),
        ("huge", json!("A".repeat(1 << 20))),
        ("no string", json!({"a": 1})),
        ("a number", json!(7)),
    ] {
        assert_refused(&ask(&client, arguments.clone(), Some(forged)).await, why);
    }
    assert_refused(&ask(&client, json!({"x": 2}), Some(json!(state))).await, "of other arguments");
    assert_eq!(calls.load(Ordering::SeqCst), before, "none of them reached the backend");

    // A second use of its own state is for the backend to refuse.
    for _ in 0..2 {
        let answer = ask(&client, arguments.clone(), Some(json!(state))).await;
        assert_eq!(answer.content_text(), "mine", "{}", answer.text);
    }
}

#[tokio::test]
async fn a_state_outlives_the_replacement_of_its_key_in_any_process() {
    let (url, _) = asking().await;
    let old = "the old key, of more than enough characters";
    let new = "the new key, of more than enough characters";
    let start = async |keys: &[&str]| {
        let vmcp = Vmcp::new().backend_entry(json!({"name": "asking", "url": url}));
        let vmcp = vmcp.config(json!({"server": {"sessionKeys": keys}})).start().await;
        vmcp.with_tool("asking_ask").await;
        vmcp
    };
    let (mut first, other) = (start(&[old]).await, start(&[new]).await);
    let (client, of_other) = (first.modern(), other.modern());
    let state = state_of(&ask(&client, json!({}), None).await);
    assert_refused(&ask(&of_other, json!({}), Some(json!(state))).await, "without the key");
    first.reconfigure(json!({"server": {"sessionKeys": [new, old]}}));
    eventually("the new key to seal", async || {
        let newer = state_of(&ask(&client, json!({}), None).await);
        let answer = ask(&of_other, json!({}), Some(json!(newer))).await;
        answer.message.get("result").map(|_| ())
    })
    .await;
    let answer = ask(&client, json!({}), Some(json!(state))).await;
    assert_eq!(answer.content_text(), "mine", "sealed with the second key: {}", answer.text);
}

/// Repeats a call of `asking_ask` with a yes to each question of an answer.
async fn accept(client: &Client, state: &str, keys: &[String]) -> HttpAnswer {
    let answers: serde_json::Map<_, _> =
        keys.iter().map(|key| (key.clone(), json!({"action": "accept", "content": {}}))).collect();
    let params = json!({"name": "asking_ask", "arguments": {"to": "alice"}, "requestState": state,
        "inputResponses": answers, "_meta":
        {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}});
    client.request("tools/call", params).await
}

fn questions_of(answer: &HttpAnswer) -> (Vec<String>, String) {
    let questions = answer.result()["inputRequests"].as_object().expect("questions");
    (questions.keys().cloned().collect(), json!(questions).to_string())
}

#[tokio::test]
async fn a_yes_runs_a_call_once_however_often_its_state_comes_back() {
    let (url, calls) = asking().await;
    let config = json!({"backends": [{"name": "asking", "url": url}],
        "aggregation": {"confirm": {"tools": ["asking_ask"]}}});
    let vmcp = Vmcp::new().config(config).start().await;
    vmcp.with_tool("asking_ask").await;
    let client = vmcp.modern();
    let first = ask(&client, json!({"to": "alice"}), None).await;
    let (keys, asked) = questions_of(&first);
    assert!(
        asked.contains("Allow the call of asking_ask (server asking)") && asked.contains("alice"),
        "{asked}"
    );
    assert_eq!(calls.load(Ordering::SeqCst), 0);

    let second = accept(&client, &state_of(&first), &keys).await;
    let (own_keys, asked) = questions_of(&second);
    assert!(asked.contains("The server asking asks: Sure?"), "{asked}");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let state = state_of(&second);
    assert!(accept(&client, &state, &own_keys).await.content_text().contains("mine"));
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    for _ in 0..3 {
        let replayed = accept(&client, &state, &own_keys).await;
        let (_, asked) = questions_of(&replayed);
        assert!(asked.contains("Allow the call of asking_ask"), "the user is asked again: {asked}");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2, "nothing runs without a yes of its own");
}
