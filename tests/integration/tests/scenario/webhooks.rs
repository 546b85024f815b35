//! Webhooks around calls of tools: a service that checks signatures, changes arguments and masks results.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use parking_lot::Mutex;
use ring::hmac;
use serde_json::{Value, json};
use vmcp_integration::{Fixture, Vmcp, eventually};

const KEY: &str = "key-of-the-webhook-0123456789";

/// A service with a path for each behavior; it answers only questions whose signature is right and new.
#[derive(Default)]
struct Hooks {
    /// Questions, by path.
    asked: Mutex<Vec<(String, Value)>>,
}

impl Hooks {
    async fn start() -> (Arc<Hooks>, String) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let hooks = Arc::new(Hooks::default());
        let app = Router::new().route("/{behavior}", post(answer)).with_state(Arc::clone(&hooks));
        tokio::spawn(async move { axum::serve(listener, app).await });
        (hooks, origin)
    }

    fn take(&self, path: &str) -> Vec<Value> {
        let mut asked = self.asked.lock();
        let (taken, left) = std::mem::take(&mut *asked).into_iter().partition(|(name, _)| name == path);
        *asked = left;
        let taken: Vec<(String, Value)> = taken;
        taken.into_iter().map(|(_, question)| question).collect()
    }
}

/// True if the question is signed by the key, within five minutes.
fn is_genuine(headers: &HeaderMap, body: &[u8]) -> bool {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let timestamp: u64 = header("x-toolhive-timestamp").parse().unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
    let signature =
        hex::decode(header("x-toolhive-signature").trim_start_matches("sha256=")).unwrap_or_default();
    let message = [timestamp.to_string().as_bytes(), b".", body].concat();
    let key = hmac::Key::new(hmac::HMAC_SHA256, KEY.as_bytes());
    now.abs_diff(timestamp) < 300 && hmac::verify(&key, &message, &signature).is_ok()
}

async fn answer(
    State(hooks): State<Arc<Hooks>>,
    Path(behavior): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !is_genuine(&headers, &body) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let question: Value = serde_json::from_slice(&body).expect("a question");
    hooks.asked.lock().push((behavior.clone(), question.clone()));
    let patch = |path: &str, value: Value| json!({"allowed": true, "patch_type": "json_patch", "patch": [{"op": "replace", "path": path, "value": value}]});
    let answer = match behavior.as_str() {
        "redact" => patch("/mcp_request/params/arguments/message", json!("hello")),
        "mask" => patch("/mcp_response/result/content/0/text", json!("masked")),
        "deny" => json!({"allowed": false, "message": "not on Fridays"}),
        "flood" => json!({"allowed": true, "message": "x".repeat(10_000_000)}),
        "redirect" => return (StatusCode::FOUND, [(header::LOCATION, "/allow")]).into_response(),
        "hang" => std::future::pending().await,
        _ => json!({"allowed": true}),
    };
    answer.to_string().into_response()
}

