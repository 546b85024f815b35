//! The circuit breaker in the way of calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use vmcp_backend::breaker::BreakerSettings;
use vmcp_backend::{Backend, BackendSettings, CallError, Request};
use vmcp_config::status::BreakerPosition;

use crate::support::scripts::{echo, modern};
use crate::support::server::{Reply, Server};
use crate::support::{call, eventually, settings, spec};

fn with_reset(reset_timeout: Duration) -> BackendSettings {
    let breaker = BreakerSettings { reset_timeout, ..BreakerSettings::default() };
    BackendSettings { breaker, ..settings() }
}

#[tokio::test]
async fn after_five_failures_calls_fail_at_once_without_a_request_until_one_may_try() {
    let broken = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&broken);
    let server = Server::start(modern(move |seen| {
        if flag.load(Ordering::SeqCst) { Reply::Status(503, String::new()) } else { echo(seen) }
    }))
    .await;
    let reset = Duration::from_millis(1500);
    let backend = Backend::start(spec("b", server.transport()), with_reset(reset), None);
    for _ in 0..5 {
        assert_eq!(call(&backend, "echo").await.unwrap_err().category(), "unavailable");
    }
    // Ready at the first poll: the call waited for nothing.
    let error = call(&backend, "echo").now_or_never().expect("refused at once").unwrap_err();
    assert!(matches!(error, CallError::CircuitOpen { retry_in } if retry_in <= reset), "{error}");
    assert!(error.to_string().contains("circuit open"));
    assert_eq!(server.asked("tools/call").len(), 5, "nothing was sent");
    assert_eq!(backend.status().breaker, BreakerPosition::Open);
    broken.store(false, Ordering::SeqCst);
    let half_open = || (backend.status().breaker == BreakerPosition::HalfOpen).then_some(());
    eventually("the end of the reset time", half_open).await;
    call(&backend, "echo").await.unwrap();
    assert_eq!(backend.status().breaker, BreakerPosition::Closed);
    backend.stop().await;
}

#[tokio::test]
async fn errors_of_tools_do_not_open_it() {
    let server = Server::start(modern(|seen| Reply::Json(seen.error(-32000)))).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    for _ in 0..10 {
        call(&backend, "echo").await.unwrap();
    }
    assert_eq!(backend.status().breaker, BreakerPosition::Closed);
    backend.stop().await;
}

#[tokio::test]
async fn timeouts_open_it() {
    let server = Server::start(modern(|_| Reply::Hang)).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let params = crate::support::params_of("{}");
    let deadline = Duration::from_secs(1);
    for (hasty, position) in [(true, BreakerPosition::Closed), (false, BreakerPosition::Open)] {
        let calls = (0..5)
            .map(|_| backend.request(Request { deadline, hasty, ..Request::new("tools/call", &params) }));
        for result in futures::future::join_all(calls).await {
            assert_eq!(result.unwrap_err().category(), "timeout");
        }
        assert_eq!(backend.status().breaker, position, "a hasty caller does not open it");
    }
    assert_eq!(call(&backend, "echo").await.unwrap_err().category(), "circuit_open");
    backend.stop().await;
}
