//! Sign-in at the OpenID provider of `server.consoleSignIn`, by authorization code with PKCE.
//!
//! `start` sends the browser to the provider, with a cookie that ties the attempt to it; `callback` exchanges
//! the code. The attempt's cookie is `SameSite=Lax`, because the provider's redirect comes from another site.
//! The cookie of the session is `SameSite=Strict`: the answer of the callback is a page that goes on to the
//! console, since a browser would send no such cookie along the provider's redirect.

use axum::extract::{Query, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{AppendHeaders, Html, IntoResponse, Redirect, Response};
use serde::Deserialize;
use vmcp_access::auth_server::{ConsoleRole, SignedInPerson};
use vmcp_console::links::ROOT;
use vmcp_console::pages::sign_in;
use vmcp_engine::random::now;

use super::headers::cookies;
use super::wanted_page::is_page;
use super::{ConsoleDoor, too_many};
use crate::port::admin::guard::audit;
use crate::port::console::session_key::{ATTEMPT_SECONDS, CookiePerson, SESSION_SECONDS};

/// Longest subject, in bytes, as OpenID Connect Core 1.0 bounds it (section 2). A browser drops a cookie with
/// a much longer one.
const MAX_SUBJECT_BYTES: usize = 255;
/// Longest code and issuer of an answer, in bytes.
const MAX_PARAMETER_BYTES: usize = 4 << 10;

/// The query `?next=PAGE` of the link to the provider.
#[derive(Deserialize)]
pub(in crate::port::console) struct StartQuery {
    /// Address of the wanted page behind [`ROOT`].
    #[serde(default)]
    next: String,
}

/// The parameters of the provider's answer.
#[derive(Deserialize)]
pub(in crate::port::console) struct ProviderAnswer {
    #[serde(default)]
    state: String,
    code: Option<String>,
    iss: Option<String>,
    error: Option<String>,
}

/// Answers `GET /console/oidc/start`. The wanted page travels in the cookie of the attempt, which is signed.
pub(in crate::port::console) async fn start(
    State(door): State<ConsoleDoor>,
    Query(StartQuery { next }): Query<StartQuery>,
) -> Response {
    let next = page_or_overview(next);
    let Some(sign_in) = door.provider() else { return StatusCode::NOT_FOUND.into_response() };
    let Ok(asking) = door.0.asking.try_acquire() else {
        return too_many("too many people sign in at once\n");
    };
    let (value, attempt) = door.keys().attempt(now() + ATTEMPT_SECONDS, &next);
    let error = match sign_in.authorization_url(&attempt).await {
        Ok(url) => {
            let cookie = door.set_attempt(&value, ATTEMPT_SECONDS);
            return (cookie, Redirect::to(url.as_str())).into_response();
        }
        Err(error) => error,
    };
    // The pause has places of its own.
    drop(asking);
    door.0.guard.log_failed_sign_in(&error);
    if !door.0.guard.slow_down().await {
        return too_many("too many sign-ins failed\n");
    }
    page(&door, StatusCode::BAD_GATEWAY, "The provider cannot be used now: the log says why.", &next)
}

/// Answers `GET /console/oidc/callback`.
pub(in crate::port::console) async fn callback(
    State(door): State<ConsoleDoor>,
    Query(answer): Query<ProviderAnswer>,
    request: Request,
) -> Response {
    let Some(sign_in) = door.provider() else { return StatusCode::NOT_FOUND.into_response() };
    let Ok(asking) = door.0.asking.try_acquire() else {
        return too_many("too many people sign in at once\n");
    };
    let sender = audit::sender(&request);
    let begun = cookies(request.headers(), &door.attempt_name())
        .filter_map(|it| door.keys().attempt_of(it, now()))
        // The state is random and of one use: comparing it tells nothing that another attempt could use.
        .find(|(attempt, _)| attempt.state == answer.state);
    let Some((attempt, next)) = begun else {
        door.record_sign_in(&sender, None, "of no attempt of this browser", true);
        let words = "This sign-in began in another browser, or more than 10 minutes ago, or reached another \
                     replica: begin again.";
        return page(&door, StatusCode::BAD_REQUEST, words, "");
    };
    let next = page_or_overview(next);
    let (code, issuer) = (answer.code.as_deref(), answer.iss.as_deref());
    let is_long = |text: Option<&str>| text.is_some_and(|text| text.len() > MAX_PARAMETER_BYTES);
    let Some(code) = code.filter(|_| answer.error.is_none() && !is_long(code) && !is_long(issuer)) else {
        door.record_sign_in(&sender, None, "the provider refused", true);
        let words = "The provider did not sign you in: begin again.";
        return ended(&door, StatusCode::UNAUTHORIZED, words, &next);
    };
    let signed_in = match sign_in.finish(&attempt, code, issuer).await {
        Ok(signed_in) => signed_in,
        Err(error) => {
            drop(asking);
            door.0.guard.log_failed_sign_in(&error);
            door.record_sign_in(&sender, None, "the provider's answer is not accepted", true);
            if !door.0.guard.slow_down().await {
                return too_many("too many sign-ins failed\n");
            }
            let words = "The sign-in failed: the log says why. Begin again.";
            return ended(&door, StatusCode::UNAUTHORIZED, words, &next);
        }
    };
    let SignedInPerson { subject, role } = signed_in;
    if subject.len() > MAX_SUBJECT_BYTES {
        door.record_sign_in(&sender, None, "the subject is too long", true);
        let words =
            "The subject of your ID token is longer than 255 bytes: the console takes none of that length.";
        return ended(&door, StatusCode::FORBIDDEN, words, &next);
    }
    let name = person_name(&subject);
    let Some(role) = role else {
        door.record_sign_in(&sender, Some(&name), "no role", true);
        let words = "You are signed in, and have no role here: server.consoleSignIn names those of operators and viewers.";
        return ended(&door, StatusCode::FORBIDDEN, words, &next);
    };
    door.record_sign_in(&sender, Some(&name), "ok", false);
    let person = CookiePerson { subject, role };
    let value = door.keys().person_session(&person, sign_in.config(), now() + SESSION_SECONDS);
    let [(_, session)] = door.set_cookie(&value, SESSION_SECONDS, door.secure());
    let [(_, attempt)] = door.set_attempt("", 0);
    let cookies = AppendHeaders([(header::SET_COOKIE, session), (header::SET_COOKIE, attempt)]);
    let go_on = [(header::REFRESH, format!("0; url={ROOT}{next}"))];
    (cookies, go_on, Html(sign_in::signed_in(role == ConsoleRole::Operator, &next))).into_response()
}

/// Returns the name of a person for audit events.
pub(super) fn person_name(subject: &str) -> String {
    format!("person {}", vmcp_console::text::inert(subject, vmcp_console::text::MAX_LINE))
}

/// Returns the address of a page of the console; of another address, the empty one of the overview.
fn page_or_overview(next: String) -> String {
    if is_page(&next) { next } else { String::new() }
}

/// Returns the form to sign in, with a message; `next` is the wanted page, or empty.
fn page(door: &ConsoleDoor, status: StatusCode, message: &str, next: &str) -> Response {
    let next = Some(next).filter(|next| !next.is_empty());
    (status, Html(sign_in::sign_in(&door.choices(), Some(message), next))).into_response()
}

/// As [`page`], where the attempt is over.
fn ended(door: &ConsoleDoor, status: StatusCode, message: &str, next: &str) -> Response {
    (door.set_attempt("", 0), page(door, status, message, next)).into_response()
}
