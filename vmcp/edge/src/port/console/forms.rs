//! Bodies of forms: read within a bound, and refused without the CSRF token of their page.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;
use vmcp_console::frame::FORM_TOKEN;

use super::access::{ConsoleDoor, Visitor};

/// Most bytes of a form: 256 KiB. A longer one is refused with 413.
const MAX_FORM_BYTES: usize = 256 << 10;
/// Time for a form to arrive; a slower one is refused with 408. A request under way stops the clock of its
/// connection, and the port has few connections.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The fields of a form whose token was checked, as an extension of the request.
#[derive(Debug, Clone, Default)]
pub(super) struct CheckedForm(pub(super) Vec<(String, String)>);

/// Middleware that reads the body of a form and compares its token with that of the visitor. No order of the
/// console is carried out without: its handler runs behind this.
pub(super) async fn check(State(door): State<ConsoleDoor>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let Some(visitor) = head.extensions.get::<Visitor>().cloned() else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    if !is_form(&head.headers) {
        let words = "send a form: content-type application/x-www-form-urlencoded\n";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, words).into_response();
    }
    let pairs = match read(body, MAX_FORM_BYTES).await {
        Ok(pairs) => pairs,
        Err(refusal) => return refusal,
    };
    if !door.has_form_token(&visitor, value(&pairs, FORM_TOKEN)) {
        let words = "the form is of another page or session: load its page again, and send it from there\n";
        return (StatusCode::FORBIDDEN, words).into_response();
    }
    let mut request = Request::from_parts(head, Body::empty());
    request.extensions_mut().insert(CheckedForm(pairs));
    next.run(request).await
}

/// Reads the fields of a form of at most `limit` bytes, within [`RECEIVE_TIMEOUT`].
pub(super) async fn read(body: Body, limit: usize) -> Result<Vec<(String, String)>, Response> {
    let read = timeout(RECEIVE_TIMEOUT, to_bytes(body, limit)).await.map_err(|_| {
        let words = format!("the form did not arrive within {} seconds\n", RECEIVE_TIMEOUT.as_secs());
        (StatusCode::REQUEST_TIMEOUT, words).into_response()
    })?;
    let bytes = read.map_err(|_| {
        let words = format!("the form could not be read, or has more than {limit} bytes\n");
        (StatusCode::PAYLOAD_TOO_LARGE, words).into_response()
    })?;
    Ok(url::form_urlencoded::parse(&bytes).into_owned().collect())
}

/// Returns the value of a field; empty if it is absent.
pub(super) fn value<'a>(pairs: &'a [(String, String)], name: &str) -> &'a str {
    pairs.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
}

fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';')
        .next()
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_form_that_is_too_long_or_never_arrives_is_refused() {
        let pairs = read(Body::from("a=b"), 3).await.unwrap();
        assert_eq!(value(&pairs, "a"), "b");
        let refused = read(Body::from("a=bc"), 3).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
        let silent = futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>();
        let refused = read(Body::from_stream(silent), 3).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::REQUEST_TIMEOUT);
    }
}
