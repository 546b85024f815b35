//! Each route of the console, for a stranger, a viewer and an operator. The routes are read from the source
//! of the router: a new one fails this test until it stands in the table.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::Response;

use super::{LOOPBACK, TOKEN, at, form_token, send, serving, session_of, text};

const SOURCE: &str = include_str!("../../console.rs");
const VIEWER: &str = "a viewer token of enough characters";
/// Words of a refusal for the role.
const OF_ROLE: &str = "your role is viewer";
/// Words of a refusal for the form.
const OF_FORM: &str = "the form is of another page or session";

/// People for whom a route is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Audience {
    /// Everyone, before a sign-in.
    Everyone,
    /// Everyone who has signed in, to read.
    Readers,
    /// Everyone who has signed in, to change what is their own.
    Themselves,
    /// Operators.
    Operators,
}

/// Path, as the router has it, with the people for whom it is.
const ROUTES: [(&str, Audience); 37] = [
    ("/console", Audience::Everyone),
    ("/console/console.css", Audience::Everyone),
    ("/console/console.js", Audience::Everyone),
    ("/console/oidc/callback", Audience::Everyone),
    ("/console/oidc/start", Audience::Everyone),
    ("/console/sign-in", Audience::Everyone),
    ("/console/", Audience::Readers),
    ("/console/call", Audience::Readers),
    ("/console/calls", Audience::Readers),
    ("/console/calls/rows", Audience::Readers),
    ("/console/clients", Audience::Readers),
    ("/console/configuration", Audience::Readers),
    ("/console/connect", Audience::Readers),
    ("/console/logins", Audience::Readers),
    ("/console/logs", Audience::Readers),
    ("/console/offer", Audience::Readers),
    ("/console/search", Audience::Readers),
    ("/console/sent", Audience::Readers),
    ("/console/server", Audience::Readers),
    ("/console/tool", Audience::Readers),
    ("/console/tools", Audience::Readers),
    ("/console/try", Audience::Readers),
    ("/console/usage", Audience::Readers),
    ("/console/wanted", Audience::Readers),
    ("/console/{*unknown}", Audience::Readers),
    ("/console/approve", Audience::Operators),
    ("/console/disable", Audience::Operators),
    ("/console/enable", Audience::Operators),
    ("/console/forget", Audience::Operators),
    ("/console/logins/sign-in", Audience::Operators),
    ("/console/logins/sign-out", Audience::Operators),
    ("/console/refresh", Audience::Operators),
    ("/console/restart", Audience::Operators),
    ("/console/try", Audience::Operators),
    ("/console/try/answer", Audience::Operators),
    ("/console/logins/forget", Audience::Themselves),
    // The last one: it ends the sessions of the others.
    ("/console/sign-out", Audience::Themselves),
];

/// Returns the path and the method of each route of the router's source.
fn routes_of_source() -> Vec<(String, &'static str)> {
    let (routes, _) = SOURCE.split_once("pub(super) fn replica_routes").unwrap();
    let calls = routes.split(".route(").skip(1);
    let route = |call: &'static str| {
        let (path, handler) = call.split_once(", ").unwrap();
        let path = if path == "CONSOLE_CALLBACK" { "/console/oidc/callback" } else { path.trim_matches('"') };
        (path.to_owned(), handler.split('(').next().unwrap())
    };
    calls.map(route).collect()
}

/// Returns the paths of the table for one way of asking.
fn paths(wanted: &[Audience]) -> Vec<&'static str> {
    let of = |(path, people): &(&'static str, Audience)| wanted.contains(people).then_some(*path);
    ROUTES.iter().filter_map(of).collect()
}

#[test]
fn each_route_of_the_router_is_in_the_table() {
    let mut written = routes_of_source();
    written.sort_unstable();
    let known = ROUTES.iter().map(|(path, people)| {
        let is_order = matches!(people, Audience::Themselves | Audience::Operators);
        let method = if path.contains('*') { "any" } else { "get" };
        ((*path).to_owned(), if is_order { "post" } else { method })
    });
    let mut known: Vec<_> = known.collect();
    known.sort_unstable();
    assert_eq!(written, known);
}

/// Checks the headers that every answer has.
fn check_headers(answer: &Response, what: &str) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; script-src 'self'"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
    ] {
        let given = answer.headers().get(&name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        assert!(given.starts_with(value), "{what}: {name}: {given}");
    }
}

