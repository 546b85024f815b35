//! Requests that a server, or a proxy before it, dislikes: the caller gets the refusal, no other suffers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use vmcp_backend::{Backend, BackendSettings, CallError, Request, RpcOutcome, Transmission};
use vmcp_config::status::BreakerPosition;

use crate::support::scripts::{echo, legacy, modern};
use crate::support::server::{Reply, Seen, Server};
use crate::support::{SESSION, call, json, params_of, result, settings, spec};

/// Refuses calls of the tool `bad` and answers all others.
fn refuse_bad(seen: &Seen, refusal: fn(&Seen) -> Reply) -> Reply {
    if seen.body["params"]["name"] == "bad" { refusal(seen) } else { echo(seen) }
}

/// Makes six bad calls and a good one: the bad ones fail, each sent once; nothing shared is torn down.
async fn only_the_caller_suffers(server: &Server, what: &str) {
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    call(&backend, "echo").await.unwrap();
    let before = server.asked("tools/call").len();
    for _ in 0..6 {
        let error = call(&backend, "bad").await.unwrap_err();
        assert_ne!(error.transmission(), Transmission::Unknown, "{what}: {error}");
    }
    assert_eq!(server.asked("tools/call").len() - before, 6, "{what}: no call is sent twice");
    let status = backend.status();
    assert_eq!((status.restarts, status.breaker), (0, BreakerPosition::Closed), "{what}");
    assert_eq!(result(&call(&backend, "echo").await.unwrap()), r#"{"content":[]}"#, "{what}");
    backend.stop().await;
}

#[tokio::test]
async fn a_refusal_by_plain_http_ends_no_connection_and_opens_no_circuit() {
    type Refusal = fn(&Seen) -> Reply;
    let refusals: [(&str, Refusal); 6] = [
        ("400 of a proxy", |_| Reply::Status(400, "<html>400 Bad Request</html>".to_owned())),
        ("400 of a framework", |_| Reply::Status(400, r#"{"detail":"no session for you"}"#.to_owned())),
        ("401", |_| Reply::Status(401, String::new())),
        ("404", |_| Reply::Status(404, String::new())),
        ("431", |_| Reply::Status(431, String::new())),
        ("no JSON", |_| Reply::Json("<html>".to_owned())),
    ];
    for (what, refusal) in refusals {
        let server = Server::start(modern(move |seen| refuse_bad(seen, refusal))).await;
        only_the_caller_suffers(&server, &format!("modern, {what}")).await;
        let server = Server::start(legacy(move |seen| refuse_bad(seen, refusal))).await;
        only_the_caller_suffers(&server, &format!("legacy, {what}")).await;
    }
}

#[tokio::test]
async fn a_404_that_names_the_request_is_its_answer() {
    let server = Server::start(legacy(|seen| Reply::Status(404, seen.error(-32002)))).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let params = params_of(r#"{"uri":"file:///gone"}"#);
    let request = Request { session: Some(SESSION), ..Request::new("resources/read", &params) };
    let response = backend.request(request).await.unwrap();
    let RpcOutcome::Error(error) = response.outcome else { panic!("an error") };
    assert_eq!(json(error.get())["code"], -32002);
    assert_eq!(server.asked("resources/read").len(), 1);
    assert_eq!(server.asked("initialize").len(), 2, "the client's session stays");
    backend.stop().await;
}

#[tokio::test]
async fn a_session_is_lost_whatever_id_the_404_names_if_a_ping_agrees() {
    let bodies: [fn(&Seen) -> String; 2] = [
        |seen| seen.error(-32001).replace("\"no\"", "\"Session not found\""),
        |_| r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"gone"}}"#.to_owned(),
    ];
    for body in bodies {
        // The first session is unknown to the server from its first request on.
        let is_lost = AtomicBool::new(false);
        let opened = AtomicU32::new(0);
        let rest = legacy(echo);
        let server = Server::start(move |seen| {
            match seen.method() {
                "initialize" => is_lost.store(opened.fetch_add(1, Ordering::SeqCst) == 0, Ordering::SeqCst),
                "tools/call" | "ping" if is_lost.load(Ordering::SeqCst) => {
                    return Reply::Status(404, body(seen));
                }
                _ => {}
            }
            rest(seen)
        })
        .await;
        let backend = Backend::start(spec("b", server.transport()), settings(), None);
        assert_eq!(result(&call(&backend, "echo").await.unwrap()), r#"{"content":[]}"#);
        assert_eq!(server.asked("initialize").len(), 2);
        backend.stop().await;
    }
}

#[tokio::test]
async fn sessions_that_a_server_forgets_cost_no_pause() {
    let forgotten = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&forgotten);
    let executed = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&executed);
    let rest = legacy(move |seen| {
        count.fetch_add(u32::from(seen.method() == "tools/call"), Ordering::SeqCst);
        echo(seen)
    });
    let server = Server::start(move |seen| {
        if matches!(seen.method(), "initialize" | "server/discover") {
            flag.store(false, Ordering::SeqCst);
        }
        let is_lost = flag.load(Ordering::SeqCst) && seen.http == "POST";
        if is_lost { Reply::Status(404, String::new()) } else { rest(seen) }
    })
    .await;
    let pause = Duration::from_mins(2);
    let backend = Backend::start(
        spec("b", server.transport()),
        BackendSettings { first_pause: pause, ..settings() },
        None,
    );
    let started = Instant::now();
    for _ in 0..4 {
        call(&backend, "echo").await.unwrap();
        forgotten.store(true, Ordering::SeqCst);
    }
    assert!(started.elapsed() < pause, "callers wait out no pause");
    assert_eq!(executed.load(Ordering::SeqCst), 4, "each call once");
    backend.stop().await;
}

#[tokio::test]
async fn an_error_says_how_far_its_call_got() {
    type Answer = fn(&Seen) -> Reply;
    let answers: [(Answer, &str, Transmission); 4] = [
        (|_| Reply::Status(503, String::new()), "unavailable", Transmission::Sent),
        (|_| Reply::Status(403, String::new()), "unavailable", Transmission::NotSent),
        (|_| Reply::Broken(b": started\n\n".to_vec()), "unavailable", Transmission::Unknown),
        (|_| Reply::Hang, "timeout", Transmission::Unknown),
    ];
    let params = params_of(r#"{"name":"echo"}"#);
    let deadline = Duration::from_millis(400);
    for (answer, category, transmission) in answers {
        let server = Server::start(modern(answer)).await;
        let backend = Backend::start(spec("b", server.transport()), settings(), None);
        // Connected before: the deadline is that of the call alone.
        crate::support::wait_for_definitions(&backend, |_| true).await;
        let error =
            backend.request(Request { deadline, ..Request::new("tools/call", &params) }).await.unwrap_err();
        assert_eq!((error.category(), error.transmission()), (category, transmission), "{error}");
        backend.stop().await;
    }
    // A server that is never reached.
    let server = Server::start(|_| Reply::Hang).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let error =
        backend.request(Request { deadline, ..Request::new("tools/call", &params) }).await.unwrap_err();
    assert_eq!(error, CallError::timeout(deadline, Transmission::NotSent));
    backend.stop().await;
}
