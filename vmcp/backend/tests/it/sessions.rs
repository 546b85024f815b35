//! Upstream sessions: one for each client session at a server that keeps state.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use vmcp_backend::{
    Backend, BackendSettings, CallError, ClientFacts, Principal, Request, Response, SessionId,
};
use vmcp_wire::level::Level;

use crate::support::scripts::{echo, modern, stateful};
use crate::support::server::{Reply, SeenRequest, Server};
use crate::support::{Mailbox, SESSION, client, eventually, params_of, raw, result, settings, spec};

const CAPABILITIES: &str = r#"{"elicitation":{},"tasks":{"list":{}}}"#;

async fn call_as(
    backend: &Backend,
    session: Option<SessionId>,
    client: ClientFacts,
) -> Result<Response, CallError> {
    let params = params_of(r#"{"name":"echo"}"#);
    let request = Request { session, client, ..Request::new("tools/call", &params) };
    backend.request(request).await
}

/// The session in which each call came.
fn sessions_of_calls(server: &Server) -> Vec<String> {
    let calls = server.asked("tools/call");
    calls.iter().map(|seen| seen.header("mcp-session-id").unwrap_or("none").to_owned()).collect()
}

fn get_denied(seen: &SeenRequest) -> Reply {
    if seen.http == "POST" { echo(seen) } else { Reply::Status(405, String::new()) }
}

#[tokio::test]
async fn each_client_session_has_one_upstream_opened_as_that_client() {
    let server = Server::start(stateful(get_denied)).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    // Callers that come together share one opening.
    let together = (0..5).map(|_| call_as(&backend, Some(SESSION), client(CAPABILITIES)));
    for answer in futures::future::join_all(together).await {
        result(&answer.unwrap());
    }
    call_as(&backend, Some([8; 16]), client("{}")).await.unwrap();
    assert_eq!(sessions_of_calls(&server), ["s2", "s2", "s2", "s2", "s2", "s3"]);
    let opened = server.asked("initialize");
    assert_eq!(opened.len(), 3, "ours, and one for each");
    assert_eq!(opened[0].body["params"]["clientInfo"]["name"], "vmcp");
    let declared = &opened[0].body["params"]["capabilities"];
    assert_eq!(
        *declared,
        json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}})
    );
    let params = &opened[1].body["params"];
    assert_eq!(params["clientInfo"], json!({"name": "the-client", "version": "7"}));
    assert_eq!(params["capabilities"], json!({"elicitation": {}}), "tasks are not relayed");
    assert_eq!(server.asked("notifications/initialized").len(), 3);
    let before = server.seen().len();
    call_as(&backend, Some(SESSION), client(CAPABILITIES)).await.unwrap();
    let seen = server.seen().into_iter().skip(before).filter(|seen| seen.http == "POST").count();
    assert_eq!(seen, 1, "one call, one request");

    assert_eq!(backend.status().sessions, 2);
    backend.end_session(SESSION);
    let ended =
        |id: &str| server.seen().iter().any(|s| s.http == "DELETE" && s.header("mcp-session-id") == Some(id));
    eventually("the end of the session", || ended("s2").then_some(())).await;
    call_as(&backend, Some(SESSION), client(CAPABILITIES)).await.unwrap();
    assert_eq!(sessions_of_calls(&server).last().unwrap(), "s4");
    backend.stop().await;
    assert!(["s1", "s3", "s4"].into_iter().all(ended), "a backend that stops leaves no session behind");
}

