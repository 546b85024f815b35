//! The events port: hooks, changed tools and states of backends over a websocket, and who may see them.

use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use vmcp_integration::{Fixture, Vmcp, free_port, http_client};

const ADMIN: &str = "an admin token of this test";
const SCRAPER: &str = "a metrics token of this test";

/// Opens the websocket with `headers`; an error is the status of the refusal.
async fn watch(
    port: u16,
    query: &str,
    headers: &[(&'static str, String)],
) -> Result<WebSocketStream<TcpStream>, u16> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the events port");
    let mut request =
        format!("ws://127.0.0.1:{port}/ws/events{query}").into_client_request().expect("a request");
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().expect("a header"));
    }
    match tokio_tungstenite::client_async(request, stream).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(refused)) => Err(refused.status().as_u16()),
        Err(other) => panic!("{other}"),
    }
}

/// Returns the next event.
async fn next(socket: &mut WebSocketStream<TcpStream>) -> Value {
    loop {
        let message =
            timeout(Duration::from_mins(1), socket.next()).await.expect("an event").expect("an open stream");
        if let Message::Text(text) = message.expect("a message") {
            return serde_json::from_str(&text).expect("JSON");
        }
    }
}

/// Returns the next event of a type; others may come before it.
async fn next_of(socket: &mut WebSocketStream<TcpStream>, wanted: &str) -> Value {
    loop {
        let event = next(socket).await;
        if event["type"] == wanted {
            return event;
        }
    }
}

async fn start_hook(vmcp: &Vmcp) {
    let body =
        json!({"hook_type": "SessionStart", "source": "Claude", "params": {"session_id": "s", "cwd": "/me"}});
    let url = vmcp.url.replace("/mcp", "/hooks/execute");
    assert_eq!(http_client().post(url).json(&body).send().await.expect("an answer").status(), 200);
}

fn settings(port: u16, server: Value) -> Value {
    let mut server = server;
    server["eventsListen"] = json!(format!("127.0.0.1:{port}"));
    json!({"server": server, "optimizer": {"sessionHooks": {"enabled": true}}})
}

#[tokio::test]
async fn a_viewer_sees_hooks_changed_tools_and_states_of_backends() {
    let port = free_port();
    let jira = Fixture::http("jira", "jira").start().await;
    let mut vmcp = Vmcp::new().config(settings(port, json!({}))).backend(&jira).start().await;
    vmcp.with_tool("jira_create_note").await;
    let mut all = watch(port, "", &[]).await.expect("loopback, without tokens");
    assert_eq!(next(&mut all).await, json!({"type": "subscribed", "areas": ["hooks", "tools", "backends"]}));
    let mut hooks = watch(port, "?areas=hooks", &[]).await.expect("a viewer");
    assert_eq!(next(&mut hooks).await["areas"], json!(["hooks"]));

    jira.control(json!({"do": "describe", "tool": "create_note", "description": "Erase everything"})).await;
    let changed = next_of(&mut all, "tool-changed").await;
    assert_eq!((&changed["server"], &changed["tool"]), (&json!("jira"), &json!("create_note")));
    assert_eq!(changed["change"], "updated");
    assert_ne!(changed["before"], changed["after"], "{changed}");

    start_hook(&vmcp).await;
    for viewer in [&mut all, &mut hooks] {
        let started = next_of(viewer, "session-start").await;
        assert_eq!((&started["source"], &started["status"]), (&json!("claude"), &json!("active")));
        assert!(!started.to_string().contains("/me"), "no folder: {started}");
    }

    // Viewers stay at a reload that leaves their tokens.
    let closed = format!("http://127.0.0.1:{}/mcp", free_port());
    vmcp.reconfigure(json!({"backends": [jira.backend, {"name": "more", "url": closed}]}));
    for state in ["connecting", "failed"] {
        let event = next_of(&mut all, "backend-state").await;
        assert_eq!((&event["server"], &event["state"]), (&json!("more"), &json!(state)));
    }
    assert_eq!(vmcp.metric("vmcp_event_viewers").await, 2);
}

#[tokio::test]
async fn pages_and_strangers_are_refused_and_a_scraper_sees_states_alone() {
    let port = free_port();
    let open = Vmcp::new().config(settings(port, json!({}))).start().await;
    let page = [("origin", "https://evil.example".to_owned())];
    assert_eq!(watch(port, "", &page).await.err(), Some(403), "a page of another origin");
    let rebound = [("host", "evil.example".to_owned())];
    assert_eq!(watch(port, "", &rebound).await.err(), Some(403), "DNS rebinding");
    assert_eq!(watch(port, "?areas=x", &[]).await.err(), Some(400));
    let plain =
        http_client().get(format!("http://127.0.0.1:{port}/ws/events")).send().await.expect("an answer");
    assert_eq!(plain.status(), 426);
    drop(open);

    let port = free_port();
    let tokens = json!({"adminTokens": [ADMIN], "metricsTokens": [SCRAPER]});
    let vmcp = Vmcp::new().config(settings(port, tokens)).start().await;
    let bearer = |token: &str| [("authorization", format!("Bearer {token}"))];
    assert_eq!(watch(port, "", &[]).await.err(), Some(401));
    assert_eq!(watch(port, "", &bearer("a wrong token of this test")).await.err(), Some(401));
    let mut operator = watch(port, "", &bearer(ADMIN)).await.expect("an operator");
    assert_eq!(next(&mut operator).await["areas"].as_array().map(Vec::len), Some(3));
    let mut scraper = watch(port, "", &bearer(SCRAPER)).await.expect("a scraper");
    assert_eq!(next(&mut scraper).await["areas"], json!(["backends"]));
    start_hook(&vmcp).await;
    next_of(&mut operator, "session-start").await;
}

#[tokio::test]
async fn a_viewer_whose_token_is_withdrawn_is_sent_away() {
    let port = free_port();
    let tokens = json!({"adminTokens": [ADMIN], "metricsTokens": [SCRAPER]});
    let mut vmcp = Vmcp::new().config(settings(port, tokens)).start().await;
    let mut scraper =
        watch(port, "", &[("authorization", format!("Bearer {SCRAPER}"))]).await.expect("a scraper");
    next(&mut scraper).await;
    vmcp.reconfigure(json!({"server": {"metricsTokens": []}}));
    let last = timeout(Duration::from_mins(1), scraper.next()).await.expect("an end").expect("a frame");
    let Ok(Message::Close(Some(frame))) = last else { panic!("{last:?}") };
    assert_eq!(&*frame.reason, "the token is no longer configured");
}
