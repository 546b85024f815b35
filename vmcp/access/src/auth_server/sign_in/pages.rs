//! The two pages that a person sees: the question for consent, and errors that no client can be told.

use std::fmt::Write as _;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use url::Url;

use crate::auth_server::client::authorization_request::AuthorizationRequest;
use crate::auth_server::client::place;
use crate::auth_server::endpoint::Answer;

/// Headers of every page: never framed (clickjacking), never kept, no scripts. The referrer is named to this
/// server only: without any, a browser would send the form with a foreign origin.
const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_TYPE, "text/html; charset=utf-8"),
    (CACHE_CONTROL, "no-store"),
    (X_FRAME_OPTIONS, "DENY"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "same-origin"),
    (
        http::header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    ),
];
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:12vh auto;padding:0 1rem}\
    code{word-break:break-all}button{font:inherit;padding:.5rem 1.25rem;margin-right:.5rem}";

/// Asks a person whether a client may act for them. `action` is the path that takes the answer, `sealed` the
/// request.
pub(in crate::auth_server) fn consent(
    request: &AuthorizationRequest,
    resource: &str,
    providers: &[&str],
    action: &str,
    sealed: &str,
) -> Answer {
    let name = if request.client_name.is_empty() { "A client without a name" } else { &request.client_name };
    let mut body = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        body,
        "<h1>Let {name} in?</h1><p><b>{name}</b> wants to use the tools of <code>{resource}</code> as you. \
         This name is what the client says of itself. It will be called back at <b>{place}</b>: \
         <code>{redirect}</code></p>",
        name = escaped(name),
        resource = escaped(resource),
        place = escaped(&place(&request.redirect_uri)),
        redirect = escaped(&request.redirect_uri),
    );
    if !request.scope.is_empty() {
        let _ = write!(body, "<p>It asks for: <code>{}</code></p>", escaped(&request.scope));
    }
    let _ = write!(
        body,
        "<p>Next, you sign in at: {}. If you did not start this yourself just now, do not allow it.</p>\
         <form method=\"post\" action=\"{}\"><input type=\"hidden\" name=\"request\" value=\"{}\">\
         <button name=\"decision\" value=\"allow\">Allow</button>\
         <button name=\"decision\" value=\"deny\">Deny</button></form>",
        escaped(&providers.join(", ")),
        escaped(action),
        escaped(sealed),
    );
    page(StatusCode::OK, "Let a client in?", &body)
}

/// Tells a person what went wrong.
pub(in crate::auth_server) fn error(status: StatusCode, words: &str) -> Answer {
    page(status, "Sign-in failed", &format!("<h1>Sign-in failed</h1><p>{}</p>", escaped(words)))
}

/// Tells a person that the request of a client was refused; the client is told if the person follows a link.
pub(in crate::auth_server) fn refused(words: &str, redirect_uri: &str, to: &Url) -> Answer {
    let body = format!(
        "<h1>Sign-in failed</h1><p>The request of a client was refused: {}</p>\
         <p>If you know the client at <b>{}</b>, <a href=\"{}\" rel=\"noreferrer\">go back to it</a>.</p>",
        escaped(words),
        escaped(&place(redirect_uri)),
        escaped(to.as_str()),
    );
    page(StatusCode::BAD_REQUEST, "Sign-in failed", &body)
}

fn page(status: StatusCode, title: &str, body: &str) -> Answer {
    let mut answer = Response::new(format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head>\
         <body>{body}</body></html>"
    ));
    *answer.status_mut() = status;
    for (name, value) in HEADERS {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Escapes text for HTML, in elements and in quoted attributes.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Text that is turned around could show one address for another.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c => escaped.push(c),
        }
    }
    escaped
}
