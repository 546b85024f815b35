//! HTTP transport as clients see it, down to status codes: sessions, eras, headers, malformed messages.

use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, MODERN, Vmcp, http_client};

async fn post(url: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
    let mut post = http_client().post(url).body(body.to_owned());
    for (name, value) in headers {
        post = post.header(*name, *value);
    }
    let answer = post.send().await.expect("an answer");
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

const JSON: [(&str, &str); 2] =
    [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];

#[tokio::test]
async fn a_session_opens_serves_and_ends() {
    let vmcp = Vmcp::new().start().await;
    let client = vmcp.legacy().await;
    assert!(client.session.is_some());
    client.request("ping", json!({})).await.result();
    client.request("tools/list", json!({})).await.result();
    assert!(client.close().await.status().is_success());
    assert_eq!(client.request("tools/list", json!({})).await.status, 404);
    let stranger = vmcp.legacy().await.with_session("made-up");
    assert_eq!(stranger.request("tools/list", json!({})).await.status, 404);
}

#[tokio::test]
async fn initialize_agrees_on_the_clients_revision_or_offers_ours() {
    let vmcp = Vmcp::new().start().await;
    for revision in ["2025-11-25", "2025-06-18", "2025-03-26"] {
        Client::legacy(&vmcp.url, revision, "raw").await;
    }
    let params = json!({"protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    // A client that names no type of answer takes any.
    for headers in [&JSON[..1], &JSON] {
        let (status, answer) = post(&vmcp.url, headers, &body).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
    }
}

#[tokio::test]
async fn discover_tells_what_there_is() {
    let vmcp = Vmcp::new().start().await;
    let discovered = vmcp.modern().request("server/discover", json!({})).await;
    let result = discovered.result();
    assert_eq!(result["supportedVersions"][0], MODERN, "{}", discovered.text);
    assert!(result["capabilities"]["tools"].is_object(), "{}", discovered.text);
    for required in ["ttlMs", "cacheScope", "resultType"] {
        assert!(result.get(required).is_some(), "{required} in {}", discovered.text);
    }
}

#[tokio::test]
async fn a_modern_request_that_breaks_the_rules_gets_the_exact_error() {
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).start().await;
    let client = vmcp.with_tool("echo_echo").await;
    let params = client.stamp(json!({"name": "echo_echo", "arguments": {"message": "hi"}}));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let good = [
        JSON[0],
        JSON[1],
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/call"),
        ("mcp-name", "echo_echo"),
    ];
    assert_eq!(post(&vmcp.url, &good, &body).await.0, 200);
    for (position, wrong) in [(3, "tools/list"), (4, "echo_add")] {
        let mut headers = good;
        headers[position].1 = wrong;
        let (status, answer) = post(&vmcp.url, &headers, &body).await;
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32020)), "{wrong}: {answer}");
        assert_eq!(answer["id"], 1, "{answer}");
    }
    let future = body.replace(MODERN, "2099-01-01");
    let headers = good.map(|(name, value)| (name, if value == MODERN { "2099-01-01" } else { value }));
    let (status, answer) = post(&vmcp.url, &headers, &future).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32022)), "{answer}");
    assert!(
        answer["error"]["data"]["supported"].as_array().is_some_and(|all| all.contains(&json!(MODERN))),
        "{answer}"
    );
    let unknown = client.request("tools/make", json!({})).await;
    assert_eq!(
        (unknown.status.as_u16(), &unknown.error()["code"]),
        (404, &json!(-32601)),
        "{}",
        unknown.text
    );
    assert_eq!(client.request("ping", json!({})).await.status, 404, "ping is gone in {MODERN}");
}

#[tokio::test]
async fn what_is_no_message_is_refused_with_a_reason() {
    let vmcp = Vmcp::new().config(json!({"optimizer": {"limits": {"bodyBytes": 4_194_304}}})).start().await;
    for (body, status) in [("{", 400), ("[]", 400), ("7", 400), (r#"{"jsonrpc":"2.0"}"#, 400), ("", 400)] {
        let (got, answer) = post(&vmcp.url, &JSON, body).await;
        assert_eq!(got, status, "{body}: {answer}");
        assert!(answer["error"]["code"].is_i64(), "{body}: {answer}");
    }
    let nested = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}{}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    assert_eq!(post(&vmcp.url, &JSON, &nested).await.0, 400);
    let huge =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#, "x".repeat(5 << 20));
    assert_eq!(post(&vmcp.url, &JSON, &huge).await.0, 413);
    let (status, _) = post(&vmcp.url, &[JSON[0], JSON[1], ("origin", "http://evil.example")], "{}").await;
    assert_eq!(status, 403);
}

#[tokio::test]
async fn nothing_administrative_is_on_the_client_port() {
    let vmcp = Vmcp::new().start().await;
    let client_port = vmcp.url.trim_end_matches("/mcp");
    for path in ["healthz", "readyz", "metrics", "admin/status"] {
        let on = async |base: &str| {
            let answer = http_client().get(format!("{base}/{path}")).send().await.expect("an answer");
            answer.status().as_u16()
        };
        assert_eq!((on(client_port).await, on(&vmcp.admin).await), (404, 200), "{path}");
    }
}

#[tokio::test]
async fn a_browser_is_told_what_is_here() {
    let vmcp = Vmcp::new().start().await;
    let shown = async |base: &str| {
        let answer = http_client().get(format!("{base}/")).send().await.expect("an answer");
        assert_eq!(answer.status(), 200, "{base}");
        answer.text().await.expect("text")
    };
    assert!(shown(vmcp.url.trim_end_matches("/mcp")).await.contains("/mcp"));
    assert!(shown(&vmcp.admin).await.contains("GET  /admin/status"));
}
