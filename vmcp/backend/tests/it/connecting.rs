//! Connecting: lazily or eagerly, with retries, and the status meanwhile.

use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpSocket};
use vmcp_backend::{Backend, BackendSettings, BackendState, CallError};
use vmcp_config::Transport;

use crate::support::scripts::{echo, legacy, modern};
use crate::support::server::{Reply, Server};
use crate::support::{cached, call, eventually, settings, spec, wait_for_definitions, wait_for_state};

/// Accepts connections, counts them, and closes or keeps them.
async fn silent_listener(keep: bool) -> (Transport, std::sync::Arc<std::sync::atomic::AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
    let count = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counter = std::sync::Arc::clone(&count);
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            if keep {
                kept.push(stream);
            }
        }
    });
    (Transport::Http { url, headers: std::collections::BTreeMap::new() }, count)
}

/// A port that refuses connections, and the socket that keeps it from other tests.
fn refusing() -> (Transport, TcpSocket) {
    let reserved = TcpSocket::new_v4().unwrap();
    // A server may be bound beside it.
    reserved.set_reuseaddr(true).unwrap();
    reserved.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let url = format!("http://{}/mcp", reserved.local_addr().unwrap()).parse().unwrap();
    (Transport::Http { url, headers: std::collections::BTreeMap::new() }, reserved)
}

/// A program that does not exist.
fn missing_program() -> Transport {
    Transport::Stdio {
        command: "vmcp-no-such-program".to_owned(),
        args: Vec::new(),
        env: std::collections::BTreeMap::new(),
        cwd: None,
        inherit_env: Vec::new(),
        idle_timeout: None,
    }
}

#[tokio::test]
async fn with_cached_definitions_nothing_connects_before_the_first_use() {
    let server = Server::start(modern(echo)).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), Some(cached()));
    // A control without cached definitions, started later, has connected and listed by the time we look.
    let control_server = Server::start(modern(echo)).await;
    let control = Backend::start(spec("control", control_server.transport()), settings(), None);
    wait_for_definitions(&control, |found| found.tools[0].name == "echo").await;
    control.stop().await;
    assert_eq!(server.seen().len(), 0);
    let status = backend.status();
    assert_eq!((status.state, status.tools), (BackendState::Configured, Some(1)));
    call(&backend, "echo").await.unwrap();
    assert_eq!(backend.status().state, BackendState::Connected);
    // The first use also brings the definitions up to date.
    wait_for_definitions(&backend, |found| found.tools[0].name == "echo").await;
    backend.stop().await;
}

#[tokio::test]
async fn cached_definitions_are_checked_soon_after_a_start() {
    let server = Server::start(modern(echo)).await;
    let soon = BackendSettings { revalidate_after: Duration::from_millis(100), ..settings() };
    let backend = Backend::start(spec("b", server.transport()), soon, Some(cached()));
    assert!(backend.status().cached);
    wait_for_definitions(&backend, |found| found.tools[0].name == "echo").await;
    assert!(!backend.status().cached);
    backend.stop().await;
}

#[tokio::test]
async fn without_cached_definitions_or_when_asked_it_connects_in_the_background() {
    let server = Server::start(modern(echo)).await;
    let preconnect = vmcp_config::Backend { preconnect: true, ..spec("b", server.transport()) };
    let eager = BackendSettings { lazy_connect: false, ..settings() };
    for backend in [
        Backend::start(spec("b", server.transport()), settings(), None),
        Backend::start(preconnect, settings(), Some(cached())),
        Backend::start(spec("b", server.transport()), eager, Some(cached())),
    ] {
        let status = wait_for_state(&backend, BackendState::Connected).await;
        assert!(status.connected_at.is_some());
        backend.stop().await;
    }
}

#[tokio::test]
async fn twenty_first_calls_share_one_handshake() {
    let server = Server::start(legacy(echo)).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), Some(cached()));
    let calls = (0..20).map(|_| call(&backend, "echo"));
    let results = futures::future::join_all(calls).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!((server.asked("initialize").len(), server.asked("tools/call").len()), (1, 20));
    backend.stop().await;
}

#[tokio::test]
async fn it_is_tried_four_times_then_failed_and_once_more_on_each_use() {
    let (transport, connections) = silent_listener(false).await;
    let settings = BackendSettings { retry_failed_every: Duration::from_mins(10), ..settings() };
    let backend = Backend::start(spec("b", transport), settings, None);
    let status = wait_for_state(&backend, BackendState::Failed).await;
    assert!(status.last_error.is_some_and(|error| !error.is_empty()));
    // Each attempt probes for the era, then tries `initialize`: some servers close on an unknown method.
    assert_eq!(connections.load(std::sync::atomic::Ordering::SeqCst), 8);
    let error = call(&backend, "echo").await.unwrap_err();
    assert!(matches!(error, CallError::Unavailable { .. }), "{error}");
    assert_eq!(connections.load(std::sync::atomic::Ordering::SeqCst), 10);
    backend.stop().await;
}

