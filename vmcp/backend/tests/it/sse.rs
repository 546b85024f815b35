//! The HTTP+SSE transport of 2024-11-05.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use vmcp_backend::{Backend, BackendSettings, BackendState, Request};
use vmcp_config::{Headers, Transport};

use crate::support::scripts::initialized;
use crate::support::server::{Reply, SeenRequest, Server, event};
use crate::support::{call, result, settings, spec, wait_for_definitions, wait_for_state};

fn transport(server: &Server) -> Transport {
    Transport::Sse {
        url: format!("http://{}/sse", server.address()).parse().unwrap(),
        headers: Headers::new(),
    }
}

/// Accepts messages with 202 and answers on the stream.
fn script(endpoint: &'static str) -> impl Fn(&SeenRequest) -> Reply + Send + Sync {
    let stream: Arc<Mutex<Option<mpsc::UnboundedSender<String>>>> = Arc::default();
    move |seen| {
        if seen.http == "GET" {
            let (more, receiver) = mpsc::unbounded_channel();
            *stream.lock().unwrap() = Some(more);
            return Reply::Live(format!("event: endpoint\ndata: {endpoint}\n\n"), receiver);
        }
        assert_eq!(seen.path, "/messages");
        let answer = match seen.method() {
            "initialize" => seen.answer(initialized()),
            "tools/list" => seen.answer(r#"{"tools":[{"name":"echo","inputSchema":{}}]}"#),
            "tools/call" => seen.answer(r#"{"content":[]}"#),
            // Accepted when it has been worked off, which is never.
            "notifications/cancelled" => return Reply::Hang,
            "refused" => return Reply::Status(500, String::new()),
            _ => return Reply::Status(202, String::new()),
        };
        stream.lock().unwrap().as_ref().unwrap().send(event(&answer)).unwrap();
        Reply::Status(202, String::new())
    }
}

#[tokio::test]
async fn calls_go_to_the_url_that_the_stream_names_and_answers_come_on_the_stream() {
    let server = Server::start(script("/messages?session=1")).await;
    let backend = Backend::start(spec("b", transport(&server)), settings(), None);
    assert_eq!(result(&call(&backend, "echo").await.unwrap()), r#"{"content":[]}"#);
    wait_for_definitions(&backend, |found| found.tools.len() == 1).await;
    assert!(server.asked("server/discover").is_empty(), "this transport has one era");
    let params = crate::support::params_of("{}");
    let error = backend.request(Request::new("refused", &params)).await.unwrap_err();
    assert_eq!(error.category(), "unavailable", "a message that is not accepted fails its own call at once");
    backend.stop().await;
}

#[tokio::test]
async fn credentials_do_not_follow_to_another_origin() {
    let server = Server::start(script("http://example.invalid/messages")).await;
    let settings = BackendSettings { max_connection_retries: 0, ..settings() };
    let backend = Backend::start(spec("b", transport(&server)), settings, None);
    let status = wait_for_state(&backend, BackendState::Failed).await;
    let error = status.last_error.unwrap();
    assert!(error.contains("another origin: http://example.invalid/messages"), "{error}");
    backend.stop().await;
}

#[tokio::test]
async fn a_notification_that_the_server_does_not_accept_holds_up_no_call() {
    let server = Server::start(script("/messages")).await;
    let backend = Backend::start(spec("b", transport(&server)), settings(), None);
    call(&backend, "echo").await.unwrap();
    let params = crate::support::params_of("{}");
    for _ in 0..3 {
        let deadline = Duration::from_millis(50);
        let stuck = Request { deadline, ..Request::new("stuck", &params) };
        assert_eq!(backend.request(stuck).await.unwrap_err().category(), "timeout");
    }
    let started = Instant::now();
    for _ in 0..5 {
        call(&backend, "echo").await.unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!(server.asked("notifications/cancelled").len(), 1, "one after the other");
    backend.stop().await;
}

#[tokio::test]
async fn a_stream_sends_the_cookies_of_its_balancer() {
    let answers = script("/messages");
    let server = Server::start(move |seen| match answers(seen) {
        Reply::Status(202, _) if seen.method() == "initialize" => {
            Reply::With(&[("set-cookie", "AWSALB=r1; Path=/")], String::new())
        }
        other => other,
    })
    .await;
    let backend = Backend::start(spec("b", transport(&server)), settings(), None);
    for _ in 0..2 {
        result(&call(&backend, "echo").await.unwrap());
    }
    for seen in server.asked("tools/call").into_iter().chain(server.asked("tools/list")) {
        assert_eq!(seen.header("cookie"), Some("AWSALB=r1"), "{}", seen.method());
    }
    assert!(
        server.asked("initialize").iter().all(|seen| seen.header("cookie").is_none()),
        "no other stream's"
    );
    backend.stop().await;
}
