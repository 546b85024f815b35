//! Services that take notices, refuse them, fail, and hang.

use std::future::pending;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;
use vmcp_config::SESSION_EVENTS;
use vmcp_hooks::decision::{KnownSessions, Moment, decide};
use vmcp_hooks::hook_call::HookCall;
use vmcp_hooks::hook_type::HookType;
use vmcp_hooks::report::HookReport;

use super::*;

/// Time after which a test fails instead of waiting on.
const LIMIT: Duration = Duration::from_secs(30);

/// Starts a service that answers with `statuses`, the last one again and again; 0 never answers.
async fn service(statuses: &'static [u16]) -> (String, UnboundedReceiver<(HeaderMap, Value)>) {
    let (told, notices) = unbounded_channel();
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let answer = move |headers: HeaderMap, body: Bytes| {
        let (told, asked) = (told.clone(), Arc::clone(&asked));
        async move {
            let number = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            told.send((headers, serde_json::from_slice(&body).unwrap())).unwrap();
            match statuses[number.min(statuses.len() - 1)] {
                0 => pending().await,
                status => StatusCode::from_u16(status).unwrap(),
            }
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/in", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/in", post(answer))).await });
    (url, notices)
}

fn configured(url: &str, more: &str) -> Vec<Arc<SessionWebhook>> {
    // `main` installs the provider. Another test may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let webhook =
        format!("{{ name: chat, url: '{url}', insecureAllowHttp: true, allowPrivateIp: true, {more} }}");
    let text = format!("optimizer: {{ sessionHooks: {{ webhooks: [{webhook}] }} }}");
    crate::testing::config(&text).optimizer.session_hooks.webhooks.clone()
}

fn webhooks(metrics: &Arc<Metrics>) -> SessionWebhooks {
    SessionWebhooks { first_pause: Duration::from_millis(1), ..SessionWebhooks::new(metrics) }
}

fn news(hook_type: &str, id: usize) -> HookNews {
    let params = json!({"session_id": format!("s{id}"), "prompt": "Help me refactor auth", "transcript": "User: a secret"});
    let call =
        HookCall::read(&json!({"hook_type": hook_type, "params": params, "source": "Codex"}).to_string());
    let call = call.unwrap();
    let moment = Moment { now: 0, new_id: "u".to_owned(), machine_id: "m".to_owned(), summary: None };
    HookReport::new(&call, decide(&call, KnownSessions::default(), moment), None).news
}

async fn counted(metrics: &Metrics, outcome: &str, number: usize) {
    let line = format!("vmcp_session_notices_total{{webhook=\"chat\",outcome=\"{outcome}\"}} {number}\n");
    let reached = async {
        while !metrics.encode().contains(&line) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, reached).await.unwrap_or_else(|_| panic!("no {line} in {}", metrics.encode()));
}

/// Returns the next notice that a service got.
async fn next(notices: &mut UnboundedReceiver<(HeaderMap, Value)>) -> (HeaderMap, Value) {
    timeout(LIMIT, notices.recv()).await.expect("a notice").unwrap()
}

#[test]
fn every_type_of_hook_can_be_configured() {
    for event in SESSION_EVENTS {
        assert_eq!(HookType::from_name(event).map(HookType::normalized), Some(event));
    }
    for name in HookType::available() {
        let event = HookType::from_name(name).unwrap().normalized();
        assert!(SESSION_EVENTS.contains(&event), "{name}");
    }
}

#[tokio::test]
async fn notices_come_signed_in_their_order_and_again_after_an_outage() {
    let (url, mut notices) = service(&[503, 204]).await;
    let metrics = Arc::new(Metrics::new());
    let configured = configured(&url, "hmacSecret: 0123456789abcdefghij, events: [session-start, stop]");
    let webhooks = webhooks(&metrics);
    for (hook_type, id) in [("SessionStart", 1), ("PreToolUse", 1), ("SessionStart", 2), ("Stop", 1)] {
        webhooks.tell(&configured, &news(hook_type, id));
    }
    let mut told = Vec::new();
    for _ in 0..4 {
        let (headers, notice) = next(&mut notices).await;
        assert!(headers.contains_key("vmcp-timestamp"));
        assert!(headers["vmcp-signature"].to_str().unwrap().starts_with("sha256="));
        assert!(!notice.to_string().contains("secret"), "{notice}");
        told.push((notice["uid"].clone(), notice["event"].clone(), notice["session"]["external_id"].clone()));
    }
    assert_eq!(told[0], told[1], "the same notice again");
    let order: Vec<_> = told[1..].iter().map(|(_, event, id)| (event.clone(), id.clone())).collect();
    let expected = [("session-start", "s1"), ("session-start", "s2"), ("stop", "s1")];
    assert_eq!(order, expected.map(|(event, id)| (json!(event), json!(id))));
    counted(&metrics, "sent", 3).await;
}

#[tokio::test]
async fn a_refusal_is_not_repeated_and_an_outage_ends_after_five_attempts() {
    for (statuses, attempts) in [(&[404][..], 1), (&[500][..], 5)] {
        let (url, mut notices) = service(statuses).await;
        let metrics = Arc::new(Metrics::new());
        let webhooks = webhooks(&metrics);
        webhooks.tell(&configured(&url, ""), &news("SessionStart", 1));
        counted(&metrics, "failed", 1).await;
        let came = std::iter::from_fn(|| notices.try_recv().ok()).count();
        assert_eq!(came, attempts);
    }
}

#[tokio::test]
async fn a_service_that_hangs_fills_its_queue_and_delays_no_hook() {
    let (url, mut notices) = service(&[0]).await;
    let metrics = Arc::new(Metrics::new());
    let (configured, webhooks) = (configured(&url, "timeout: 30s"), webhooks(&metrics));
    webhooks.tell(&configured, &news("SessionStart", 0));
    next(&mut notices).await;
    for id in 0..MAX_WAITING + 3 {
        webhooks.tell(&configured, &news("SessionStart", id));
    }
    counted(&metrics, "dropped", 3).await;
    webhooks.retain(&configured);
    assert_eq!(webhooks.lanes.lock().len(), 1);
    webhooks.retain(&[]);
    assert!(webhooks.lanes.lock().is_empty(), "a service that is configured no more");
    // The waiting notices, and the one at the service.
    counted(&metrics, "dropped", 3 + MAX_WAITING + 1).await;
}

#[tokio::test]
async fn a_service_that_floods_has_taken_the_notice_and_a_service_that_redirects_has_not() {
    let flood = || async { "x".repeat(10_000_000) };
    let moved = || async { axum::response::Redirect::temporary("/flood") };
    let router = Router::new().route("/flood", post(flood)).route("/moved", post(moved));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    for (path, outcome) in [("/flood", "sent"), ("/moved", "failed")] {
        let metrics = Arc::new(Metrics::new());
        let (configured, webhooks) = (configured(&format!("http://{address}{path}"), ""), webhooks(&metrics));
        webhooks.tell(&configured, &news("SessionStart", 1));
        counted(&metrics, outcome, 1).await;
    }
}
