//! Eras: the choice of one, and requests written in its terms.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use vmcp_backend::{Backend, BackendState, Request};
use vmcp_wire::era::Era;
use vmcp_wire::meta::Trace;
use vmcp_wire::owned::OwnedParams;

use crate::support::scripts::{echo, initialized, legacy, modern};
use crate::support::server::{Reply, Server};
use crate::support::{call, params_of, result, settings, spec, wait_for_state};

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
/// Params with a reserved key of the other era and an unknown key.
const PARAMS: &str = r#"{"name":"echo", "arguments":{"n":1.0},"_meta":{"io.modelcontextprotocol/protocolVersion":"1999-01-01","vendor/x":[1]}}"#;

fn request(params: &OwnedParams) -> Request<'_> {
    Request {
        subject: Some("écho"),
        param_headers: vec![("Mcp-Param-Region".to_owned(), "eu".to_owned())],
        trace: Trace { traceparent: Some(TRACEPARENT.into()), ..Trace::default() },
        ..Request::new("tools/call", params)
    }
}

#[tokio::test]
async fn a_modern_call_is_one_request_with_the_headers_and_metadata_of_its_era() {
    let odd = r#"{ "content":[], "x-vendor":1e400,"a":{"b":[ ]} }"#;
    let server = Server::start(modern(move |seen| Reply::Json(seen.answer(odd)))).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let params = params_of(PARAMS);
    let response = backend.request(request(&params)).await.unwrap();
    assert_eq!(result(&response), odd, "byte for byte");
    assert_eq!(response.era, Era::Modern);
    let [seen] = &*server.asked("tools/call") else { panic!("one call, one request") };
    for (name, value) in [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "=?base64?w6ljaG8=?="),
        ("mcp-param-region", "eu"),
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("traceparent", TRACEPARENT),
        ("x-configured", "yes"),
    ] {
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
    let meta = &seen.body["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "vmcp");
    assert_eq!(meta["traceparent"], TRACEPARENT);
    assert_eq!(meta["vendor/x"], json!([1]));
    let status = wait_for_state(&backend, BackendState::Connected).await;
    assert_eq!((status.era.as_deref(), status.revision.as_deref()), (Some("modern"), Some("2026-07-28")));
    assert_eq!(status.server_name.as_deref(), Some("modern"));
    backend.stop().await;
}

#[tokio::test]
async fn the_subject_in_the_body_is_the_one_in_the_header() {
    let server = Server::start(modern(echo)).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let params = params_of(r#"{"name":"the client's name","arguments":{}}"#);
    let request = Request { subject: Some("echo"), ..Request::new("tools/call", &params) };
    backend.request(request).await.unwrap();
    let [seen] = &*server.asked("tools/call") else { panic!("one call, one request") };
    assert_eq!(seen.header("mcp-name"), Some("echo"));
    assert_eq!(seen.body["params"]["name"], "echo");
    assert_eq!(seen.body["params"]["arguments"], json!({}));
}

#[tokio::test]
async fn a_legacy_backend_gets_no_null_metadata_and_no_continuation_of_a_modern_request() {
    let server = Server::start(legacy(echo)).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let params = params_of(r#"{"name":"echo","requestState":"s","inputResponses":{},"_meta":null}"#);
    backend.request(Request::new("tools/call", &params)).await.unwrap();
    let [seen] = &*server.asked("tools/call") else { panic!("one call, one request") };
    let progress = json!({"progressToken": seen.body["id"]});
    assert_eq!(seen.body["params"], json!({"name": "echo", "_meta": progress}), "progress is ours");
}

#[tokio::test]
async fn a_legacy_call_carries_the_session_and_no_reserved_metadata() {
    let server = Server::start(legacy(echo)).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let params = params_of(PARAMS);
    let response = backend.request(request(&params)).await.unwrap();
    assert_eq!(response.era, Era::Legacy);
    let [seen] = &*server.asked("tools/call") else { panic!("one call, one request") };
    assert_eq!(seen.header("mcp-session-id"), Some("s1"));
    assert_eq!(seen.header("mcp-protocol-version"), Some("2025-11-25"));
    assert_eq!(seen.header("traceparent"), Some(TRACEPARENT));
    assert_eq!(seen.header("mcp-method"), None);
    let progress = &seen.body["id"];
    assert_eq!(
        seen.body["params"]["_meta"],
        json!({"vendor/x": [1], "traceparent": TRACEPARENT, "progressToken": progress})
    );
    let initialized = &server.asked("notifications/initialized")[0];
    assert_eq!(initialized.header("mcp-session-id"), Some("s1"));
    assert_eq!(server.asked("initialize")[0].body["params"]["protocolVersion"], "2025-11-25");
    backend.stop().await;
    let goodbye = server.seen().into_iter().find(|seen| seen.http == "DELETE").expect("the session is ended");
    assert_eq!(goodbye.header("mcp-session-id"), Some("s1"));
}

#[tokio::test]
async fn odd_answers_to_the_probe_mean_a_legacy_server() {
    type Probe = fn(&crate::support::server::SeenRequest) -> Reply;
    let probes: [(&str, Probe); 7] = [
        ("go-sdk lists legacy revisions", |seen| {
            Reply::Json(seen.answer(r#"{"supportedVersions":["2025-11-25"],"capabilities":{}}"#))
        }),
        ("an error", |seen| Reply::Json(seen.error(-32601))),
        ("400 with an error", |seen| Reply::Status(400, seen.error(-32000))),
        ("500", |_| Reply::Status(500, "oops".to_owned())),
        ("no JSON", |_| Reply::Json("<html>".to_owned())),
        ("a closed connection", |_| Reply::Broken(Vec::new())),
        ("silence", |_| Reply::Hang),
    ];
    for (what, probe) in probes {
        let rest = legacy(echo);
        let answer = move |seen: &_| if seen_is_probe(seen) { probe(seen) } else { rest(seen) };
        let server = Server::start(answer).await;
        let probe_timeout = std::time::Duration::from_millis(300);
        let settings = vmcp_backend::BackendSettings { http_probe_timeout: probe_timeout, ..settings() };
        let backend = Backend::start(spec("b", server.transport()), settings, None);
        let response = call(&backend, "echo").await.unwrap();
        assert_eq!(response.era, Era::Legacy, "{what}");
        backend.stop().await;
    }
}

fn seen_is_probe(seen: &crate::support::server::SeenRequest) -> bool {
    seen.method() == "server/discover"
}

#[tokio::test]
async fn the_era_is_remembered_until_a_reconnect_fails() {
    let server = Server::start(legacy(|seen| {
        // Every session is lost at its first call.
        if seen.header("mcp-session-id") == Some("s1") {
            Reply::Status(404, String::new())
        } else {
            Reply::Hang
        }
    }))
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    call(&backend, "echo").await.unwrap_err();
    wait_for_state(&backend, BackendState::Connected).await;
    assert!(server.asked("initialize").len() >= 2);
    assert_eq!(server.asked("server/discover").len(), 1, "asked once");
    backend.stop().await;
}

#[tokio::test]
async fn an_older_revision_is_accepted_and_an_unknown_one_is_not() {
    for (revision, accepted) in
        [("2024-11-05", true), ("2025-03-26", true), ("2025-06-18", true), ("2031-01-01", false)]
    {
        let rest = legacy(echo);
        let server = Server::start(move |seen| {
            if seen.method() != "initialize" {
                return rest(seen);
            }
            let mut result = initialized();
            result["protocolVersion"] = revision.into();
            Reply::Json(seen.answer(result))
        })
        .await;
        let settings = vmcp_backend::BackendSettings { max_connection_retries: 0, ..settings() };
        let backend = Backend::start(spec("b", server.transport()), settings, None);
        assert_eq!(call(&backend, "echo").await.is_ok(), accepted, "{revision}");
        if accepted {
            assert_eq!(backend.status().revision.as_deref(), Some(revision));
        } else {
            assert!(backend.status().last_error.unwrap().contains("2031-01-01"));
        }
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_changes_its_era_is_followed() {
    let (old, new) = (legacy(echo), modern(echo));
    let upgraded = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&upgraded);
    let server = Server::start(move |seen| {
        let is_modern = seen.header("mcp-method").is_some();
        match (flag.load(Ordering::SeqCst), is_modern) {
            (true, true) => new(seen),
            (false, true) => Reply::Status(400, "no session id".to_owned()),
            (true, false) => Reply::Status(400, "no session: speak 2026-07-28".to_owned()),
            (false, false) => old(seen),
        }
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    for modern in [true, false, true] {
        upgraded.store(modern, Ordering::SeqCst);
        let era = if modern { Era::Modern } else { Era::Legacy };
        assert_eq!(call(&backend, "echo").await.unwrap().era, era);
    }
    backend.stop().await;
}
