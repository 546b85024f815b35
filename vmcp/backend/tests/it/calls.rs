//! Calls: sessions that are lost, streams, progress, deadlines, cancellation, and malformed answers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use vmcp_backend::{
    Backend, BackendSettings, CallError, ClientFacts, Event, Request, RpcOutcome, Transmission, event_queue,
};

use crate::support::scripts::{echo, legacy, modern};
use crate::support::server::{Reply, SeenRequest, Server, event};
use crate::support::{PATIENCE, cached, call, eventually, json, params_of, result, settings, spec};

const PARAMS: &str = r#"{"name":"echo","_meta":{"progressToken":"mine"}}"#;

#[tokio::test]
async fn a_lost_session_is_replaced_and_the_call_executed_once() {
    let sessions = Arc::new(AtomicU32::new(0));
    let executed = Arc::new(AtomicU32::new(0));
    let (count, runs) = (Arc::clone(&sessions), Arc::clone(&executed));
    let rest = legacy(move |seen| {
        runs.fetch_add(1, Ordering::SeqCst);
        echo(seen)
    });
    let server = Server::start(move |seen| {
        if seen.method() == "initialize" {
            count.fetch_add(1, Ordering::SeqCst);
        }
        match (seen.method(), count.load(Ordering::SeqCst)) {
            // The first session dies before its first call.
            ("tools/call" | "ping", 1) => Reply::Status(
                404,
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#
                    .to_owned(),
            ),
            _ => rest(seen),
        }
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    call(&backend, "echo").await.unwrap();
    assert_eq!((sessions.load(Ordering::SeqCst), executed.load(Ordering::SeqCst)), (2, 1));
    backend.stop().await;
}

/// Three times progress and one log message, then the answer.
fn noisy(seen: &SeenRequest) -> String {
    let token = seen.progress_token();
    let mut text =
        event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"é"}}"#);
    for progress in 1..=3 {
        text.push_str(": comment\r\n\r\n");
        text.push_str(&event(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{progress},"x":1e400}}}}"#
        )));
    }
    text + &event(&seen.answer(r#"{"content":[{"type":"text","text":"é"}]}"#))
}

/// `text` cut every few bytes, also within characters' escapes and line ends.
fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(7).map(|piece| piece.iter().collect()).collect()
}

#[tokio::test]
async fn a_stream_in_odd_pieces_brings_all_notifications_in_order_with_the_callers_token() {
    let legacy = Server::start(legacy(|seen| Reply::Pieces(pieces(&noisy(seen))))).await;
    let modern = Server::start(modern(|seen| Reply::Pieces(vec![noisy(seen)]))).await;
    for server in [legacy, modern] {
        let backend = Backend::start(spec("b", server.transport()), settings(), None);
        let (sender, mut notifications) = event_queue(1);
        let params = params_of(PARAMS);
        let client = ClientFacts { log_level: Some("info".into()), ..ClientFacts::default() };
        let request = Request { events: Some(sender), client, ..Request::new("tools/call", &params) };
        let reader = tokio::spawn(async move {
            let mut all = Vec::new();
            while let Some(notification) = notifications.recv().await {
                let Event::Notification(notification) = notification else { panic!("a question") };
                all.push(notification.get().to_owned());
            }
            all
        });
        let response = backend.request(request).await.unwrap();
        assert_eq!(json(result(&response))["content"][0]["text"], "é");
        let mut expected = vec![
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"é"}}"#
                .to_owned(),
        ];
        expected.extend((1..=3).map(|progress| {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"mine","progress":{progress},"x":1e400}}}}"#)
        }));
        assert_eq!(reader.await.unwrap(), expected);
        backend.stop().await;
    }
}

#[tokio::test]
async fn equal_progress_tokens_of_two_callers_never_meet() {
    let server = Server::start(legacy(echo)).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let params = params_of(PARAMS);
    for _ in 0..2 {
        backend.request(Request::new("tools/call", &params)).await.unwrap();
    }
    let seen = server.asked("tools/call");
    assert_ne!(seen[0].progress_token(), seen[1].progress_token());
    backend.stop().await;
}

