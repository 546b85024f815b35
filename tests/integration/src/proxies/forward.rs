//! A reverse proxy for fixtures: a test puts it behind a check of its own, such as a token or a signature.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::http_client;

/// Forwards a request to `url` and its answer back, chunk by chunk; 502 without an answer.
pub async fn forward(url: &str, method: Method, headers: &HeaderMap, body: Bytes) -> Response {
    let mut request = http_client().request(method, url).body(body);
    for (name, value) in headers.iter().filter(|(name, _)| *name != header::HOST) {
        request = request.header(name, value);
    }
    let Ok(answer) = request.send().await else { return StatusCode::BAD_GATEWAY.into_response() };
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers().iter().filter(|(name, _)| *name != header::TRANSFER_ENCODING) {
        response = response.header(name, value);
    }
    response.body(Body::from_stream(answer.bytes_stream())).expect("a response")
}
