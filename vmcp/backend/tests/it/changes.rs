//! Definitions that change: announced, polled, or not to be had for a while.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use vmcp_backend::{Backend, BackendSettings};

use crate::support::scripts::{initialized, legacy};
use crate::support::server::{Reply, SeenRequest, Server, event};
use crate::support::{eventually, settings, spec, wait_for_definitions};

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// A list with one tool, named after how often the list was asked for.
fn counted(seen: &SeenRequest, count: &AtomicU32) -> Reply {
    let name = format!("tool{}", count.fetch_add(1, Ordering::SeqCst) + 1);
    Reply::Json(seen.answer(json!({"tools": [{"name": name, "inputSchema": {"type": "object"}}]})))
}

fn named(name: &'static str) -> impl Fn(&vmcp_model::discovered::Discovered) -> bool {
    move |found| found.tools.first().is_some_and(|tool| tool.name == name)
}

#[tokio::test]
async fn a_legacy_server_announces_on_its_get_stream() {
    let (announce, stream) = mpsc::unbounded_channel();
    let stream = Mutex::new(Some(stream));
    let lists = AtomicU32::new(0);
    let rest = legacy(|_| Reply::Hang);
    let server = Server::start(move |seen| match (seen.http.as_str(), seen.method()) {
        ("GET", _) => match stream.lock().unwrap().take() {
            Some(stream) => Reply::Live(": open\n\n".to_owned(), stream),
            None => Reply::Status(405, String::new()),
        },
        (_, "tools/list") => counted(seen, &lists),
        _ => rest(seen),
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    wait_for_definitions(&backend, named("tool1")).await;
    eventually("the stream", || server.seen().into_iter().find(|seen| seen.http == "GET")).await;
    // A burst is one change.
    for _ in 0..5 {
        announce.send(event(CHANGED)).unwrap();
    }
    wait_for_definitions(&backend, named("tool2")).await;
    // A ping on the stream is answered.
    announce.send(event(r#"{"jsonrpc":"2.0","id":"p1","method":"ping"}"#)).unwrap();
    let pong =
        eventually("the pong", || server.seen().into_iter().find(|seen| seen.body["id"] == "p1")).await;
    assert_eq!(pong.body["result"], json!({}));
    announce.send(event(r#"{"jsonrpc":"2.0","id":"r1","method":"roots/list"}"#)).unwrap();
    let answered =
        eventually("the answer", || server.seen().into_iter().find(|seen| seen.body["id"] == "r1")).await;
    assert_eq!(answered.body["error"]["code"], -32601, "nobody is there to be asked: {answered:?}");
    backend.stop().await;
}

#[tokio::test]
async fn a_modern_server_announces_on_one_subscription() {
    let (announce, stream) = mpsc::unbounded_channel();
    let stream = Mutex::new(Some(stream));
    let lists = AtomicU32::new(0);
    let server = Server::start(move |seen| match seen.method() {
        "server/discover" => Reply::Json(seen.answer(json!({
            "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": true}, "prompts": {}},
        }))),
        "tools/list" => counted(seen, &lists),
        "prompts/list" => Reply::Json(seen.answer(r#"{"prompts":[{"name":"p"}]}"#)),
        "subscriptions/listen" => {
            let acknowledged = r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}"#;
            Reply::Live(event(acknowledged), stream.lock().unwrap().take().unwrap())
        }
        method => panic!("unexpected {method}"),
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    wait_for_definitions(&backend, named("tool1")).await;
    let listen = eventually("the subscription", || server.asked("subscriptions/listen").pop()).await;
    assert_eq!(
        listen.body["params"]["notifications"],
        json!({"toolsListChanged": true}),
        "only what is promised"
    );
    announce.send(event(CHANGED)).unwrap();
    let found = wait_for_definitions(&backend, named("tool2")).await;
    assert_eq!(found.prompts.len(), 1);
    backend.stop().await;
    eventually("the end of the subscription", || (server.streams_closed_by_client() == 1).then_some(()))
        .await;
}

#[tokio::test]
async fn definitions_are_listed_again_on_a_timer_and_on_demand() {
    let lists = AtomicU32::new(0);
    let rest = legacy(|_| Reply::Hang);
    let server = Server::start(move |seen| match seen.method() {
        "tools/list" => counted(seen, &lists),
        _ => rest(seen),
    })
    .await;
    let interval = Duration::from_millis(300);
    let timed = Backend::start(
        spec("b", server.transport()),
        BackendSettings { refresh_interval: interval, ..settings() },
        None,
    );
    wait_for_definitions(&timed, named("tool2")).await;
    timed.stop().await;
    let before = server.asked("tools/list").len();
    let asked = Backend::start(spec("b", server.transport()), settings(), Some(crate::support::cached()));
    asked.refresh();
    eventually("the listing", || (server.asked("tools/list").len() == before + 1).then_some(())).await;
    eventually("its end", || asked.status().last_refresh).await;
    asked.refresh();
    eventually("the second one", || (server.asked("tools/list").len() == before + 2).then_some(())).await;
    asked.stop().await;
}

#[tokio::test]
async fn a_listing_that_fails_keeps_the_last_good_definitions() {
    let lists = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&lists);
    let rest = legacy(|_| Reply::Hang);
    let server = Server::start(move |seen| match (seen.method(), count.load(Ordering::SeqCst)) {
        ("initialize", _) => Reply::Json(seen.answer(initialized())),
        ("tools/list", 0) => counted(seen, &count),
        ("tools/list", n) => {
            count.store(n + 1, Ordering::SeqCst);
            [Reply::Status(500, String::new()), Reply::Json(seen.error(-32000)), Reply::Json("[]".to_owned())]
                .into_iter()
                .nth(n as usize % 3)
                .unwrap()
        }
        _ => rest(seen),
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    wait_for_definitions(&backend, named("tool1")).await;
    for round in 2..=4 {
        backend.refresh();
        eventually("the listing", || (lists.load(Ordering::SeqCst) == round).then_some(())).await;
    }
    eventually("the reason", || backend.status().last_error.filter(|error| error.contains("listing failed")))
        .await;
    assert_eq!(backend.status().tools, Some(1));
    backend.stop().await;
}

#[tokio::test]
async fn a_first_listing_that_fails_is_repeated_until_one_succeeds() {
    let failures: [fn(&SeenRequest) -> Reply; 4] = [
        |_| Reply::Status(503, String::new()),
        |seen| Reply::Json(seen.error(-32603)),
        |seen| Reply::Json(seen.error(-32601)),
        |_| Reply::Json("[]".to_owned()),
    ];
    for failure in failures {
        let ready = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ready);
        let lists = AtomicU32::new(0);
        let rest = legacy(|_| Reply::Hang);
        let server = Server::start(move |seen| match seen.method() {
            "tools/list" if flag.load(Ordering::SeqCst) => counted(seen, &lists),
            "tools/list" => failure(seen),
            _ => rest(seen),
        })
        .await;
        let backend = Backend::start(spec("b", server.transport()), settings(), None);
        let failed = || Some(backend.status()).filter(|_| server.asked("tools/list").len() >= 3);
        let status = eventually("repeated listings", failed).await;
        assert_eq!(status.tools, None, "unknown is not none");
        assert!(status.last_error.unwrap().contains("listing failed"));
        ready.store(true, Ordering::SeqCst);
        wait_for_definitions(&backend, named("tool1")).await;
        eventually("a status without error", || backend.status().last_error.is_none().then_some(())).await;
        assert_eq!(backend.status().tools, Some(1));
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_announces_without_end_is_listed_ever_less_often() {
    let (announce, stream) = mpsc::unbounded_channel();
    let stream = Mutex::new(Some(stream));
    let lists = AtomicU32::new(0);
    let rest = legacy(|_| Reply::Hang);
    let server = Server::start(move |seen| match (seen.http.as_str(), seen.method()) {
        ("GET", _) => match stream.lock().unwrap().take() {
            Some(stream) => Reply::Live(": open\n\n".to_owned(), stream),
            None => Reply::Status(405, String::new()),
        },
        (_, "tools/list") => counted(seen, &lists),
        _ => rest(seen),
    })
    .await;
    let debounce = Duration::from_millis(20);
    let settings = BackendSettings { refresh_debounce: debounce, ..settings() };
    let backend = Backend::start(spec("b", server.transport()), settings, None);
    wait_for_definitions(&backend, named("tool1")).await;
    // With a constant debounce this would be about a hundred listings.
    for _ in 0..200 {
        announce.send(event(CHANGED)).unwrap();
        tokio::time::sleep(debounce / 2).await;
    }
    let listed = server.asked("tools/list").len();
    assert!((2..20).contains(&listed), "{listed} listings");
    backend.stop().await;
}

#[tokio::test]
async fn a_list_that_changes_unannounced_is_noticed_soon_and_only_where_nothing_is_heard() {
    let unheard = Duration::from_millis(300);
    let settings = || BackendSettings { unheard_refresh_interval: unheard, ..settings() };
    let start = async |has_stream: bool| {
        let lists = AtomicU32::new(0);
        let rest = legacy(|_| Reply::Hang);
        let server = Server::start(move |seen| match (seen.http.as_str(), seen.method()) {
            ("GET", _) if has_stream => {
                let (sender, stream) = mpsc::unbounded_channel();
                // The stream stays open.
                std::mem::forget(sender);
                Reply::Live(": open\n\n".to_owned(), stream)
            }
            (_, "tools/list") => counted(seen, &lists),
            _ => rest(seen),
        })
        .await;
        (Backend::start(spec("b", server.transport()), settings(), None), server)
    };
    let (deaf, _server) = start(false).await;
    wait_for_definitions(&deaf, named("tool2")).await;
    deaf.stop().await;
    let (hearing, server) = start(true).await;
    wait_for_definitions(&hearing, named("tool1")).await;
    tokio::time::sleep(unheard * 4).await;
    assert_eq!(server.asked("tools/list").len(), 1);
    hearing.stop().await;
}
