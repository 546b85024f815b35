//! Rate limits: of all methods, and shared by replicas through Redis.

use std::path::Path;

use rcgen::SanType;
use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, Redis, TlsProxy, Vmcp, eventually, http_client};

use super::client_certificates::Authority;

/// Calls that all clients together have in an hour.
const CALLS: usize = 4;
/// Gauge of a Redis that answers.
const UP: &str = "vmcp_rate_limit_store_up{provider=\"redis\"}";

async fn replica(backend: &Fixture, redis: &Redis) -> Vmcp {
    let settings = json!({
        "rateLimiting": {"shared": {"maxTokens": CALLS, "refillPeriod": "1h"}},
        "sessionStorage": {
            "provider": "redis", "address": redis.address, "password": Redis::PASSWORD, "keyPrefix": "test:",
        },
    });
    let vmcp = Vmcp::new().backend(backend).config(settings).start().await;
    vmcp.with_tool("echo_echo").await;
    vmcp
}

/// Calls a tool; returns true if the call was within the limits.
async fn is_granted(vmcp: &Vmcp) -> bool {
    let params = json!({"name": "echo_echo", "arguments": {"message": "hi"}});
    let answer = vmcp.modern().request("tools/call", params).await;
    let limited = answer.text.contains("rate limit");
    assert!(limited != answer.text.contains("\"hi\""), "{}", answer.text);
    !limited
}

async fn redis_is_up(vmcp: &Vmcp, up: u64) {
    eventually("the state of Redis", async || {
        // A call asks Redis; the metric tells whether it answered.
        is_granted(vmcp).await;
        (vmcp.metric(UP).await == up).then_some(())
    })
    .await;
}

#[tokio::test]
async fn replicas_share_their_limits_and_count_alone_while_redis_is_away() {
    let (mut redis, echo) = (Redis::start().await, Fixture::http("echo", "echo").start().await);
    let (one, other) = futures::join!(replica(&echo, &redis), replica(&echo, &redis));
    for call in 0..CALLS {
        assert!(is_granted(if call % 2 == 0 { &one } else { &other }).await, "call {call}");
    }
    assert!(!is_granted(&one).await, "the other replica has taken of the same tokens");
    assert!(!is_granted(&other).await);
    assert_eq!(one.metric(UP).await, 1);

    redis.stop();
    for vmcp in [&one, &other] {
        for call in 0..CALLS {
            assert!(is_granted(vmcp).await, "call {call}: each replica counts by itself");
        }
        assert!(!is_granted(vmcp).await, "and keeps the limit");
        assert_eq!(vmcp.metric(UP).await, 0);
        vmcp.process.line_after("Redis does not answer").await;
    }

    redis.restart().await;
    redis_is_up(&one, 1).await;
    one.process.line_after("Redis answers again").await;
}

#[tokio::test]
async fn redis_is_reached_over_tls_with_a_trusted_certificate_and_the_right_password_only() {
    let (redis, echo) = (Redis::start().await, Fixture::http("echo", "echo").start().await);
    let folder = tempfile::tempdir().expect("a folder");
    let trusted = folder.path().join("ca.crt");
    let authority = Authority::new();
    std::fs::write(&trusted, &authority.pem).expect("a file");
    let (certificate, key) = authority.issue(SanType::IpAddress([127, 0, 0, 1].into()));
    let proxy = TlsProxy::start(&redis.address, &certificate, &key).await;
    let start = async |authorities: Option<&Path>, password: &str| {
        let address = format!("rediss://127.0.0.1:{}", proxy.port);
        let settings = json!({
            "rateLimiting": {"shared": {"maxTokens": 1000, "refillPeriod": "1h"}},
            "sessionStorage": {"provider": "redis", "address": address, "password": password},
        });
        let vmcp = Vmcp::new().backend(&echo).config(settings);
        let vmcp = match authorities {
            Some(file) => vmcp.env("SSL_CERT_FILE", &file.display().to_string()),
            None => vmcp,
        };
        let vmcp = vmcp.start().await;
        vmcp.with_tool("echo_echo").await;
        vmcp
    };
    let (good, untrusting, mistaken) = futures::join!(
        start(Some(&trusted), Redis::PASSWORD),
        start(None, Redis::PASSWORD),
        start(Some(&trusted), "another password"),
    );
    redis_is_up(&good, 1).await;
    for vmcp in [&untrusting, &mistaken] {
        redis_is_up(vmcp, 0).await;
        vmcp.process.line_after("Redis does not answer").await;
        let said = vmcp.process.output();
        assert!(!said.contains("another password"), "{said}");
    }
}

