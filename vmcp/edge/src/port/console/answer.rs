//! Parts of the console's answers: headers of all, style sheet and script, JSON of servers as pages show it.

pub(super) mod path_prefix;

use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use vmcp_console::assets::{CONTENT_SECURITY_POLICY, SCRIPT, STYLE};
use vmcp_console::links::ROOT;
use vmcp_console::pages::clients::Replicas;
use vmcp_engine::engine::replicas::Census;
use vmcp_json::text::without_half_surrogates;

use super::access::{ConsoleDoor, Visitor};

/// Most bytes of the words of a refusal; longer ones are left out.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

/// Headers of every answer. Pages hold names and errors of servers: no cache keeps them, no other site frames
/// them or reads their address. With `no-referrer`, browsers would send `Origin: null` with each form.
const SECURITY_HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Middleware that adds [`SECURITY_HEADERS`] to each answer at an address of the console, also to a refusal
/// of the port's guard.
pub(in crate::port) async fn add_security_headers(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_of_console = path == "/console" || path.starts_with(ROOT);
    let mut response = next.run(request).await;
    if !is_of_console {
        return response;
    }
    for (name, value) in SECURITY_HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Middleware that makes the words of a refused request a page with the navigation, where a browser asks for
/// one. Programs get the words alone.
pub(super) async fn refusals_as_pages(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
    next: Next,
) -> Response {
    let kinds = request.headers().get(header::ACCEPT).and_then(|kinds| kinds.to_str().ok());
    let wants_page = kinds.is_some_and(|kinds| kinds.contains("text/html"));
    let response = next.run(request).await;
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE);
    let has_words = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"));
    if !wants_page || !has_words || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let words = to_bytes(body, MAX_REFUSAL_BYTES).await.unwrap_or_default();
    let title = if status == StatusCode::NOT_FOUND { "Not found" } else { "This was not done" };
    let page = door.frame(&visitor).refusal(title, &String::from_utf8_lossy(&words));
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    Response::from_parts(head, Body::from(page))
}

/// Answers an address of the console that has no page.
pub(super) async fn no_page() -> impl IntoResponse {
    (StatusCode::NOT_FOUND, "no page of the console has this address\n")
}

/// Answers `GET /console/console.css`.
pub(super) async fn style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE)
}

/// Answers `GET /console/console.js`.
pub(super) async fn script() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT)
}

/// Returns the replicas that were asked for a page.
pub(super) fn replicas(census: Option<Census>) -> Option<Replicas> {
    census.map(|Census { replicas, unreachable }| Replicas { answering: replicas, unreachable })
}

/// Parses JSON of a server; half a surrogate pair, which no Rust string can hold, is replaced.
pub(super) fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(without_half_surrogates(text).as_deref().unwrap_or(text)).ok()
}

/// Indents JSON; a text that cannot be parsed stays as it is.
pub(super) fn indented(text: &str) -> String {
    parsed(text)
        .and_then(|value| serde_json::to_string_pretty(&value).ok())
        .unwrap_or_else(|| text.to_owned())
}
