//! The fixture server by itself: when one of these fails, the fixture is wrong, not vmcp.

use serde_json::json;
use vmcp_integration::{Client, Fixture, MODERN};

async fn client(fixture: &Fixture, revision: &str) -> Client {
    if revision == MODERN {
        Client::modern(fixture.url())
    } else {
        Client::legacy(fixture.url(), revision, "raw").await
    }
}

#[tokio::test]
async fn it_speaks_every_revision_it_says() {
    let echo = Fixture::http("echo", "echo").args(["--page-size", "5"]).start().await;
    for revision in [MODERN, "2025-11-25", "2025-06-18", "2025-03-26"] {
        let client = client(&echo, revision).await;
        assert_eq!(client.tools().await.len(), 15, "{revision}");
        let answer = client.call_tool("add", json!({"a": 2, "b": 3})).await;
        assert_eq!(answer.structured()["sum"].as_f64(), Some(5.0), "{revision}");
        let params = json!({"name": "progress", "arguments": {"steps": 3}, "_meta": {"progressToken": 7}});
        assert_eq!(client.request("tools/call", params).await.notifications.len(), 3, "{revision}");
    }
}

#[tokio::test]
async fn it_is_strict_about_sessions_and_headers() {
    let echo = Fixture::http("echo", "echo").start().await;
    let legacy = client(&echo, "2025-11-25").await.with_session("made-up");
    assert_eq!(legacy.request("tools/list", json!({})).await.status, 404);
    let modern = client(&echo, MODERN).await;
    let params = modern.stamp(json!({"name": "echo", "arguments": {}}));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let other = modern.stamp(json!({"name": "add"}));
    assert_eq!(modern.post("tools/call", &other, &body).send().await.expect("an answer").status(), 400);
}

#[tokio::test]
async fn it_misbehaves_as_often_as_told() {
    let echo = Fixture::http("echo", "echo").start().await;
    let client = client(&echo, MODERN).await;
    echo.control(json!({"do": "garbage", "method": "tools/call", "times": 2})).await;
    for expected in [true, true, false] {
        let answer = client.call_tool("echo", json!({"message": "hi"})).await;
        assert_eq!(answer.message.is_null(), expected, "{}", answer.text);
    }
    echo.control(json!({"do": "status", "code": 503})).await;
    assert_eq!(client.request("tools/list", json!({})).await.status, 503);
    echo.control(json!({"do": "behave"})).await;
    assert_eq!(client.tools().await.len(), 15);
    assert_eq!(echo.calls("echo").await, 3);
}
