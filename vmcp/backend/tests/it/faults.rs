//! Faulty servers: their messages are bounded, and the calls go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use vmcp_backend::{Backend, BackendSettings, ByteBudget, Downstream, Event, SessionId};

use crate::support::scripts::{echo, legacy};
use crate::support::server::{Reply, Server, event};
use crate::support::{call, eventually, result, settings, spec};

const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
const UPDATED: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"r:1"}}"#;

#[derive(Clone, Debug, Default)]
struct Counter(Arc<AtomicU32>);

impl Downstream for Counter {
    fn deliver(&self, _: &str, _: Option<SessionId>, _: Event) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_stream_of_rubbish_is_opened_again_and_calls_go_on() {
    let messages = [
        "[]".to_owned(),
        format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000)),
        // An answer to no request.
        ANSWER.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{}}}"#.to_owned(),
        UPDATED.to_owned(),
    ];
    let messages: String = messages.iter().map(|message| event(message)).collect();
    let streams =
        [messages.into_bytes(), b"data: \xff\xfe not UTF-8\n\n".to_vec(), b"data: half an ev".to_vec()];
    let sent = AtomicU32::new(0);
    let rest = legacy(echo);
    let server = Server::start(move |seen| {
        if seen.http != "GET" {
            return rest(seen);
        }
        let stream = streams.get(sent.fetch_add(1, Ordering::SeqCst) as usize);
        stream.map_or(Reply::Hang, |bytes| Reply::Broken(bytes.clone()))
    })
    .await;
    let counter = Counter::default();
    let settings = BackendSettings { downstream: Arc::new(counter.clone()), ..settings() };
    let backend = Backend::start(spec("b", server.transport()), settings, None);
    let opened = || server.seen().into_iter().filter(|seen| seen.http == "GET").count();
    for streams in 1..=3 {
        eventually("a stream", || (opened() >= streams).then_some(())).await;
        assert_eq!(result(&call(&backend, "echo").await.unwrap()), r#"{"content":[]}"#);
    }
    assert_eq!(counter.0.load(Ordering::SeqCst), 1, "what could be read was");
    assert_eq!(backend.status().restarts, 0);
    backend.stop().await;
}

#[tokio::test]
async fn a_flood_of_notifications_neither_blocks_calls_nor_piles_up() {
    const EACH: usize = 20_000;
    let rest = legacy(echo);
    let server = Server::start(move |seen| {
        let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#;
        let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        if seen.http == "GET" {
            let (more, receiver) = tokio::sync::mpsc::unbounded_channel();
            std::mem::forget(more);
            let flood = [progress, changed, UPDATED].map(|message| event(message).repeat(EACH)).concat();
            return Reply::Live(flood, receiver);
        }
        rest(seen)
    })
    .await;
    let counter = Counter::default();
    let settings = BackendSettings { downstream: Arc::new(counter.clone()), ..settings() };
    let backend = Backend::start(spec("b", server.transport()), settings, None);
    for _ in 0..10 {
        call(&backend, "echo").await.unwrap();
    }
    eventually("all updates", || (counter.0.load(Ordering::SeqCst) as usize == EACH).then_some(())).await;
    let lists = server.asked("tools/list").len();
    assert!(lists < 1000, "{lists} listings for {EACH} announcements");
    backend.stop().await;
}

#[tokio::test]
async fn an_answer_without_room_fails_its_call_and_is_not_held_against_the_backend() {
    let large = format!(r#"{{"content":[],"a":"{}"}}"#, "x".repeat(100_000));
    let server = Server::start(legacy(move |seen| match seen.body["params"]["name"].as_str() {
        Some("large") => Reply::Json(seen.answer(&large)),
        Some("stream") => Reply::Pieces(vec![event(&seen.answer(&large))]),
        _ => echo(seen),
    }))
    .await;
    let byte_budget = ByteBudget::new(50_000);
    let settings = BackendSettings { byte_budget: byte_budget.clone(), ..settings() };
    let backend = Backend::start(spec("b", server.transport()), settings, None);
    for _ in 0..6 {
        for name in ["large", "stream"] {
            let error = call(&backend, name).await.unwrap_err();
            assert_eq!(error.category(), "overloaded");
            assert!(error.to_string().contains("50000 bytes"), "{error}");
        }
    }
    let response = call(&backend, "echo").await.unwrap();
    assert!(byte_budget.held() > 0);
    drop(response);
    assert_eq!(byte_budget.held(), 0);
    backend.stop().await;
}
