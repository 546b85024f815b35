//! Servers that flood bytes without a message: their streams are ended early, and other tasks go on.

use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use vmcp_backend::{Backend, BackendState, CallError};

use crate::support::scripts::{modern, stateful};
use crate::support::server::{Reply, Server};
use crate::support::{cached, call, eventually, settings, spec, wait_for_definitions, wait_for_state};

/// Filler of all kinds: no event among it has data.
const FILLER: [&str; 6] = ["\n", "\r\n", ":\n\n", "data:\n\n", "event: message\nid: 1\n\n", "retry: 1\n"];

#[tokio::test]
async fn a_call_whose_stream_floods_filler_ends_with_an_error_that_names_the_limit() {
    for filler in FILLER {
        let server = Server::start(modern(move |_| Reply::Flood(filler.repeat(1000)))).await;
        let backend = Backend::start(spec("b", server.transport()), settings(), Some(cached()));
        let started = Instant::now();
        let error = call(&backend, "t").await.unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(20), "{filler:?} took {:?}", started.elapsed());
        let CallError::Protocol { reason, .. } = error else { panic!("{filler:?}: {error:?}") };
        assert!(reason.contains("floods its stream") && reason.contains("64 KiB"), "{reason}");
        assert!(backend.status().last_error.is_some_and(|shown| shown.contains("floods")), "{filler:?}");
    }
}

#[tokio::test]
async fn a_listening_stream_that_floods_is_closed_reopened_with_pauses_and_named() {
    let server = Server::start(stateful(|seen| match seen.http.as_str() {
        "GET" => Reply::Flood(":\n\n".repeat(1000)),
        _ => Reply::Json(seen.answer(r#"{"content":[]}"#)),
    }))
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    wait_for_definitions(&backend, |found| !found.tools.is_empty()).await;
    let opened = || server.seen().iter().filter(|seen| seen.http == "GET").count();
    eventually("the stream to be opened again", || (opened() >= 2).then_some(())).await;
    assert!(opened() < 10, "opened {} times", opened());
    let status = wait_for_state(&backend, BackendState::Connected).await;
    let shown = status.last_error.unwrap_or_default();
    assert!(shown.contains("floods its stream"), "{shown}");
    assert!(call(&backend, "t").await.is_ok(), "calls go on");
}

#[tokio::test]
async fn interim_responses_without_end_are_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn({
        let listener = listener.into_std().unwrap();
        listener.set_nonblocking(false).unwrap();
        move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                std::thread::spawn(move || {
                    use std::io::{Read as _, Write as _};
                    let _ = stream.read(&mut [0; 4096]);
                    while stream.write_all("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1000).as_bytes()).is_ok()
                    {
                    }
                });
            }
        }
    });
    let url = format!("http://{address}/mcp").parse().unwrap();
    let transport = vmcp_config::Transport::Http { url, headers: vmcp_config::Headers::default() };
    let backend = Backend::start(spec("b", transport), settings(), None);
    let status = eventually("an error", || backend.status().last_error).await;
    assert!(status.contains("512 KiB before its answer"), "{status}");
}

#[tokio::test]
async fn an_answer_in_pieces_of_one_byte_arrives() {
    let server = Server::start(modern(|seen| {
        let answer =
            seen.answer(format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, "x".repeat(30_000)));
        let pieces = answer.chars().map(String::from).collect::<Vec<_>>();
        Reply::StreamJson(Box::pin(futures::stream::iter(pieces)))
    }))
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), Some(cached()));
    let response = call(&backend, "t").await.unwrap();
    assert!(crate::support::result(&response).contains(&"x".repeat(30_000)));
}
