//! Sign-in with a token, typed once, and the end of a session.

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};
use vmcp_console::links::ROOT;
use vmcp_console::pages::sign_in;
use vmcp_engine::random::now;

use super::headers::secure_for;
use super::wanted_page::is_page;
use super::{ConsoleDoor, Visitor, end_of, too_many};
use crate::port::admin::guard::audit;
use crate::port::console::forms;
use crate::port::console::session_key::{SESSION_SECONDS, name_of};

/// Most bytes of the form to sign in: 4 KiB, far above any token.
const MAX_SIGN_IN_BYTES: usize = 4 << 10;

/// Answers `POST /console/sign-in`: a token, typed once, becomes a cookie.
pub(in crate::port::console) async fn sign_in(State(door): State<ConsoleDoor>, request: Request) -> Response {
    let sender = audit::sender(&request);
    let path = request.uri().path().to_owned();
    let secure = secure_for(request.headers());
    let Ok(arriving) = door.0.arriving.try_acquire() else {
        return too_many("too many people sign in at once\n");
    };
    let pairs = match forms::read(request.into_body(), MAX_SIGN_IN_BYTES).await {
        Ok(pairs) => pairs,
        Err(refusal) => return refusal,
    };
    // The pause after a wrong token has places of its own.
    drop(arriving);
    let token = forms::value(&pairs, "token");
    let Some(kind) = door.kind_of(token.as_bytes()) else {
        door.0.guard.record_refusal(&sender, &path, true);
        if !door.0.guard.slow_down().await {
            return too_many("too many wrong tokens\n");
        }
        let message = Some("This is none of the server's tokens.");
        let page = Html(sign_in::sign_in(&door.choices(), message, wanted_page(&pairs)));
        return (StatusCode::UNAUTHORIZED, page).into_response();
    };
    door.record_sign_in(&sender, Some(&audit::token_name(token.as_bytes(), kind)), "ok", false);
    let cookie = door.keys().session(token.as_bytes(), now() + SESSION_SECONDS);
    let next = format!("{ROOT}{}", wanted_page(&pairs).unwrap_or_default());
    (door.set_cookie(&cookie, SESSION_SECONDS, secure), Redirect::to(&next)).into_response()
}

/// Returns the page that a form to sign in names: its address behind [`ROOT`], and so on this host.
fn wanted_page(pairs: &[(String, String)]) -> Option<&str> {
    Some(forms::value(pairs, sign_in::NEXT)).filter(|next| is_page(next))
}

/// Answers `POST /console/sign-out`: the browser forgets its cookie, and no replica accepts a copy of it.
pub(in crate::port::console) async fn sign_out(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
) -> Response {
    if !visitor.session.is_empty() {
        door.engine().end_console_session(name_of(&visitor.session), end_of(&visitor.session));
    }
    (door.set_cookie("", 0, secure_for(&headers)), Redirect::to(ROOT)).into_response()
}
