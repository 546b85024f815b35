//! Requests that a server, or a proxy before it, dislikes: the caller gets the refusal, no other suffers.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vmcp_backend::{Backend, BackendSettings, CallError, Request, RpcOutcome, Transmission};
use vmcp_config::status::BreakerPosition;

use crate::support::scripts::{echo, legacy, modern, stateful};
use crate::support::server::{Reply, SeenRequest, Server, event};
use crate::support::{SESSION, call, json, params_of, result, settings, spec};

/// Refuses calls of the tool `bad` and answers all others.
fn refuse_bad(seen: &SeenRequest, refusal: fn(&SeenRequest) -> Reply) -> Reply {
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
    type Refusal = fn(&SeenRequest) -> Reply;
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
    let bodies: [fn(&SeenRequest) -> String; 2] = [
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
    type Answer = fn(&SeenRequest) -> Reply;
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

fn answer_posts(seen: &SeenRequest) -> Reply {
    if seen.http == "POST" { echo(seen) } else { Reply::Status(405, String::new()) }
}

/// Returns the answer of a server that does not know the session, as real servers write it.
fn unknown_session(form: usize, seen: &SeenRequest) -> Reply {
    let error = |code: i64, message: &str, named: bool| {
        let id = if named { seen.body["id"].clone() } else { serde_json::Value::Null };
        serde_json::json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
            .to_string()
    };
    let status = |status, text: &str| Reply::Status(status, text.to_owned());
    match form {
        0 => Reply::Status(404, error(-32001, "Session not found", false)),
        1 => status(404, "<h1>Not Found</h1>"),
        2 => Reply::Status(400, error(-32000, "Bad Request: Server not initialized", false)),
        3 => Reply::Status(400, error(-32000, "Bad Request: Mcp-Session-Id header is required", false)),
        4 => status(400, "Invalid session ID"),
        5 => Reply::Status(400, error(-32600, "Bad Request: unknown session", true)),
        6 => status(401, "Unauthorized: Session not found"),
        7 => Reply::Status(409, error(-32600, "session is not active", true)),
        8 => status(410, "session expired"),
        9 => status(410, ""),
        10 => status(422, "Unexpected message, expect initialize request"),
        11 => status(500, "Internal error: session not found"),
        12 => Reply::Json(error(-32002, "Server not initialized", true)),
        13 => Reply::Json(error(-32000, "Session not found or expired", true)),
        14 => Reply::Json(error(-32005, "Unknown client", true)),
        15 => Reply::Json(error(-32600, "Received request before initialization was complete", true)),
        16 => Reply::Json(error(-32602, "Invalid request parameters: not initialized", true)),
        17 => Reply::Status(400, error(-32000, "Bad Request", true)),
        18 => Reply::Pieces(vec![event(&error(-32001, "Session expired", true))]),
        19 => status(403, "unknown session"),
        other => panic!("there is no form {other}"),
    }
}

/// A server that knows the sessions since its last restart, counts executed calls, and answers others as
/// `form` says.
fn restartable(
    form: usize,
    executed: &Arc<AtomicU32>,
) -> (Arc<Mutex<HashSet<String>>>, impl Fn(&SeenRequest) -> Reply + Send + Sync + 'static) {
    let (known, executed) = (Arc::new(Mutex::new(HashSet::new())), Arc::clone(executed));
    let sessions = Arc::clone(&known);
    let rest = stateful(move |seen| {
        executed.fetch_add(u32::from(seen.method() == "tools/call"), Ordering::SeqCst);
        answer_posts(seen)
    });
    let answer = move |seen: &SeenRequest| {
        if let Some(id) = seen.header("mcp-session-id")
            && seen.http == "POST"
            && !seen.body["id"].is_null()
            && !known.lock().unwrap().contains(id)
        {
            return unknown_session(form, seen);
        }
        let reply = rest(seen);
        if let Reply::Session(id, _) = &reply {
            known.lock().unwrap().insert(id.clone());
        }
        reply
    };
    (sessions, answer)
}

#[tokio::test]
async fn a_lost_session_is_opened_again_whatever_the_server_answers() {
    for form in 0..20 {
        let executed = Arc::new(AtomicU32::new(0));
        let (known, answer) = restartable(form, &executed);
        let server = Server::start(answer).await;
        let backend = Backend::start(spec("b", server.transport()), settings(), None);
        let params = params_of(r#"{"name":"echo"}"#);
        let ask = async || {
            let request = Request { session: Some(SESSION), ..Request::new("tools/call", &params) };
            backend.request(request).await
        };
        ask().await.unwrap();
        for round in 1..=2 {
            known.lock().unwrap().clear();
            let answer = ask().await.unwrap_or_else(|error| panic!("form {form}: {error}"));
            assert_eq!(result(&answer), r#"{"content":[]}"#, "form {form}");
            assert_eq!(executed.load(Ordering::SeqCst), round + 1, "form {form}: each call once");
            // The connection that lists.
            call(&backend, "echo").await.unwrap_or_else(|error| panic!("form {form}: {error}"));
            executed.fetch_sub(1, Ordering::SeqCst);
            known.lock().unwrap().clear();
            let listed = backend.relist().await;
            let listed = if listed.is_err() { backend.relist().await } else { listed };
            assert_eq!(listed, Ok(()), "form {form}");
            ask().await.unwrap();
            executed.fetch_sub(1, Ordering::SeqCst);
        }
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_call_that_may_have_run_is_not_repeated_when_its_session_is_lost() {
    let lost = Arc::new(AtomicBool::new(false));
    let executed = Arc::new(AtomicU32::new(0));
    let (flag, count) = (Arc::clone(&lost), Arc::clone(&executed));
    let rest = stateful(answer_posts);
    let server = Server::start(move |seen| {
        let is_old = seen.header("mcp-session-id") == Some("s2");
        match seen.method() {
            "tools/call" => {
                count.fetch_add(1, Ordering::SeqCst);
                if is_old && seen.body["params"]["name"] == "crash" {
                    // The tool ran, and took the session with it.
                    flag.store(true, Ordering::SeqCst);
                    return Reply::Status(500, "the session crashed".to_owned());
                }
                echo(seen)
            }
            "ping" if is_old && flag.load(Ordering::SeqCst) => Reply::Status(404, String::new()),
            _ => rest(seen),
        }
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let ask = async |name: &str, idempotent| {
        let params = params_of(&format!(r#"{{"name":"{name}"}}"#));
        let request = Request { session: Some(SESSION), idempotent, ..Request::new("tools/call", &params) };
        backend.request(request).await
    };
    ask("echo", false).await.unwrap();
    let error = ask("crash", false).await.unwrap_err();
    assert!(error.to_string().contains("500"), "{error}");
    assert_eq!(executed.load(Ordering::SeqCst), 2, "not again");
    ask("echo", false).await.unwrap();
    assert_eq!(server.asked("tools/call").last().unwrap().header("mcp-session-id"), Some("s3"));
    backend.stop().await;
}

#[tokio::test]
async fn failures_in_a_row_on_a_session_open_another_if_that_one_works() {
    for (fresh_works, sessions) in [(true, ["s2", "s2", "s4"]), (false, ["s2", "s2", "s2"])] {
        let broken = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&broken);
        let rest = stateful(answer_posts);
        let server = Server::start(move |seen| {
            let is_old = matches!(seen.header("mcp-session-id"), None | Some("s2"));
            let fails = matches!(seen.method(), "tools/call" | "ping") && is_old
                || seen.method() == "initialize" && !fresh_works;
            if flag.load(Ordering::SeqCst) && fails {
                Reply::Status(500, "oops".to_owned())
            } else {
                rest(seen)
            }
        })
        .await;
        let backend = Backend::start(spec("b", server.transport()), settings(), None);
        let params = params_of(r#"{"name":"echo"}"#);
        let ask = async || {
            let request = Request { session: Some(SESSION), ..Request::new("tools/call", &params) };
            backend.request(request).await
        };
        ask().await.unwrap();
        broken.store(true, Ordering::SeqCst);
        let before = server.asked("tools/call").len();
        for _ in 0..2 {
            ask().await.unwrap_err();
        }
        assert_eq!(ask().await.is_ok(), fresh_works);
        let called = server.asked("tools/call").into_iter().skip(before);
        let called: Vec<_> = called.map(|seen| seen.header("mcp-session-id").unwrap().to_owned()).collect();
        assert_eq!(called, sessions);
        backend.stop().await;
    }
}

#[tokio::test]
async fn errors_about_the_request_leave_the_session() {
    let rest = stateful(|seen| match seen.method() {
        "tools/call" => match seen.body["params"]["name"].as_str().unwrap() {
            "conflict" => Reply::Status(409, "no session of that name in the calendar".to_owned()),
            "refused" => Reply::Status(401, "this session needs another role".to_owned()),
            "error" => Reply::Json(seen.error(-32002)),
            "broken" => Reply::Status(500, "the session table is locked".to_owned()),
            _ => echo(seen),
        },
        _ => answer_posts(seen),
    });
    let server = Server::start(rest).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    for name in ["echo", "conflict", "conflict", "refused", "error", "error", "broken", "broken", "echo"] {
        let params = params_of(&format!(r#"{{"name":"{name}"}}"#));
        let request = Request { session: Some(SESSION), ..Request::new("tools/call", &params) };
        let answer = backend.request(request).await;
        let is_refused =
            !matches!(&answer, Ok(response) if matches!(response.outcome, RpcOutcome::Result(_)));
        assert_eq!(is_refused, name != "echo", "{name}: {answer:?}");
    }
    let sessions: HashSet<_> = server
        .asked("tools/call")
        .iter()
        .map(|seen| seen.header("mcp-session-id").unwrap().to_owned())
        .collect();
    assert_eq!(sessions, HashSet::from(["s2".to_owned()]));
    assert_eq!(server.asked("tools/call").len(), 9, "each once");
    backend.stop().await;
}
