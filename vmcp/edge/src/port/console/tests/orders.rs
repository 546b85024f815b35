//! Tests of orders: the form that each needs, the role, and the record for audit.

use std::sync::Arc;

use axum::Extension;
use axum::http::{StatusCode, header};
use parking_lot::Mutex;
use vmcp_engine::engine::Options;
use vmcp_engine::telemetry::calls::{Action, CallObserver, CallRecord};
use vmcp_engine::testing::{KEYWORDS, config, engine_with};

use super::{LOOPBACK, TOKEN, at, form_token, send, serving, signed_in_page, text};
use crate::port::admin::guard::audit::OperatorAddress;

#[tokio::test]
async fn an_order_needs_the_form_token_of_its_own_session() {
    let engine = serving(&format!("{{ adminTokens: [{TOKEN}] }}")).await;
    let router = at(&engine, LOOPBACK);
    let orders = [
        "refresh?server=x",
        "restart?server=x",
        "approve?server=x&tool=y",
        "forget?server=x&tool=y",
        "enable?server=x",
        "disable?server=x",
        "try?server=x&tool=y",
        "try/answer?server=x&tool=y&call=z",
        "logins/forget?server=x",
        "logins/sign-in?server=x",
        "logins/sign-out?server=x",
    ];
    let token = form_token(&signed_in_page(&router).await);
    let server = "backends: [{ name: x, url: \"http://127.0.0.1:1/mcp\" }]";
    engine.apply(config(&format!("{server}\n{KEYWORDS}"))).await;
    for order in orders {
        for body in ["", "form_token=", "form_token=00", &*format!("form_token={token}")] {
            let refused = send(&router, "POST", &format!("/console/{order}"), &[], body).await;
            assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{order} {body}");
        }
        let foreign = [("sec-fetch-site", "cross-site")];
        let refused = send(&router, "POST", &format!("/console/{order}"), &foreign, "").await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{order}");
        let seen = send(&router, "GET", &format!("/console/{order}"), &[], "").await.status();
        assert!(seen.is_client_error(), "a link carries out nothing: {order} {seen}");
    }
    let long = format!("form_token={}", "x".repeat(300 << 10));
    let refused = send(&router, "POST", "/console/refresh?server=x", &[], &long).await;
    assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let own = form_token(&text(send(&router, "GET", "/console/server?server=x", &[], "").await).await);
    let body = format!("form_token={own}");
    let done = send(&router, "POST", "/console/refresh?server=x", &[], &body).await;
    assert_eq!(done.status(), StatusCode::SEE_OTHER, "the visitor's own token");
}

#[tokio::test]
async fn a_viewer_reads_and_gives_no_orders() {
    const VIEWER: &str = "a viewer's token of enough characters";
    let engine = serving(&format!("{{ adminTokens: [{TOKEN}], viewerTokens: [\"{VIEWER}\"] }}")).await;
    let router = at(&engine, LOOPBACK);
    let body = url::form_urlencoded::Serializer::new(String::new()).append_pair("token", VIEWER).finish();
    let signed_in = send(&router, "POST", "/console/sign-in", &[], &body).await;
    assert_eq!(signed_in.status(), StatusCode::SEE_OTHER);
    let cookie = signed_in.headers()[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap();
    let bearer = format!("Bearer {VIEWER}");
    for viewer in [[("cookie", cookie)], [("authorization", &*bearer)]] {
        let page = send(&router, "GET", "/console/", &viewer, "").await;
        assert_eq!(page.status(), StatusCode::OK);
        let refused = send(&router, "POST", "/console/refresh?server=x", &viewer, "form_token=00").await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        assert!(text(refused).await.contains("your role is viewer"), "the role decides, before the form");
        let report = send(&router, "GET", "/admin/status", &viewer, "").await;
        assert_eq!(report.status(), StatusCode::UNAUTHORIZED, "the admin API takes no viewer");
    }
    let page = text(send(&router, "GET", "/console/", &[("cookie", cookie)], "").await).await;
    let body = format!("form_token={}", form_token(&page));
    let out = send(&router, "POST", "/console/sign-out", &[("cookie", cookie)], &body).await;
    assert_eq!(out.status(), StatusCode::SEE_OTHER, "a viewer may sign out");
}

/// Keeps the actions that it is told of.
#[derive(Debug, Default)]
struct SeenActions(Mutex<Vec<String>>);

impl CallObserver for SeenActions {
    fn observe(&self, _: &CallRecord) {}

    fn acted(&self, action: &Action<'_>) {
        let Action { name, target, result, actor, .. } = action;
        let (target, actor) = (target.unwrap_or_default(), actor.unwrap_or_default());
        self.0.lock().push(format!("{name} {target} {result} by {actor}"));
    }
}

#[tokio::test]
async fn each_order_is_on_record_with_who_gave_it_and_how_it_ended() {
    const VIEWER: &str = "a viewer's token of enough characters";
    let seen = Arc::<SeenActions>::default();
    let options = Options { observers: vec![Arc::clone(&seen) as _], ..Options::default() };
    let engine = engine_with(KEYWORDS, options).await;
    let server = format!("{{ adminTokens: [{TOKEN}], viewerTokens: [\"{VIEWER}\"] }}");
    let backend = "backends: [{ name: x, url: \"http://127.0.0.1:1/mcp\" }]";
    engine.apply(config(&format!("server: {server}\n{backend}\n{KEYWORDS}"))).await;
    let router = at(&engine, LOOPBACK).layer(Extension(OperatorAddress(LOOPBACK.into())));
    let (operator, viewer) = (format!("Bearer {TOKEN}"), format!("Bearer {VIEWER}"));
    let operator = [("authorization", &*operator)];
    let page = text(send(&router, "GET", "/console/server?server=x", &operator, "").await).await;
    let body = format!("form_token={}", form_token(&page));
    for (order, headers, body, expected, actor) in [
        ("refresh?server=x", &operator, &*body, "303", "admin token "),
        ("refresh?server=x", &operator, "form_token=00", "403", "admin token "),
        ("refresh?server=x", &[("authorization", &*viewer)], "", "403", "viewer token "),
        ("logins/forget?server=x", &[("authorization", &*viewer)], "", "403", "viewer token "),
    ] {
        let answer = send(&router, "POST", &format!("/console/{order}"), headers, body).await;
        assert_eq!(answer.status().as_str(), expected, "{order}");
        let last = seen.0.lock().last().cloned().unwrap_or_default();
        let begin = format!("POST /console/{} {expected} by {actor}", order.replace('?', " "));
        assert!(last.starts_with(&begin), "{last}");
        assert!(!last.contains(TOKEN) && !last.contains(VIEWER), "{last}");
    }
}
