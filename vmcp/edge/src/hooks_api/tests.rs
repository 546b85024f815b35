//! The API, asked without a port.

use http_body_util::BodyExt as _;
use serde_json::{Map, Value, json};
use vmcp_engine::access::identity::Identity;
use vmcp_engine::testing::engine;

use super::*;

const ON: &str = "optimizer: { embeddings: { provider: none }, sessionHooks: { enabled: true } }\n";

fn known(name: &str) -> Principal {
    Principal::from(Identity::known("https://idp.example", name, Map::new(), None))
}

async fn ask(engine: &Engine, who: &Principal, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let (head, ()) = http::Request::builder().method(method).uri(path).body(()).unwrap().into_parts();
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let api = HooksApi::new(engine.clone());
    let answer = api.answer(&head, &body, who, &engine.snapshot()).await;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() })
}

#[tokio::test]
async fn sessions_of_one_principal_are_unknown_to_another() {
    let engine = engine(ON).await;
    let (alice, bob) = (known("alice"), known("bob"));
    let start = json!({"hook_type": "SessionStart", "params": {"session_id": "s"}, "source": "codex"});
    let (status, started) = ask(&engine, &alice, "POST", "/hooks/execute", &start).await;
    assert_eq!((status, &started["normalized_type"]), (200, &json!("session-start")), "{started}");
    let own = format!("/sessions/{}", started["result"]["session_id"].as_str().unwrap());
    let none = "/sessions/00000000-0000-4000-8000-000000000000";
    for method in ["GET", "DELETE"] {
        let of_bob = ask(&engine, &bob, method, &own, &Value::Null).await;
        assert_eq!(of_bob, ask(&engine, &bob, method, none, &Value::Null).await, "{method}");
        assert_eq!(of_bob.0, 404);
    }
    assert_eq!(ask(&engine, &bob, "GET", "/sessions", &Value::Null).await.1, json!({"sessions": []}));
    let (_, shown) = ask(&engine, &alice, "GET", &own, &Value::Null).await;
    assert_eq!((&shown["status"], &shown["events"][0]["type"]), (&json!("active"), &json!("session-start")));
    let ending = json!({"session_id": "s", "transcript": "User: fix it"});
    let end = json!({"hook_type": "SessionEnd", "params": ending, "source": "codex"});
    assert_eq!(ask(&engine, &alice, "POST", "/hooks/execute", &end).await.0, 200);
    let (_, shown) = ask(&engine, &alice, "GET", &own, &Value::Null).await;
    assert!(shown["summary"].as_str().unwrap().contains("fix it"), "{shown}");
    let (_, listed) = ask(&engine, &alice, "GET", "/sessions", &Value::Null).await;
    let listed = &listed["sessions"][0];
    assert_eq!((&listed["status"], listed.get("summary")), (&json!("handoff_ready"), None), "{listed}");
    assert_eq!(ask(&engine, &alice, "DELETE", &own, &Value::Null).await.0, 204);
    assert_eq!(ask(&engine, &alice, "GET", &own, &Value::Null).await.0, 404);
}

#[tokio::test]
async fn mistakes_and_other_methods_are_named() {
    let engine = engine(ON).await;
    let me = Principal::default();
    for (method, path, body, status, words) in [
        ("POST", "/hooks/execute", json!([1]), 400, "arguments must be a JSON object"),
        ("POST", "/hooks/execute", json!({}), 400, "hook_type is required"),
        ("POST", "/hooks/execute", json!({"hook_type": "No"}), 400, "unknown hook_type `No`"),
        ("POST", "/hooks/claude", json!({}), 400, "hook_event_name is required"),
        ("GET", "/hooks/codex", Value::Null, 405, "use POST"),
        ("POST", "/sessions", json!({}), 405, "use GET"),
        ("GET", "/sessions/x", Value::Null, 404, "not found"),
        ("GET", "/sessions?status=x", Value::Null, 400, "status must be"),
    ] {
        let (answered, answer) = ask(&engine, &me, method, path, &body).await;
        assert_eq!((answered, &answer["success"]), (status, &json!(false)), "{path}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(words), "{path}: {answer}");
    }
    let (_, unknown) = ask(&engine, &me, "POST", "/hooks/execute", &json!({"hook_type": "No"})).await;
    assert!(unknown["available_types"].as_array().unwrap().contains(&json!("UserPromptSubmit")));
}

#[test]
fn paths_are_served_only_when_switched_on() {
    let (on, off) = (vmcp_engine::testing::config(ON), vmcp_engine::testing::config(""));
    let without_optimizer = "optimizer: { enabled: false, sessionHooks: { enabled: true } }";
    let without_optimizer = vmcp_engine::testing::config(without_optimizer);
    for path in ["/hooks/execute", "/hooks/claude", "/hooks/codex", "/sessions", "/sessions/x"] {
        assert!(HooksApi::serves(&on, path), "{path}");
        assert!(!HooksApi::serves(&off, path) && !HooksApi::serves(&without_optimizer, path), "{path}");
    }
    for path in ["/hooks", "/hooks/", "/hooks/cursor", "/sessions/", "/sessions/a/b", "/sessionsx", "/"] {
        assert!(!HooksApi::serves(&on, path), "{path}");
    }
}

#[tokio::test]
async fn a_policy_that_denies_the_tool_denies_the_paths() {
    let policy = "incomingAuth: { type: apiKeys, apiKeys: [{ subject: a, key: 0123456789abcdef0123456789abcdef }], \
                  authz: { type: cedar, policies: ['forbid(principal, action, resource == \
                  Tool::\"optim.call_hook\");'] } }\n";
    let engine = engine(&format!("{ON}{policy}")).await;
    let who = known("alice");
    let start = json!({"hook_type": "SessionStart", "params": {"session_id": "s"}});
    let event = json!({"hook_event_name": "SessionStart", "session_id": "s"});
    for (method, path, body) in [
        ("POST", "/hooks/execute", &start),
        ("POST", "/hooks/claude", &event),
        ("GET", "/sessions", &Value::Null),
    ] {
        assert_eq!(ask(&engine, &who, method, path, body).await.0, 404, "{path}");
    }
}
