//! Credentials for backends: constant keys, fetched tokens and headers of clients reach the backend they are
//! for, by every way to its tools; nothing else of a client does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, HttpAnswer, Vmcp, eventually};

/// Starts a token endpoint that gives `token`; returns its URL and the number of its answers.
async fn token_endpoint(token: &'static str) -> (String, Arc<AtomicU64>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/token", listener.local_addr().expect("an address"));
    let count = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&count);
    let answer = move || {
        counter.fetch_add(1, Ordering::SeqCst);
        async move { Json(json!({"access_token": token, "token_type": "Bearer", "expires_in": 3600})) }
    };
    let app = Router::new().route("/token", post(answer));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, count)
}

/// Calls a tool with a header of the client's own.
async fn call_with(client: &Client, tool: &str, arguments: Value, header: (&str, &str)) -> HttpAnswer {
    let params = client.stamp(json!({"name": tool, "arguments": arguments}));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let sent = client.post("tools/call", &params, &body).header(header.0, header.1);
    HttpAnswer::read(sent.send().await.expect("an answer")).await
}

#[tokio::test]
async fn a_key_reaches_its_backend_through_call_tool_and_direct_alike() {
    let echo =
        Fixture::http("echo", "echo").args(["--require-header", "X-Api-Key: s3cret-value"]).start().await;
    let injection = json!({"headerName": "X-Api-Key", "headerValueEnv": "API_KEY"});
    let auth = json!({"backends": {"echo": {"type": "header_injection", "headerInjection": injection}}});
    let vmcp = Vmcp::new()
        .backend(&echo)
        .config(json!({"outgoingAuth": auth}))
        .env("API_KEY", "s3cret-value")
        .start()
        .await;
    let client = vmcp.with_tool("echo_echo").await;
    let direct = client.call_tool("echo_echo", json!({"message": "direct"})).await;
    let found = client.call_found("echo_echo", json!({"message": "found"})).await;
    assert_eq!((direct.content_text(), found.content_text()), ("direct".into(), "found".into()));
    let status = vmcp.status().await.to_string();
    assert!(!status.contains("s3cret-value") && !vmcp.process.output().contains("s3cret-value"));
}

#[tokio::test]
async fn a_token_for_vmcp_is_fetched_once_and_the_clients_own_stays_here() {
    let echo = Fixture::http("echo", "echo")
        .args(["--require-header", "Authorization: Bearer fetched-token"])
        .start()
        .await;
    let (url, count) = token_endpoint("fetched-token").await;
    let grant = json!({"tokenUrl": url, "clientId": "vmcp", "clientSecret": "${SECRET}"});
    let auth = json!({"backends": {"echo": {"type": "client_credentials", "clientCredentials": grant}}});
    let vmcp = Vmcp::new()
        .backend(&echo)
        .config(json!({"outgoingAuth": auth}))
        .env("SECRET", "s3cret-value")
        .start()
        .await;
    let client = vmcp.with_tool("echo_inspect").await;
    for _ in 0..3 {
        let answer = call_with(&client, "echo_inspect", json!({}), ("authorization", "Bearer mine")).await;
        assert!(!answer.is_failure() && !answer.text.contains("Bearer mine"), "{}", answer.text);
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let log = vmcp.process.output();
    assert!(!log.contains("s3cret-value") && !log.contains("fetched-token"), "a secret in the log");
}

#[tokio::test]
async fn a_provider_that_is_down_is_named_and_other_backends_go_on() {
    let (good, bad) =
        (Fixture::http("good", "echo").start().await, Fixture::http("bad", "echo").start().await);
    let grant = json!({"tokenUrl": "http://127.0.0.1:1/token", "clientId": "v", "clientSecret": "s"});
    let auth = json!({"backends": {"bad": {"type": "clientCredentials", "clientCredentials": grant}}});
    let vmcp = Vmcp::new().backend(&good).backend(&bad).config(json!({"outgoingAuth": auth})).start().await;
    let client = vmcp.with_tool("good_echo").await;
    assert_eq!(client.call_tool("good_echo", json!({"message": "hi"})).await.content_text(), "hi");
    eventually("the reason", async || {
        let status = vmcp.status().await;
        let backends = status["backends"].as_array()?;
        let error =
            backends.iter().find(|backend| backend["name"] == "bad")?["lastError"].as_str()?.to_owned();
        (error.contains("identity provider") && error.contains("127.0.0.1")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_listed_header_of_a_client_reaches_the_backend_it_is_listed_for_only() {
    let (a, b) = (Fixture::http("a", "echo").start().await, Fixture::http("b", "echo").start().await);
    let auth =
        json!({"backends": {"a": {"type": "passthrough", "passthrough": {"headers": ["Authorization"]}}}});
    let vmcp = Vmcp::new()
        .backend(&a)
        .backend(&b)
        .config(json!({"outgoingAuth": auth, "passthroughHeaders": ["X-Tenant"]}))
        .start()
        .await;
    vmcp.with_tool("b_inspect").await;
    let client = vmcp.with_tool("a_inspect").await;
    let call = async |tool: &str, header| call_with(&client, tool, json!({}), header).await.text;
    let mine = ("authorization", "Bearer mine");
    assert!(call("a_inspect", mine).await.contains("Bearer mine"));
    assert!(!call("b_inspect", mine).await.contains("Bearer mine"));
    let tenant = ("x-tenant", "blue");
    assert!(call("b_inspect", tenant).await.contains("blue"));
    let cookie = ("cookie", "a=b");
    assert!(!call("a_inspect", cookie).await.contains("a=b"));
    // By way of call_tool too.
    let arguments = json!({"tool_name": "a_inspect", "parameters": {}});
    let found = call_with(&client, "optim.call_tool", arguments, mine).await;
    assert!(found.text.contains("Bearer mine"), "{}", found.text);
}

#[tokio::test]
async fn a_replaced_key_takes_effect_without_a_restart() {
    let echo = Fixture::http("echo", "echo").args(["--require-header", "X-Api-Key: new-value"]).start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    std::fs::write(&key, "old-value").expect("a key");
    let injection = json!({"headerName": "X-Api-Key", "headerValue": format!("${{file:{}}}", key.display())});
    let auth = json!({"backends": {"echo": {"type": "headerInjection", "headerInjection": injection}}});
    let mut vmcp = Vmcp::new().backend(&echo).config(json!({"outgoingAuth": auth})).start().await;
    eventually("the refusal", async || {
        let status = vmcp.status().await;
        status["backends"][0]["lastError"].as_str()?.contains("HTTP 401").then_some(())
    })
    .await;
    std::fs::write(&key, "new-value").expect("a key");
    let client = vmcp.with_tool("echo_echo").await;
    assert_eq!(client.call_tool("echo_echo", json!({"message": "in"})).await.content_text(), "in");
    vmcp.process.assert_running();
    assert!(!vmcp.process.output().contains("-value"), "{}", vmcp.process.output());
}