/// Returns the settings with a webhook for each pair of kind and behavior.
fn settings(origin: &str, webhooks: &[(&str, &str)], more: &Value) -> Value {
    let mut kinds = json!({"mutating": [], "validating": [], "post": []});
    for (kind, behavior) in webhooks {
        let mut webhook = json!({
            "name": behavior, "url": format!("{origin}/{behavior}"), "hmacSecret": KEY, "tools": ["echo_*"],
            "insecureAllowHttp": true, "allowPrivateIp": true,
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            webhook[key] = value.clone();
        }
        kinds[kind].as_array_mut().expect("a kind").push(webhook);
    }
    json!({"webhooks": kinds})
}

#[tokio::test]
async fn webhooks_change_deny_and_mask_calls_and_change_without_a_restart() {
    let echo = Fixture::http("echo", "echo").start().await;
    let (hooks, origin) = Hooks::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.jsonl");
    let all = [("mutating", "redact"), ("validating", "allow"), ("post", "mask")];
    let mut first = settings(&origin, &all, &json!({}));
    first["audit"] = json!({"enabled": true, "logFile": file});
    let mut vmcp = Vmcp::new().backend(&echo).config(first).start().await;
    let client = vmcp.with_tool("echo_echo").await;
    let direct = client.call_tool("echo_echo", json!({"message": "secret"})).await;
    let arguments = json!({"tool_name": "echo_echo", "parameters": {"message": "secret"}});
    let nested = client.call_tool("optim_call_tool", arguments).await;
    for answer in [direct, nested] {
        assert!(answer.text.contains("masked"), "{}", answer.text);
        assert!(!answer.text.contains("secret") && !answer.text.contains("hello"), "{}", answer.text);
    }
    let told = hooks.take("mask");
    assert_eq!(told.len(), 2);
    for question in told {
        assert_eq!(
            question["mcp_request"]["params"],
            json!({"name": "echo_echo", "arguments": {"message": "hello"}})
        );
        assert_eq!(question["mcp_response"]["result"]["content"][0]["text"], "hello", "what the tool said");
    }
    assert_eq!(hooks.take("redact")[0]["mcp_request"]["params"]["arguments"], json!({"message": "secret"}));
    assert_eq!(hooks.take("allow").len(), 2);
    eventually("the audit event of the changes", async || {
        let events = std::fs::read_to_string(&file).unwrap_or_default();
        let effects = r#""webhooks":["redact: changed_arguments","mask: replaced_result"]"#;
        (events.matches(effects).count() == 2).then_some(())
    })
    .await;

    vmcp.reconfigure(settings(&origin, &[("validating", "deny")], &json!({"tellReason": true})));
    let denied = eventually("the new webhook", async || {
        let answer = client.call_tool("echo_echo", json!({"message": "a"})).await;
        answer.text.contains("not on Fridays").then_some(answer.text)
    })
    .await;
    assert!(
        denied.contains("not permitted by the webhook `deny` of this server: not on Fridays"),
        "{denied}"
    );
    let calls = echo.calls("echo").await;
    client.call_tool("echo_echo", json!({"message": "b"})).await;
    assert_eq!(echo.calls("echo").await, calls, "the backend hears nothing");
    let counted =
        vmcp.metric(r#"vmcp_webhook_questions_total{webhook="deny",kind="validating",outcome="denied"}"#);
    assert!(counted.await >= 2);
}

#[tokio::test]
async fn a_webhook_that_misbehaves_gives_a_clear_answer_and_holds_up_nobody() {
    let echo = Fixture::http("echo", "echo").start().await;
    let (_hooks, origin) = Hooks::start().await;
    for (behavior, timeout, text) in [
        ("flood", "30s", "the webhook's answer cannot be read: it has more than 1 MiB"),
        ("redirect", "30s", "the webhook answered with HTTP 302"),
        ("hang", "200ms", "no answer within 0.2 seconds"),
    ] {
        let fails = settings(&origin, &[("validating", behavior)], &json!({"timeout": timeout}));
        let vmcp = Vmcp::new().backend(&echo).config(fails).start().await;
        let client = vmcp.with_tool("echo_echo").await;
        let refused = client.call_tool("echo_echo", json!({"message": "a"})).await.text;
        assert!(refused.contains(text) && refused.contains(behavior), "{behavior}: {refused}");
        assert!(!refused.contains("127.0.0.1"), "{behavior}: {refused}");
    }
    assert_eq!(echo.calls("echo").await, 0);

    // A wrong key: the service refuses the question, and `ignore` lets the call go on.
    let more = json!({"hmacSecret": "another-key-0123456789", "failurePolicy": "ignore"});
    let vmcp =
        Vmcp::new().backend(&echo).config(settings(&origin, &[("mutating", "redact")], &more)).start().await;
    let client = vmcp.with_tool("echo_echo").await;
    let answer = client.call_tool("echo_echo", json!({"message": "a"})).await;
    assert_eq!(answer.content_text(), "a", "{}", answer.text);
    let counted =
        vmcp.metric(r#"vmcp_webhook_questions_total{webhook="redact",kind="mutating",outcome="status"}"#);
    assert_eq!(counted.await, 1);
}