/// Keys of two clients.
const KEYS: [(&str, &str); 2] = [("alice", "alice-0123456789abcdef"), ("bob", "bob-0123456789abcdef")];

#[tokio::test]
async fn a_call_takes_of_every_bucket_in_redis_or_of_none() {
    let (redis, echo) = (Redis::start().await, Fixture::http("echo", "echo").start().await);
    let hour = |tokens: usize| json!({"maxTokens": tokens, "refillPeriod": "1h"});
    let settings = json!({
        "incomingAuth": {
            "type": "apiKeys", "apiKeys": KEYS.map(|(subject, key)| json!({"subject": subject, "key": key})),
        },
        "rateLimiting": {
            "shared": hour(4),
            "tools": [
                {"name": "echo_echo", "perUser": hour(1)},
                {"name": "echo_add", "shared": {"maxTokens": 1, "refillPeriod": "1s"}},
            ],
        },
        "sessionStorage": {"provider": "redis", "address": redis.address, "password": Redis::PASSWORD},
    });
    let vmcp = Vmcp::new().backend(&echo).config(settings).start().await;
    vmcp.with_tool("echo_echo").await;
    let [alice, bob] = KEYS.map(|(_, key)| vmcp.modern().bearing(key));
    let say = json!({"name": "echo_echo", "arguments": {"message": "hi"}});
    let add = json!({"name": "echo_add", "arguments": {"a": 1, "b": 2}});
    let call =
        async |client: &Client, params: &Value| client.request("tools/call", params.clone()).await.text;
    assert!(!call(&alice, &say).await.contains("rate limit"));
    let refused = call(&alice, &say).await;
    assert!(
        refused.contains("your calls of this tool") && refused.contains("retry_after_seconds"),
        "{refused}"
    );
    assert!(!call(&bob, &say).await.contains("rate limit"), "a bucket of his own");
    // Two are left of all calls: the refused one took nothing. The tool's own bucket fills up in a second.
    for _ in 0..2 {
        eventually("a token of the tool", async || {
            (!call(&alice, &add).await.contains("all calls of this tool")).then_some(())
        })
        .await;
    }
    let refused = call(&bob, &add).await;
    assert!(refused.contains("all calls of this server"), "{refused}");
    assert_eq!(vmcp.metric(UP).await, 1);
}

#[tokio::test]
async fn requests_of_every_method_have_a_rate() {
    let echo = Fixture::http("echo", "echo").start().await;
    let settings = json!({
        "rateLimiting": {"requests": {
            "perUser": {"maxTokens": 40, "refillPeriod": "1h"}, "weights": {"optim.find_tool": 30, "GET /tools": 9},
        }},
        "optimizer": {"discovery": {"enabled": true}, "embeddings": {"provider": "none"}},
    });
    let vmcp = Vmcp::new().backend(&echo).config(settings).start().await;
    let client = vmcp.modern();
    assert_eq!(client.find_tool(json!({"tool_description": "echo"})).await.status, 200);
    let again = client.find_tool(json!({"tool_description": "echo"})).await;
    assert_eq!(again.status, 429, "{}", again.text);
    assert!(again.text.contains("the rate limit of your requests"), "{}", again.text);
    let tools =
        || async { http_client().get(vmcp.url.replace("/mcp", "/tools")).send().await.expect("an answer") };
    assert_eq!(tools().await.status(), 200);
    assert_eq!(tools().await.status(), 429);
    assert_eq!(client.request("tools/list", json!({})).await.status, 200);
    assert_eq!(client.request("tools/list", json!({})).await.status, 429);
}

#[tokio::test]
async fn a_stream_of_a_session_is_a_request() {
    let echo = Fixture::http("echo", "echo").start().await;
    let requests = json!({"perUser": {"maxTokens": 3, "refillPeriod": "1h"}});
    let settings = json!({ "rateLimiting": { "requests": requests } });
    let vmcp = Vmcp::new().backend(&echo).config(settings).start().await;
    let client = vmcp.legacy().await;
    for stream in 0..2 {
        assert_eq!(client.listen().await.status(), 200, "stream {stream}");
    }
    assert_eq!(client.listen().await.status(), 429);
}