#[tokio::test]
async fn a_stream_that_never_pauses_does_not_outlast_the_deadline() {
    let notification = event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#);
    let server = Server::start(modern(move |_| Reply::Flood(notification.repeat(1_000)))).await;
    let deadline = Duration::from_millis(300);
    let settings = BackendSettings { max_call: deadline, ..settings() };
    let backend = Arc::new(Backend::start(spec("b", server.transport()), settings, None));
    // A task of its own: the time of this one must not depend on the budget of the call's.
    let call = tokio::spawn({
        let backend = Arc::clone(&backend);
        async move {
            let params = params_of(PARAMS);
            backend.request(Request { deadline, ..Request::new("tools/call", &params) }).await
        }
    });
    let answer = tokio::time::timeout(PATIENCE, call).await.expect("an end in time").unwrap();
    assert_eq!(answer.unwrap_err(), CallError::timeout(deadline, Transmission::Unknown));
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_cancelled_at_a_legacy_backend() {
    let server = Server::start(legacy(|_| Reply::Hang)).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let params = params_of(PARAMS);
    let deadline = Duration::from_millis(300);
    let error =
        backend.request(Request { deadline, ..Request::new("tools/call", &params) }).await.unwrap_err();
    assert_eq!(error, CallError::timeout(deadline, Transmission::Unknown));
    let cancelled = eventually("cancellation", || server.asked("notifications/cancelled").pop()).await;
    assert_eq!(cancelled.body["params"]["requestId"], server.asked("tools/call")[0].body["id"]);
    assert_eq!(cancelled.header("mcp-session-id"), Some("s1"));
    backend.stop().await;
}

#[tokio::test]
async fn the_callers_cancellation_closes_the_stream_of_a_modern_backend() {
    let (never, stream) = mpsc::unbounded_channel();
    let stream = Mutex::new(Some(stream));
    let server = Server::start(modern(move |_| {
        Reply::Live(": hello\n\n".to_owned(), stream.lock().unwrap().take().unwrap())
    }))
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let params = params_of(PARAMS);
    let request = Request::new("tools/call", &params);
    let cancel = request.cancel.clone();
    let asked = server.clone();
    tokio::spawn(async move {
        eventually("the call", || asked.asked("tools/call").pop()).await;
        cancel.cancel();
    });
    let error = backend.request(request).await.unwrap_err();
    assert_eq!(error, CallError::Cancelled { transmission: Transmission::Unknown });
    eventually("the closed stream", || (server.streams_closed_by_client() == 1).then_some(())).await;
    assert!(server.asked("notifications/cancelled").is_empty(), "closing says it all");
    drop(never);
    backend.stop().await;
}

#[tokio::test]
async fn progress_extends_the_deadline_up_to_the_cap() {
    for (cap, answered) in [(Duration::from_mins(1), true), (Duration::from_millis(1800), false)] {
        let server = Server::start(modern(|seen| {
            let (more, stream) = mpsc::unbounded_channel();
            let (token, answer) = (seen.progress_token().clone(), event(&seen.answer("{}")));
            tokio::spawn(async move {
                for progress in 0..8 {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    let _ = more.send(event(&format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{progress}}}}}"#
                    )));
                }
                let _ = more.send(answer);
            });
            Reply::Live(String::new(), stream)
        }))
        .await;
        let backend = Backend::start(
            spec("b", server.transport()),
            BackendSettings { max_call: cap, ..settings() },
            None,
        );
        let params = params_of(PARAMS);
        let deadline = Duration::from_millis(1600);
        let result = backend.request(Request { deadline, ..Request::new("tools/call", &params) }).await;
        assert_eq!(result.is_ok(), answered, "{result:?}");
        backend.stop().await;
    }
}

/// Sends `message` every 300 ms, eight times, then the answer.
fn slowly(seen: &SeenRequest, message: &str) -> Reply {
    let (more, stream) = mpsc::unbounded_channel();
    let (message, answer) = (event(message), event(&seen.answer("{}")));
    tokio::spawn(async move {
        for _ in 0..8 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let _ = more.send(message.clone());
        }
        let _ = more.send(answer);
    });
    Reply::Live(String::new(), stream)
}

#[tokio::test]
async fn any_message_of_a_call_keeps_it_alive_and_unasked_progress_is_not_passed_on() {
    let progress = |seen: &SeenRequest| {
        let token = seen.progress_token();
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
        )
    };
    let log = |_: &SeenRequest| {
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#.to_owned()
    };
    let servers = [
        Server::start(modern(move |seen| slowly(seen, &progress(seen)))).await,
        Server::start(legacy(move |seen| slowly(seen, &progress(seen)))).await,
        Server::start(modern(move |seen| slowly(seen, &log(seen)))).await,
        Server::start(legacy(move |seen| slowly(seen, &log(seen)))).await,
    ];
    let calls = servers.iter().map(async |server| {
        let backend = Backend::start(spec("b", server.transport()), settings(), None);
        let params = params_of(r#"{"name":"echo"}"#);
        let (events, mut heard) = event_queue(64);
        let deadline = Duration::from_millis(1600);
        let request = Request { deadline, events: Some(events), ..Request::new("tools/call", &params) };
        backend.request(request).await.unwrap();
        assert!(heard.try_recv().is_none(), "the client asked for neither progress nor log messages");
        backend.stop().await;
    });
    futures::future::join_all(calls).await;
}