/// A router, with the cookie and the form token of an operator and of a viewer.
struct SignedInPeople {
    router: Router,
    operator: (String, String),
    viewer: (String, String),
}

async fn signed() -> SignedInPeople {
    let engine = serving(&format!("{{ adminTokens: [{TOKEN}], viewerTokens: [{VIEWER}] }}")).await;
    let router = at(&engine, LOOPBACK);
    let person = async |token: &str| {
        let cookie = session_of(&router, token).await;
        let page = text(send(&router, "GET", "/console/", &[("cookie", &*cookie)], "").await).await;
        (cookie, format!("form_token={}", form_token(&page)))
    };
    let (operator, viewer) = (person(TOKEN).await, person(VIEWER).await);
    SignedInPeople { router, operator, viewer }
}

#[tokio::test]
async fn pages_are_for_readers_and_every_answer_has_the_headers() {
    let SignedInPeople { router, operator, viewer } = signed().await;
    for path in paths(&[Audience::Readers]) {
        let path = path.replace("{*unknown}", "no/such/page");
        for method in ["GET", "HEAD"] {
            let stranger = send(&router, method, &path, &[], "").await;
            assert_eq!(stranger.status(), StatusCode::UNAUTHORIZED, "{method} {path}");
            check_headers(&stranger, &path);
            for (cookie, _) in [&operator, &viewer] {
                let answer = send(&router, method, &path, &[("cookie", &**cookie)], "").await;
                // A page about one thing is asked for none here.
                assert!(
                    answer.status().is_success() || answer.status() == StatusCode::NOT_FOUND,
                    "{method} {path}: {}",
                    answer.status()
                );
                check_headers(&answer, &path);
            }
        }
        for method in ["PUT", "DELETE", "OPTIONS"] {
            let answer = send(&router, method, &path, &[("cookie", &*operator.0)], "").await;
            assert!(answer.status().is_client_error(), "{method} {path}: {}", answer.status());
            check_headers(&answer, &path);
        }
    }
    for path in paths(&[Audience::Everyone]) {
        let method = if path == "/console/sign-in" { "POST" } else { "GET" };
        check_headers(&send(&router, method, path, &[], "").await, path);
    }
}

#[tokio::test]
async fn orders_are_carried_out_for_their_people_with_the_form_of_their_session() {
    let SignedInPeople { router, operator, viewer } = signed().await;
    let (operator, own) = (&*operator.0, &*operator.1);
    let (viewer, of_viewer) = (&*viewer.0, &*viewer.1);
    for path in paths(&[Audience::Operators, Audience::Themselves]) {
        let is_own = paths(&[Audience::Themselves]).contains(&path);
        let address = format!("{path}?server=gone&tool=gone&call=gone");
        let order = async |cookie: &str, body: &str| {
            let answer = send(&router, "POST", &address, &[("cookie", cookie)], body).await;
            check_headers(&answer, path);
            (answer.status(), text(answer).await)
        };
        let (status, _) = order("", own).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}: a stranger with the form of another person");
        for body in ["", "form_token=00", of_viewer] {
            let (status, words) = order(operator, body).await;
            assert!(status == StatusCode::FORBIDDEN && words.contains(OF_FORM), "{path} {body}: {words}");
        }
        for foreign in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("origin", "http://localhost:9091"),
        ] {
            let refused = send(&router, "POST", &address, &[("cookie", operator), foreign], own).await;
            assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{path}: {foreign:?}");
            check_headers(&refused, path);
        }
        for method in ["GET", "HEAD", "PUT", "DELETE"] {
            let refused = send(&router, method, &address, &[("cookie", operator)], own).await;
            assert!(refused.status().is_client_error(), "{method} {path}: {}", refused.status());
        }
        let (status, words) = order(viewer, of_viewer).await;
        assert_eq!(words.contains(OF_ROLE), !is_own, "{path}: {status} {words}");
        let (status, words) = order(operator, own).await;
        let is_refused = words.contains(OF_ROLE) || words.contains(OF_FORM);
        assert!(!is_refused && status != StatusCode::UNAUTHORIZED, "{path}: {status} {words}");
    }
    for (cookie, who) in [(operator, "operator"), (viewer, "viewer")] {
        let after = send(&router, "GET", "/console/", &[("cookie", cookie)], "").await;
        assert_eq!(after.status(), StatusCode::UNAUTHORIZED, "{who} has signed out");
    }
}
