//! A reverse proxy that serves another server below a path of its own, as Traefik's `stripPrefix` does.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use reqwest::redirect::Policy;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// Most bytes of a request's body.
const MAX_BYTES: usize = 1 << 20;

/// Removes its path from requests, names it in `X-Forwarded-Prefix`, and passes the host on that the browser
/// names. Stopped when dropped.
pub struct PathProxy {
    /// URL of the server behind it, with the path.
    pub url: String,
    task: AbortHandle,
}

impl PathProxy {
    /// Serves the server at the URL `upstream`, which has no path, below `path`, such as `/ops`. Everything
    /// else is answered with 404.
    pub async fn start(upstream: &str, path: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}{path}", listener.local_addr().expect("an address"));
        let http = reqwest::Client::builder().no_proxy().redirect(Policy::none()).build().expect("a client");
        let upstream = upstream.to_owned();
        let pass_on = move |request: Request| pass_on(http.clone(), upstream.clone(), path, request);
        let app = Router::new().fallback(pass_on);
        let serve = async move { axum::serve(listener, app).await.expect("serving") };
        Self { url, task: tokio::spawn(serve).abort_handle() }
    }
}

impl Drop for PathProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_on(http: reqwest::Client, upstream: String, path: &str, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let target = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let Some(rest) = target.strip_prefix(path).filter(|rest| rest.starts_with('/')) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let body = to_bytes(body, MAX_BYTES).await.expect("a body");
    let mut sent = http.request(head.method, format!("{upstream}{rest}")).body(body);
    for (name, value) in &head.headers {
        if *name != header::CONTENT_LENGTH {
            sent = sent.header(name, value);
        }
    }
    let Ok(answer) = sent.header("x-forwarded-prefix", path).send().await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        if *name != header::TRANSFER_ENCODING {
            response = response.header(name, value);
        }
    }
    response.body(Body::from_stream(answer.bytes_stream())).expect("a response")
}
