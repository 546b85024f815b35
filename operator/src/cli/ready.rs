//! `vmcp-operator ready`: asks a running operator until it is ready. `helm test` runs it, from an image that
//! has nothing else.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::time::{Instant, sleep, timeout};
use vmcp_error_chain::error_chain;

use super::run_error::RunError;

/// The time for which an operator is asked: a new pod lists every kind first.
const READY_TIMEOUT: Duration = Duration::from_mins(1);
/// The pause between two questions.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The longest that one answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest answer that is read, 64 KiB.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Asks until the answer is 200; fails with the last answer.
pub(super) async fn ready(url: &str) -> Result<(), RunError> {
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        let answer = timeout(ANSWER_TIMEOUT, ask(url)).await;
        let last = match answer.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
            Ok(()) => return Ok(()),
            Err(last) => last,
        };
        if Instant::now() >= deadline {
            return Err(RunError::NotReady { url: url.to_owned(), last });
        }
        sleep(POLL_INTERVAL).await;
    }
}

async fn ask(url: &str) -> Result<(), String> {
    let request = Request::get(url).body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = client.request(request).await.map_err(|error| error_chain(&error))?;
    let status = response.status();
    if status == StatusCode::OK {
        return Ok(());
    }
    let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
    let text = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Err(format!("{status}: {}", String::from_utf8_lossy(&text).trim()))
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;

    use super::*;

    #[tokio::test]
    async fn an_operator_is_asked_until_it_is_ready() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/readyz", listener.local_addr().expect("an address"));
        let app = Router::new()
            .route("/readyz", get(|| async { "ready" }))
            .route("/pending", get(|| async { (StatusCode::SERVICE_UNAVAILABLE, "not listed yet: Pod") }));
        tokio::spawn(async move { axum::serve(listener, app).await });
        ready(&url).await.expect("ready");
        let pending = ask(&url.replace("readyz", "pending")).await.expect_err("not ready");
        assert_eq!(pending, "503 Service Unavailable: not listed yet: Pod");
    }
}
