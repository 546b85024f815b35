//! Tests of webhooks that answer, change, lie, hang and flood.

use serde_json::{Value, json};
use vmcp_config::load;

use super::super::signature::signature;
use super::super::tests::{Service, client, ok};
use super::*;
use crate::identity::Identity;
use uuid::Uuid;

fn webhook(url: &str, settings: &str) -> Webhook {
    // `main` installs the provider. Another test may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let text = format!(
        "webhooks: {{ mutating: [{{ name: hook, url: '{url}', insecureAllowHttp: true, allowPrivateIp: true, \
         {settings} }}] }}"
    );
    let config = load(&text, "vmcp.yaml", &|_| None).unwrap().config;
    Webhook::new(Arc::clone(&config.webhooks.mutating[0]))
}

fn about<'a>(identity: &'a Identity, answer: Option<ToolAnswer<'a>>) -> AskedCall<'a> {
    AskedCall {
        identity,
        address: None,
        backend: "db",
        name: "db_drop",
        original_name: "drop",
        arguments: Some(r#"{"table":"users","big":12345678901234567890}"#),
        answer,
    }
}

/// Asks about a call, or with `answer` about its result.
async fn told(
    body: &str,
    kind: WebhookKind,
    answer: Option<&str>,
) -> Result<WebhookDecision, WebhookFailure> {
    let service = Service::saying(body).await;
    let alice = client(json!({}));
    webhook(&service.url, "").ask(kind, &about(&alice, answer.map(ToolAnswer::Result))).await
}

fn changed(decision: Result<WebhookDecision, WebhookFailure>) -> Value {
    match decision {
        Ok(WebhookDecision::Changed(value)) => serde_json::from_str(value.get()).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_question_is_toolhives_and_its_signature_verifies() {
    let service = Service::saying(r#"{"allowed":true}"#).await;
    let hook = webhook(&service.url, "hmacSecret: 0123456789abcdefghij, claims: ['*']");
    let alice = client(json!({"name": "Alice", "email": "a@b", "groups": ["dev"]}));
    let call = AskedCall { address: Some([10, 0, 0, 1].into()), ..about(&alice, None) };
    hook.ask(WebhookKind::Validating, &call).await.unwrap();
    let mut body = service.body(0);
    let asked = service.asked.lock()[0].clone();
    let (head, text) = asked.split_once("\r\n\r\n").unwrap();
    let header = |name: &str| {
        head.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap().to_owned()
    };
    let timestamp: u64 = header("x-toolhive-timestamp").parse().unwrap();
    assert!(crate::clock::now() - timestamp < 300, "within the replay window of ToolHive's documentation");
    assert_eq!(header("x-toolhive-signature"), signature("0123456789abcdefghij", timestamp, text.as_bytes()));
    assert!(!asked.contains("token-of-alice"), "{asked}");
    let [uid, at] = ["uid", "timestamp"].map(|key| body[key].take());
    Uuid::parse_str(uid.as_str().unwrap()).unwrap();
    humantime::parse_rfc3339(at.as_str().unwrap()).unwrap();
    let claims = json!({"name": "Alice", "email": "a@b", "groups": ["dev"]});
    let arguments = json!({"table": "users", "big": 12_345_678_901_234_567_890_u64});
    let expected = json!({
        "version": "v0.1.0", "uid": null, "timestamp": null,
        "principal": {"sub": "alice", "name": "Alice", "email": "a@b", "groups": ["dev"], "claims": claims},
        "mcp_request": {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "db_drop", "arguments": arguments}},
        "context": {"server_name": "vmcp", "backend_server": "db", "source_ip": "10.0.0.1",
            "transport": "streamable-http"},
    });
    assert_eq!(body, expected);
    // Another question has another id, so that a receiver can tell a replay.
    hook.ask(WebhookKind::Validating, &call).await.unwrap();
    assert_ne!(service.body(1)["uid"], uid);
}

#[tokio::test]
async fn a_webhook_is_told_little_unless_it_may_know_more() {
    let service = Service::saying(r#"{"allowed":true}"#).await;
    let alice = client(json!({"email": "a@b", "dept": "x", "groups": ["dev"]}));
    let hook = webhook(&service.url, "originalNames: true");
    hook.ask(WebhookKind::Post, &about(&alice, Some(ToolAnswer::Error(r#"{"code":-1,"message":"m"}"#))))
        .await
        .unwrap();
    hook.ask(WebhookKind::Post, &about(&Identity::Anonymous, None)).await.unwrap();
    let body = service.body(0);
    assert_eq!(body["principal"], json!({"sub": "alice", "groups": ["dev"]}));
    assert_eq!(body["mcp_request"]["params"]["name"], "drop");
    assert_eq!(
        body["mcp_response"],
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "m"}})
    );
    assert_eq!((&body["context"]["transport"], &body["context"]["source_ip"]), (&json!("stdio"), &json!("")));
    assert_eq!(service.body(1)["principal"], Value::Null);
}

#[tokio::test]
async fn an_answer_denies_for_its_reason() {
    for (body, reason) in [
        (r#"{"allowed":false,"message":"not\u001b on Fridays","reason":"FRIDAY"}"#, Some("not on Fridays")),
        (r#"{"allowed":false,"reason":"FRIDAY"}"#, Some("FRIDAY")),
        (r#"{"allowed":false,"patch_type":"json_patch","patch":[{}]}"#, None),
        ("{}", None),
    ] {
        for kind in [WebhookKind::Validating, WebhookKind::Mutating, WebhookKind::Post] {
            let decision = told(body, kind, None).await.unwrap();
            let WebhookDecision::Denied { reason: told } = decision else { panic!("{body}: {decision:?}") };
            assert_eq!(told.as_deref(), reason, "{body}");
        }
    }
    let unprocessable = b"HTTP/1.1 422 Unprocessable Entity\r\nconnection: close\r\n\r\n{\"allowed\":true}";
    let service = Service::answering(unprocessable.to_vec()).await;
    let decision = webhook(&service.url, "failurePolicy: ignore")
        .ask(WebhookKind::Mutating, &about(&Identity::Anonymous, None))
        .await;
    assert!(matches!(decision, Ok(WebhookDecision::Denied { reason: None })), "{decision:?}");
}

#[tokio::test]
async fn a_patch_changes_arguments_or_a_result() {
    let patch = |operations: Value| {
        json!({"allowed": true, "patch_type": "json_patch", "patch": operations}).to_string()
    };
    let arguments = patch(json!([
        {"op": "test", "path": "/mcp_request/params/name", "value": "db_drop"},
        {"op": "replace", "path": "/mcp_request/params/arguments/table", "value": "copy"},
        {"op": "add", "path": "/mcp_request/params/arguments/dry", "value": true},
    ]));
    let expected = json!({"table": "copy", "big": 12_345_678_901_234_567_890_u64, "dry": true});
    assert_eq!(changed(told(&arguments, WebhookKind::Mutating, None).await), expected);
    let ignored = told(&arguments, WebhookKind::Validating, None).await;
    assert!(matches!(ignored, Ok(WebhookDecision::Allowed)), "a validating webhook changes nothing");

    let result = r#"{"content":[{"type":"text","text":"4111"}],"isError":false}"#;
    let other = json!({"content": [{"type": "text", "text": "****"}]});
    let whole = patch(json!([{"op": "replace", "path": "/mcp_response/result", "value": other}]));
    assert_eq!(changed(told(&whole, WebhookKind::Post, Some(result)).await), other);
    let part = patch(json!([{"op": "replace", "path": "/mcp_response/result/content/0/text", "value": "*"}]));
    assert_eq!(changed(told(&part, WebhookKind::Post, Some(result)).await)["content"][0]["text"], "*");
    let long = json!({"content": [{"type": "text", "text": "4".repeat(100_000)}]}).to_string();
    let masked = changed(told(&part, WebhookKind::Post, Some(&long)).await);
    assert_eq!(masked["content"][0]["text"], "*", "applied on a blocking thread");
    let same = patch(json!([{"op": "replace", "path": "/mcp_response/result/isError", "value": false}]));
    for unchanged in [patch(json!([])), patch(json!(null)), same, r#"{"allowed":true}"#.to_owned()] {
        let decision = told(&unchanged, WebhookKind::Post, Some(result)).await;
        assert!(matches!(decision, Ok(WebhookDecision::Allowed)), "{unchanged}: {decision:?}");
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_used_decides_nothing() {
    let patch = |operations: Value| {
        json!({"allowed": true, "patch_type": "json_patch", "patch": operations}).to_string()
    };
    let replace = |path: &str, value: Value| patch(json!([{"op": "replace", "path": path, "value": value}]));
    let doubles = (0..20).map(|number| {
        json!({"op": "copy", "from": "/mcp_request/params/arguments",
            "path": format!("/mcp_request/params/arguments/copy{number}")})
    });
    let long =
        json!({"op": "add", "path": "/mcp_request/params/arguments/long", "value": "x".repeat(100_000)});
    let doubles: Vec<Value> = std::iter::once(long).chain(doubles).collect();
    let grows = json!({"op": "copy", "from": "/mcp_request/params/arguments",
        "path": "/mcp_request/params/arguments/again"});
    for (body, word, text) in [
        ("yes".to_owned(), "unreadable", "no object"),
        (r"[true]".to_owned(), "unreadable", "no object"),
        (r#"{"allowed":"true"}"#.to_owned(), "unreadable", "another type"),
        (r#"{"allowed":true,"patch_type":"merge","patch":{}}"#.to_owned(), "unreadable", "json_patch"),
        (replace("/mcp_request/params/name", json!("db_list")), "patch", "arguments` only"),
        (replace("/mcp_request/method", json!("tools/list")), "patch", "arguments` only"),
        (replace("/mcp_request", json!({})), "patch", "reaches outside"),
        (replace("/principal/sub", json!("root")), "patch", "reaches outside"),
        (replace("/mcp_request/params/arguments", json!([])), "patch", "no object"),
        (replace("/mcp_request/params/arguments/none/a", json!(1)), "patch", "path is invalid"),
        (patch(json!([{"op": "pin-4711", "path": "/mcp_request/a"}])), "patch", "no list of operations"),
        (patch(json!(vec![grows.clone(); 200])), "patch", "deeper than 160"),
        (patch(json!(doubles)), "patch", "operation 4: more than 1 MiB"),
        (patch(json!(vec![grows; 257])), "patch", "at most 256"),
    ] {
        let failure = told(&body, WebhookKind::Mutating, None).await.unwrap_err();
        assert_eq!(failure.word(), word, "{body:.200}: {failure}");
        assert!(failure.to_string().contains(text), "{body:.200}: {failure}");
        assert!(!failure.to_string().contains("pin-4711"), "{failure}");
        assert!(word != "patch" || failure.told() == "the webhook's patch cannot be applied", "{failure}");
    }
    for path in ["/mcp_response/id", "/mcp_response/result/content", "/mcp_response/result"] {
        let body = replace(path, json!(7));
        let failure = told(&body, WebhookKind::Post, Some(r#"{"content":[]}"#)).await.unwrap_err();
        assert_eq!(failure.word(), "patch", "{path}: {failure}");
    }
}

#[tokio::test]
async fn a_webhook_that_floods_redirects_or_hangs_gives_no_answer() {
    let redirect = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\nconnection: close\r\n\r\n";
    let flood = ok(&format!(r#"{{"allowed":true,"message":"{}"}}"#, "x".repeat(10_000_000)));
    for (answer, failure) in [
        (redirect.to_vec(), WebhookFailure::Status(302)),
        (b"HTTP/1.1 503 Busy\r\nconnection: close\r\n\r\n".to_vec(), WebhookFailure::Status(503)),
        (flood, WebhookFailure::Unreadable("it has more than 1 MiB")),
        (Vec::new(), WebhookFailure::Timeout(Duration::from_millis(50))),
    ] {
        let service = Service::answering(answer).await;
        let hook = webhook(&service.url, "timeout: 50ms");
        let hook =
            if matches!(failure, WebhookFailure::Timeout(_)) { hook } else { webhook(&service.url, "") };
        let told = hook.ask(WebhookKind::Mutating, &about(&Identity::Anonymous, None)).await.unwrap_err();
        assert_eq!(told, failure);
        assert!(!told.told().contains("127.0.0.1"), "{}", told.told());
    }
    let gone = webhook("http://127.0.0.1:1/secret-path", "");
    let failure = gone.ask(WebhookKind::Mutating, &about(&Identity::Anonymous, None)).await.unwrap_err();
    assert_eq!((failure.word(), failure.told().as_str()), ("unreachable", "the webhook cannot be reached"));
    let text = "webhooks: { post: [{ name: hook, url: 'https://10.0.0.1/' }] }";
    let config = load(text, "vmcp.yaml", &|_| None).unwrap().config;
    let private = Webhook::new(Arc::clone(&config.webhooks.post[0]));
    let failure = private.ask(WebhookKind::Post, &about(&Identity::Anonymous, None)).await.unwrap_err();
    assert!(failure.to_string().contains("set allowPrivateIp"), "{failure}");
}

#[tokio::test]
async fn a_question_behind_too_many_others_is_not_asked() {
    let service = Service::saying(r#"{"allowed":true}"#).await;
    let hook = webhook(&service.url, "");
    let others = hook.queue.try_acquire_many((MAX_CONCURRENT + MAX_WAITING) as u32).unwrap();
    let failure = hook.ask(WebhookKind::Mutating, &about(&Identity::Anonymous, None)).await.unwrap_err();
    assert_eq!((failure, service.count()), (WebhookFailure::Busy, 0));
    drop(others);
    hook.ask(WebhookKind::Mutating, &about(&Identity::Anonymous, None)).await.unwrap();
}

#[tokio::test]
async fn a_call_that_cannot_be_shown_is_not_asked_about() {
    let service = Service::saying(r#"{"allowed":true}"#).await;
    let hook = webhook(&service.url, "failurePolicy: ignore");
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_QUESTION_BYTES));
    let alice = client(json!({}));
    let unreadable = client(json!({"groups": 1.5}));
    for call in [
        AskedCall { arguments: Some(&long), ..about(&alice, None) },
        about(&alice, Some(ToolAnswer::Result(&long))),
        about(&alice, Some(ToolAnswer::Result("{\"a\":"))),
        about(&unreadable, None),
    ] {
        let failure = hook.ask(WebhookKind::Post, &call).await.unwrap_err();
        assert_eq!(failure.word(), "unaskable", "{failure}");
    }
    assert_eq!(service.count(), 0);
}