/// Time is the test's own: a program that cannot be started fails at once, and what passes are the pauses.
#[tokio::test(start_paused = true)]
async fn attempts_follow_each_other_after_1_2_4_8_and_then_16_seconds() {
    let defaults = BackendSettings::default();
    assert_eq!((defaults.max_connection_retries, defaults.first_pause), (3, Duration::from_secs(1)));
    for (retries, pauses) in [(0, 0), (1, 1), (2, 3), (3, 7), (4, 15), (5, 31), (6, 47)] {
        let settings = BackendSettings { max_connection_retries: retries, ..BackendSettings::default() };
        let started = tokio::time::Instant::now();
        let backend = Backend::start(spec("b", missing_program()), settings, None);
        while backend.status().state != BackendState::Failed {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (took, pauses) = (started.elapsed().as_secs_f64(), f64::from(pauses));
        // Jitter adds at most a tenth, the polls above 10 ms, a busy machine no time at all.
        assert!((pauses..=pauses * 1.1 + 0.05).contains(&took), "{retries} retries: {took} s");
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_hangs_delays_no_other_and_what_is_not_asked_for_stays_as_it_is() {
    let (transport, connections) = silent_listener(true).await;
    let (wanted, unwanted) = (Server::start(modern(echo)).await, Server::start(modern(echo)).await);
    let start = |name: &str, transport, preconnect| {
        let spec = vmcp_config::Backend { preconnect, ..spec(name, transport) };
        Backend::start(spec, settings(), Some(cached()))
    };
    let hanging = start("hanging", transport, true);
    let eager = start("eager", wanted.transport(), true);
    let lazy = start("lazy", unwanted.transport(), false);
    wait_for_state(&eager, BackendState::Connected).await;
    // Its first attempt is still under way.
    wait_for_state(&hanging, BackendState::Connecting).await;
    assert_eq!(connections.load(std::sync::atomic::Ordering::SeqCst), 1);
    assert_eq!((lazy.status().state, unwanted.seen().len()), (BackendState::Configured, 0));
    for backend in [hanging, eager, lazy] {
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_failed_backend_comes_back_by_itself() {
    let (Transport::Http { url, headers }, _reserved) = refusing() else { unreachable!() };
    let address = format!("127.0.0.1:{}", url.port().unwrap());
    let settings = BackendSettings { retry_failed_every: Duration::from_millis(50), ..settings() };
    let backend = Backend::start(spec("b", Transport::Http { url, headers }), settings, None);
    wait_for_state(&backend, BackendState::Failed).await;
    let server = Server::at(&address, modern(echo)).await;
    let status = wait_for_state(&backend, BackendState::Connected).await;
    assert_eq!(status.last_error, None);
    assert!(!server.seen().is_empty());
    backend.stop().await;
}

#[tokio::test]
async fn a_silent_server_fails_after_one_connection_timeout() {
    let (transport, connections) = silent_listener(true).await;
    let spec =
        vmcp_config::Backend { connection_timeout: Some(Duration::from_millis(500)), ..spec("b", transport) };
    let started = Instant::now();
    let backend = Backend::start(spec, settings(), None);
    let connecting = wait_for_state(&backend, BackendState::Connecting).await;
    assert_eq!(connecting.connected_at, None);
    let status = wait_for_state(&backend, BackendState::Failed).await;
    assert!(started.elapsed() >= Duration::from_millis(500));
    assert!(status.last_error.unwrap().contains("connection timeout"));
    assert_eq!(connections.load(std::sync::atomic::Ordering::SeqCst), 1, "not tried again at once");
    backend.stop().await;
}

#[tokio::test]
async fn a_restarted_server_is_found_again_by_the_next_call() {
    let server = Server::start(legacy(echo)).await;
    let address = server.address().to_owned();
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    call(&backend, "echo").await.unwrap();
    server.stop().await;
    let again = Server::at(&address, {
        let known = std::sync::atomic::AtomicBool::new(false);
        let rest = legacy(echo);
        move |seen: &crate::support::server::SeenRequest| {
            if seen.method() == "initialize" {
                known.store(true, std::sync::atomic::Ordering::SeqCst);
            }
            // The new process knows nothing of the old one's sessions.
            if known.load(std::sync::atomic::Ordering::SeqCst) {
                rest(seen)
            } else {
                Reply::Status(404, String::new())
            }
        }
    })
    .await;
    call(&backend, "echo").await.unwrap();
    assert_eq!((again.asked("initialize").len(), backend.status().restarts), (1, 1));
    backend.stop().await;
}

#[tokio::test]
async fn after_stop_nothing_is_sent() {
    let server = Server::start(modern(echo)).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    call(&backend, "echo").await.unwrap();
    let handle = backend.clone();
    backend.stop().await;
    let before = server.seen().len();
    let error = call(&handle, "echo").await.unwrap_err();
    assert_eq!(error.category(), "unavailable");
    assert_eq!(server.seen().len(), before);
}

#[tokio::test]
async fn stop_lets_a_call_under_way_finish() {
    let server = Server::start(modern(|seen| {
        let (more, stream) = tokio::sync::mpsc::unbounded_channel();
        let answer = crate::support::server::event(&seen.answer("{}"));
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let _ = more.send(answer);
        });
        Reply::Live(String::new(), stream)
    }))
    .await;
    let settings = BackendSettings { drain_timeout: Duration::from_secs(20), ..settings() };
    let backend = Backend::start(spec("b", server.transport()), settings, None);
    let handle = backend.clone();
    let underway = tokio::spawn(async move { call(&handle, "echo").await });
    eventually("the call", || server.asked("tools/call").pop()).await;
    backend.stop().await;
    underway.await.unwrap().unwrap();
}
