//! Check of the console's forms: refused without the CSRF token of their page.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use vmcp_console::frame::FORM_TOKEN;

use super::{ConsoleDoor, Visitor};
use crate::port::console::forms::{read, value};

/// Most bytes of a form: 256 KiB. A longer one is refused with 413.
const MAX_FORM_BYTES: usize = 256 << 10;

/// The fields of a form whose token was checked, as an extension of the request.
#[derive(Debug, Clone, Default)]
pub(in crate::port::console) struct CheckedForm(pub(in crate::port::console) Vec<(String, String)>);

/// Middleware that reads the body of a form and compares its token with that of the visitor. No order of the
/// console is carried out without: its handler runs behind this.
pub(in crate::port::console) async fn check(
    State(door): State<ConsoleDoor>,
    request: Request,
    next: Next,
) -> Response {
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

fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';')
        .next()
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded"))
}