#[tokio::test]
async fn a_connection_that_dies_under_a_call_fails_it_at_once_and_is_retried_only_if_that_is_safe() {
    for idempotent in [false, true] {
        let tries = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&tries);
        let server = Server::start(legacy(move |seen| match count.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::Broken(": started\n\n".as_bytes().to_vec()),
            _ => echo(seen),
        }))
        .await;
        let backend = Backend::start(spec("b", server.transport()), settings(), None);
        let params = params_of(PARAMS);
        let started = Instant::now();
        let result = backend.request(Request { idempotent, ..Request::new("tools/call", &params) }).await;
        assert!(started.elapsed() < Duration::from_secs(20), "not by the deadline");
        assert_eq!(tries.load(Ordering::SeqCst), if idempotent { 2 } else { 1 });
        if idempotent {
            result.unwrap();
        } else {
            assert_eq!(result.unwrap_err().category(), "unavailable");
        }
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_stream_that_a_legacy_server_ends_early_is_continued_where_it_broke_off() {
    let answer = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&answer);
    let rest = legacy(move |seen| {
        *kept.lock().unwrap() = seen.answer(r#"{"content":[]}"#);
        Reply::Pieces(vec!["retry: 10\nid: e1\ndata:\n\n".to_owned()])
    });
    let server = Server::start(move |seen| match seen.header("last-event-id") {
        Some("e1") => Reply::Pieces(vec![event(&answer.lock().unwrap())]),
        _ => rest(seen),
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    assert_eq!(result(&call(&backend, "echo").await.unwrap()), r#"{"content":[]}"#);
    assert_eq!(server.asked("tools/call").len(), 1);
    backend.stop().await;
}

#[tokio::test]
async fn a_server_that_wants_no_pause_before_it_is_asked_again_does_not_make_the_call_spin() {
    let rest = legacy(|_| Reply::Pieces(vec!["retry: 0\nid: e1\ndata:\n\n".to_owned()]));
    let server = Server::start(move |seen| match seen.header("last-event-id") {
        Some(_) => Reply::Pieces(vec!["retry: 0\n\n".to_owned()]),
        None => rest(seen),
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let params = params_of(r#"{"name":"echo"}"#);
    let deadline = Duration::from_secs(2);
    let request = Request { deadline, ..Request::new("tools/call", &params) };
    assert_eq!(backend.request(request).await.unwrap_err().category(), "timeout");
    let resumed = server.seen().iter().filter(|seen| seen.header("last-event-id").is_some()).count();
    assert!((1..=6).contains(&resumed), "{resumed} continuations in {deadline:?}");
    backend.stop().await;
}

#[tokio::test]
async fn an_error_of_the_backend_is_an_answer() {
    let server = Server::start(modern(|seen| Reply::Status(404, seen.error(-32601)))).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let response = call(&backend, "echo").await.unwrap();
    let RpcOutcome::Error(error) = response.outcome else { panic!("an error") };
    assert_eq!(json(error.get())["code"], -32601);
    backend.stop().await;
}

#[tokio::test]
async fn answers_that_are_none_are_told_apart_and_never_show_where_the_backend_is() {
    type Answer = fn(&SeenRequest) -> Reply;
    let answers: [(Answer, &str); 7] = [
        (|_| Reply::Json("{\"jsonrpc\":".to_owned()), "protocol"),
        (|_| Reply::Json(r#"{"jsonrpc":"2.0","id":999999,"result":{}}"#.to_owned()), "protocol"),
        (|_| Reply::Status(202, String::new()), "protocol"),
        (|seen| Reply::Json(seen.answer(format!("{{\"a\":\"{}\"}}", "x".repeat(200_000)))), "too_large"),
        (|_| Reply::Pieces(vec!["data: ".to_owned(), "x".repeat(200_000)]), "too_large"),
        (|_| Reply::Status(503, "down".to_owned()), "unavailable"),
        (|_| Reply::Status(401, "who?".to_owned()), "unavailable"),
    ];
    for (answer, category) in answers {
        let server = Server::start(modern(answer)).await;
        let settings = BackendSettings { max_message_bytes: 100_000, ..settings() };
        let backend = Backend::start(spec("b", server.transport()), settings, None);
        let error = call(&backend, "echo").await.unwrap_err();
        assert_eq!(error.category(), category, "{error}");
        let port = server.address().rsplit(':').next().unwrap();
        assert!(!error.to_string().contains(port) && !error.to_string().contains("127.0.0.1"), "{error}");
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_written_is_the_callers_mistake() {
    let server = Server::start(modern(echo)).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let params = params_of("{}");
    let bad_header = vec![("Mcp-Param-X".to_owned(), "two\nlines".to_owned())];
    for _ in 0..5 {
        let request = Request { param_headers: bad_header.clone(), ..Request::new("tools/call", &params) };
        assert_eq!(backend.request(request).await.unwrap_err().category(), "invalid_request");
    }
    call(&backend, "echo").await.unwrap();
    assert_eq!(server.asked("tools/call").len(), 1);
    backend.stop().await;
}

#[tokio::test]
async fn an_answer_that_names_its_request_by_a_string_is_taken() {
    for stream in [false, true] {
        let server = Server::start(modern(move |seen| {
            let answer = seen.answer(r#"{"content":[]}"#).replacen(
                &format!("\"id\":{}", seen.id()),
                &format!("\"id\":\"{}\"", seen.id()),
                1,
            );
            if stream { Reply::Pieces(vec![event(&answer)]) } else { Reply::Json(answer) }
        }))
        .await;
        let backend = Backend::start(spec("b", server.transport()), settings(), Some(cached()));
        let params = params_of(PARAMS);
        let response = backend.request(Request::new("tools/call", &params)).await.unwrap();
        assert_eq!(result(&response), r#"{"content":[]}"#);
    }
}