#[tokio::test]
async fn clients_without_a_session_share_one_with_those_of_their_principal_that_are_alike() {
    let server = Server::start(stateful(get_denied)).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    for capabilities in
        ["{}", r#"{"elicitation":{}}"#, r#"{"elicitation":{"form":{}},"x":{}}"#, r#"{"sampling":{}}"#]
    {
        call_as(&backend, None, client(capabilities)).await.unwrap();
    }
    assert_eq!(sessions_of_calls(&server), ["s2", "s3", "s3", "s4"]);
    let opened = server.asked("initialize");
    assert_eq!(opened[2].body["params"]["clientInfo"]["name"], "the-client");
    assert_eq!(opened[2].body["params"]["capabilities"], json!({"elicitation": {"form": {}}}));
    // Another program, the same program elsewhere, and vmcp itself.
    let params = params_of(r#"{"name":"echo"}"#);
    let other = ClientFacts { info: Some(raw(r#"{"name":"other"}"#).into()), ..client("{}") };
    call_as(&backend, None, other).await.unwrap();
    for host in [1, 2, 1] {
        let principal = Principal::Address([10, 0, 0, host].into());
        let request = Request { principal, client: client("{}"), ..Request::new("tools/call", &params) };
        backend.request(request).await.unwrap();
    }
    call_as(&backend, None, ClientFacts::default()).await.unwrap();
    assert_eq!(sessions_of_calls(&server)[4..], ["s5", "s6", "s7", "s6", "s1"]);
    backend.stop().await;
}

#[tokio::test]
async fn a_modern_server_has_no_sessions() {
    let server = Server::start(modern(echo)).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    call_as(&backend, Some(SESSION), client(CAPABILITIES)).await.unwrap();
    assert_eq!(sessions_of_calls(&server), ["none"]);
    backend.stop().await;
}

#[tokio::test]
async fn a_lost_session_is_opened_again_and_the_call_repeated() {
    let server = Server::start(stateful(|seen| match seen.header("mcp-session-id") {
        Some("s2") => Reply::Status(404, String::new()),
        _ => get_denied(seen),
    }))
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    call_as(&backend, Some(SESSION), client("{}")).await.unwrap();
    assert_eq!(sessions_of_calls(&server), ["s2", "s3"]);
    assert_eq!(backend.status().restarts, 0, "the main connection stays");
    backend.stop().await;
}

#[tokio::test]
async fn a_restarted_server_gets_new_sessions_with_the_next_call() {
    let server = Server::start(stateful(get_denied)).await;
    let address = server.address().to_owned();
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    call_as(&backend, Some(SESSION), client("{}")).await.unwrap();
    server.stop().await;
    let rest = stateful(get_denied);
    let opened = Mutex::new(HashSet::from(["none".to_owned()]));
    let again = Server::at(&address, move |seen| {
        // The new process knows no old session; its ids begin where those of the old one ended.
        let id = seen.header("mcp-session-id").unwrap_or("none").to_owned();
        if !opened.lock().unwrap().contains(&id) {
            return Reply::Status(404, String::new());
        }
        match rest(seen) {
            Reply::Session(id, body) => {
                let id = format!("new-{id}");
                opened.lock().unwrap().insert(id.clone());
                Reply::Session(id, body)
            }
            other => other,
        }
    })
    .await;
    call_as(&backend, Some(SESSION), client("{}")).await.unwrap();
    assert!(sessions_of_calls(&again).last().unwrap().starts_with("new-"), "{:?}", sessions_of_calls(&again));
    backend.stop().await;
}

#[tokio::test]
async fn sessions_end_when_idle_and_the_oldest_when_there_are_too_many() {
    let server = Server::start(stateful(get_denied)).await;
    let few = BackendSettings { max_sessions: 2, session_idle: Duration::from_millis(200), ..settings() };
    let backend = Backend::start(spec("b", server.transport()), few, None);
    backend.listen_session([2; 16], true);
    for session in [1, 2, 3] {
        call_as(&backend, Some([session; 16]), client("{}")).await.unwrap();
    }
    let ended = || {
        let all = server.seen().into_iter().filter(|seen| seen.http == "DELETE");
        all.map(|seen| seen.header("mcp-session-id").unwrap().to_owned()).collect::<Vec<_>>()
    };
    eventually("the end of the idle one", || (ended() == ["s2", "s4"]).then_some(())).await;
    // The session of the client that listens outlives a session that is used later and then left idle.
    call_as(&backend, Some([4; 16]), client("{}")).await.unwrap();
    eventually("the end of the next idle one", || (ended() == ["s2", "s4", "s5"]).then_some(())).await;
    backend.listen_session([2; 16], false);
    eventually("the end of the other", || (ended() == ["s2", "s4", "s5", "s3"]).then_some(())).await;
    backend.stop().await;
}

/// A GET stream that says what it is.
fn streaming(seen: &SeenRequest) -> Reply {
    if seen.http != "GET" {
        return get_denied(seen);
    }
    let message = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
    let text = format!("id: e1\nretry: 1\ndata: {message}\n\n");
    match (seen.header("mcp-session-id"), seen.header("last-event-id")) {
        (Some("s2"), None) => Reply::Pieces(vec![text]),
        (Some("s2"), Some("e1")) => Reply::Hang,
        _ => Reply::Status(405, String::new()),
    }
}

#[tokio::test]
async fn a_session_is_listened_to_while_its_client_listens() {
    let server = Server::start(stateful(streaming)).await;
    let mailbox = Mailbox::default();
    let settings = BackendSettings { downstream: Arc::new(mailbox.clone()), ..settings() };
    let backend = Backend::start(spec("b", server.transport()), settings, None);
    call_as(&backend, Some(SESSION), client("{}")).await.unwrap();
    let streams = || {
        let gets = server.seen().into_iter().filter(|seen| seen.http == "GET");
        gets.filter(|seen| seen.header("mcp-session-id") == Some("s2")).collect::<Vec<_>>()
    };
    assert_eq!(streams().len(), 0, "nobody could take what comes");
    backend.listen_session(SESSION, true);
    let message = eventually("the message", || mailbox.all().pop()).await;
    assert_eq!(message.0, Some(SESSION));
    assert!(message.1.contains("notifications/message"), "{}", message.1);
    // The server closed the stream: it is continued where it ended.
    eventually("the second stream", || (streams().len() == 2).then_some(())).await;
    assert_eq!(streams()[1].header("last-event-id"), Some("e1"));
    assert_eq!(mailbox.all().len(), 1);
    backend.listen_session(SESSION, false);
    eventually("the end of the stream", || (server.streams_closed_by_client() >= 1).then_some(())).await;
    // A client that can be asked is always listened to.
    call_as(&backend, Some([9; 16]), client(r#"{"roots":{}}"#)).await.unwrap();
    let asked =
        || server.seen().into_iter().find(|s| s.http == "GET" && s.header("mcp-session-id") == Some("s3"));
    eventually("a stream", asked).await;
    backend.stop().await;
}

#[tokio::test]
async fn a_stream_that_nobody_needs_is_closed_until_the_next_call() {
    let server =
        Server::start(stateful(|seen| if seen.http == "GET" { Reply::Hang } else { get_denied(seen) })).await;
    // A stream is closed after a thirtieth of it.
    let settings = BackendSettings { session_idle: Duration::from_secs(6), ..settings() };
    let backend = Backend::start(spec("b", server.transport()), settings, None);
    let streams = || {
        let gets = server.seen().into_iter().filter(|seen| seen.http == "GET");
        gets.filter(|seen| seen.header("mcp-session-id") == Some("s2")).count()
    };
    call_as(&backend, Some(SESSION), client(CAPABILITIES)).await.unwrap();
    eventually("the first stream", || (streams() == 1).then_some(())).await;
    eventually("its end", || (server.streams_closed_by_client() == 1).then_some(())).await;
    assert_eq!(streams(), 1);
    call_as(&backend, Some(SESSION), client(CAPABILITIES)).await.unwrap();
    eventually("the next stream", || (streams() == 2).then_some(())).await;
    assert_eq!(server.asked("initialize").len(), 2, "the session stays");
    backend.stop().await;
}

#[tokio::test]
async fn log_levels_are_set_for_each_session_and_once_on_a_shared_connection() {
    let server = Server::start(stateful(get_denied)).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let at = |level: &str| ClientFacts { log_level: Some(level.into()), ..client("{}") };
    call_as(&backend, Some(SESSION), at("error")).await.unwrap();
    call_as(&backend, Some(SESSION), at("error")).await.unwrap();
    backend.set_log_level(SESSION, Level::Alert);
    let levels = || {
        let all = server.asked("logging/setLevel").into_iter();
        let all = all.map(|seen| {
            let level = seen.body["params"]["level"].as_str().unwrap().to_owned();
            (seen.header("mcp-session-id").unwrap().to_owned(), level)
        });
        all.collect::<Vec<_>>()
    };
    let pair = |session: &str, level: &str| (session.to_owned(), level.to_owned());
    eventually("the second level", || (levels().len() == 2).then_some(())).await;
    assert_eq!(levels(), [pair("s2", "error"), pair("s2", "alert")]);
    // Clients without a session share the connection, and the most verbose level.
    for level in ["warning", "critical", "debug", "info"] {
        call_as(&backend, None, at(level)).await.unwrap();
    }
    assert_eq!(levels()[2..], [pair("s3", "warning"), pair("s3", "debug")]);
    backend.stop().await;
}

#[tokio::test]
async fn a_session_sends_the_cookies_of_its_balancer_and_no_others() {
    let opened = AtomicU32::new(0);
    let server = Server::start(move |seen| {
        let id = seen.header("mcp-session-id").unwrap_or_default();
        let cookie = seen.header("cookie").unwrap_or_default();
        // Each replica knows its own session alone.
        if !id.is_empty() && cookie != format!("AWSALB=r{id}") {
            return Reply::Status(404, String::new());
        }
        match seen.method() {
            "server/discover" => Reply::Status(400, "no session".to_owned()),
            "initialize" => {
                let headers: [&[_]; 3] = [
                    &[("mcp-session-id", "1"), ("set-cookie", "AWSALB=r1; Path=/")],
                    &[("mcp-session-id", "2"), ("set-cookie", "AWSALB=r2; Path=/")],
                    &[("mcp-session-id", "3"), ("set-cookie", "AWSALB=r3; Path=/")],
                ];
                let headers = headers[opened.fetch_add(1, Ordering::SeqCst) as usize];
                Reply::With(headers, seen.answer(crate::support::scripts::initialized()))
            }
            "tools/list" => Reply::Json(seen.answer(r#"{"tools":[{"name":"echo","inputSchema":{}}]}"#)),
            "tools/call" => echo(seen),
            "" if seen.http == "GET" => Reply::Status(405, String::new()),
            _ => Reply::Status(202, String::new()),
        }
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    for _ in 0..3 {
        for session in [SESSION, [8; 16]] {
            result(&call_as(&backend, Some(session), client("{}")).await.unwrap());
        }
    }
    assert_eq!(sessions_of_calls(&server), ["2", "3", "2", "3", "2", "3"], "no session was lost");
    backend.end_session(SESSION);
    let ended = || server.seen().into_iter().find(|seen| seen.http == "DELETE");
    assert_eq!(eventually("the end", ended).await.header("cookie"), Some("AWSALB=r2"));
    backend.stop().await;
}

#[tokio::test]
async fn clients_that_share_a_connection_without_a_session_have_no_cookies() {
    let rest = modern(|seen| Reply::With(&[("set-cookie", "user=ann")], seen.answer(r#"{"content":[]}"#)));
    let server = Server::start(move |seen| match rest(seen) {
        Reply::Json(body) => Reply::With(&[("set-cookie", "vmcp=1")], body),
        other => other,
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    for session in [SESSION, [8; 16]] {
        call_as(&backend, Some(session), client("{}")).await.unwrap();
    }
    let with_cookies = server.asked("tools/call").into_iter().filter(|seen| seen.header("cookie").is_some());
    assert_eq!(with_cookies.count(), 0);
    backend.stop().await;
}

#[tokio::test]
async fn a_server_that_refuses_every_call_alike_is_quoted() {
    type Refuse = fn(&SeenRequest) -> Reply;
    let refusals: [Refuse; 2] = [
        |_| Reply::Status(400, "the tenant is suspended".to_owned()),
        |seen| {
            let id = seen.body["id"].clone();
            let error = serde_json::json!({"code": -32000, "message": "the tenant is suspended"});
            Reply::Json(serde_json::json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string())
        },
    ];
    for refuse in refusals {
        let answers = stateful(|_| Reply::Status(405, String::new()));
        let server = Server::start(move |seen| match seen.method() {
            "tools/call" | "ping" => refuse(seen),
            _ => answers(seen),
        })
        .await;
        let backend = Backend::start(spec("b", server.transport()), settings(), None);
        for _ in 0..2 {
            let said = match call_as(&backend, Some(SESSION), client("{}")).await {
                Ok(response) => format!("{:?}", response.outcome),
                Err(error) => format!("{error:?}"),
            };
            assert!(said.contains("the tenant is suspended"), "{said}");
        }
        backend.stop().await;
    }
}
