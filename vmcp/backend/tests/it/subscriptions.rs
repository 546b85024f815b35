//! Subscriptions to resources and tasks: counted, in force across connections, and told apart
//! by era.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use vmcp_backend::{Backend, BackendSettings, CallError, Request, RpcOutcome, Subscriber};

use crate::support::scripts::stateful;
use crate::support::server::{Reply, SeenRequest, Server, event};
use crate::support::{Mailbox, eventually, params_of, settings, spec};

/// Subscribes for clients on the main connection.
async fn subscribe(backend: &Backend, uri: &str) -> Result<RpcOutcome, CallError> {
    backend.subscribe(uri, &Subscriber::default()).await
}

fn listening(mailbox: &Mailbox) -> BackendSettings {
    BackendSettings { downstream: Arc::new(mailbox.clone()), ..settings() }
}

fn updated(uri: &str) -> String {
    let params = json!({"uri": uri});
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}).to_string()
}

/// The URIs that were told to a legacy server, and how.
fn told(server: &Server) -> Vec<String> {
    let all = server.seen().into_iter().filter(|seen| seen.method().ends_with("subscribe"));
    all.map(|seen| format!("{} {}", seen.method(), seen.body["params"]["uri"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn a_legacy_server_is_told_of_the_first_subscriber_and_of_the_last() {
    let (announce, stream) = mpsc::unbounded_channel();
    let stream = Mutex::new(Some(stream));
    let server = Server::start(stateful(move |seen| match stream.lock().unwrap().take() {
        Some(stream) if seen.http == "GET" => Reply::Live(": open\n\n".to_owned(), stream),
        _ => Reply::Status(405, String::new()),
    }))
    .await;
    let mailbox = Mailbox::default();
    let backend = Backend::start(spec("b", server.transport()), listening(&mailbox), None);
    let both = futures::future::join(subscribe(&backend, "r:1"), subscribe(&backend, "r:1")).await;
    assert!(matches!(both, (Ok(RpcOutcome::Result(_)), Ok(RpcOutcome::Result(_)))), "{both:?}");
    subscribe(&backend, "r:2").await.unwrap();
    announce.send(event(&updated("r:1"))).unwrap();
    let message = eventually("the update", || mailbox.all().pop()).await;
    assert_eq!(message, (None, updated("r:1")));
    backend.unsubscribe("r:1", None);
    backend.unsubscribe("r:2", None);
    eventually("the end of one", || {
        told(&server).iter().any(|told| told.ends_with("/unsubscribe r:2")).then_some(())
    })
    .await;
    backend.unsubscribe("r:1", None);
    backend.unsubscribe("r:1", None);
    eventually("the end of the other", || (told(&server).len() == 4).then_some(())).await;
    assert_eq!(
        told(&server),
        [
            "resources/subscribe r:1",
            "resources/subscribe r:2",
            "resources/unsubscribe r:2",
            "resources/unsubscribe r:1"
        ]
    );
    backend.stop().await;
}

#[tokio::test]
async fn a_refusal_counts_nobody_and_the_number_is_bounded() {
    let refuse = Arc::new(AtomicBool::new(true));
    let refusing = Arc::clone(&refuse);
    let rest = stateful(|_| Reply::Status(405, String::new()));
    let server = Server::start(move |seen| match seen.method() {
        "resources/subscribe" if refusing.load(Ordering::SeqCst) => Reply::Json(seen.error(-32002)),
        _ => rest(seen),
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let answer = subscribe(&backend, "r:1").await.unwrap();
    assert!(matches!(&answer, RpcOutcome::Error(error) if error.get().contains("-32002")), "{answer:?}");
    refuse.store(false, Ordering::SeqCst);
    let names: Vec<String> = (0..10_000).map(|n| format!("r:{n}")).collect();
    for names in names.chunks(100) {
        let subscribed = join_all(names.iter().map(|name| subscribe(&backend, name))).await;
        assert!(subscribed.iter().all(Result::is_ok));
    }
    assert_eq!(subscribe(&backend, "r:10000").await.unwrap_err().category(), "invalid_request");
    subscribe(&backend, "r:5").await.unwrap();
    assert_eq!(told(&server).len(), 10_001);
    assert_eq!(subscribe(&backend, &"x".repeat(9000)).await.unwrap_err().category(), "invalid_request");
    backend.stop().await;
}

#[tokio::test]
async fn after_a_reconnection_everything_is_subscribed_to_again_and_looked_at() {
    let lost = Arc::new(AtomicBool::new(false));
    let loses = Arc::clone(&lost);
    let rest = stateful(|seen| match seen.http.as_str() {
        "POST" => Reply::Json(seen.answer(r#"{"content":[]}"#)),
        _ => Reply::Status(405, String::new()),
    });
    let server = Server::start(move |seen| {
        let old = seen.header("mcp-session-id") == Some("s1");
        if old && loses.load(Ordering::SeqCst) { Reply::Status(404, String::new()) } else { rest(seen) }
    })
    .await;
    let mailbox = Mailbox::default();
    let backend = Backend::start(spec("b", server.transport()), listening(&mailbox), None);
    subscribe(&backend, "r:1").await.unwrap();
    assert!(mailbox.all().is_empty(), "nothing was missed");
    lost.store(true, Ordering::SeqCst);
    crate::support::call(&backend, "echo").await.unwrap();
    let message = eventually("the call to look again", || mailbox.all().pop()).await;
    assert_eq!(message, (None, updated("r:1")));
    let subscribed = server.asked("resources/subscribe");
    let sessions: Vec<_> = subscribed.iter().map(|seen| seen.header("mcp-session-id").unwrap()).collect();
    assert_eq!(sessions, ["s1", "s2"]);
    backend.stop().await;
}

#[tokio::test]
async fn a_renewal_that_hangs_holds_up_no_other() {
    let lost = Arc::new(AtomicBool::new(false));
    let loses = Arc::clone(&lost);
    let rest = stateful(|seen| match seen.http.as_str() {
        "POST" => Reply::Json(seen.answer(r#"{"content":[]}"#)),
        _ => Reply::Status(405, String::new()),
    });
    let server = Server::start(move |seen| {
        let is_old = seen.header("mcp-session-id") == Some("s1");
        match (is_old, loses.load(Ordering::SeqCst), seen.method()) {
            (true, true, _) => Reply::Status(404, String::new()),
            (false, true, "resources/subscribe") => Reply::Hang,
            _ => rest(seen),
        }
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    for uri in ["r:1", "r:2", "r:3"] {
        subscribe(&backend, uri).await.unwrap();
    }
    lost.store(true, Ordering::SeqCst);
    crate::support::call(&backend, "echo").await.unwrap();
    eventually("all renewals", || (told(&server).len() == 6).then_some(())).await;
    backend.stop().await;
}

#[tokio::test]
async fn a_thousand_subscriptions_at_once_are_a_few_requests_at_a_time() {
    let rest = stateful(|_| Reply::Status(405, String::new()));
    let server = Server::start(move |seen| match seen.method() {
        "resources/subscribe" => Reply::Hang,
        _ => rest(seen),
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let asked = join_all((0..1000).map(|n| {
        let backend = backend.clone();
        async move { subscribe(&backend, &format!("r:{n}")).await.map(drop) }
    }));
    let asked = tokio::spawn(asked);
    eventually("sixteen requests", || (told(&server).len() == 16).then_some(())).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(told(&server).len(), 16, "the others wait");
    asked.abort();
    backend.stop().await;
}

type Streams = Arc<Mutex<Vec<(Value, mpsc::UnboundedSender<String>)>>>;

/// A modern server that acknowledges what it is asked for, unless that holds the URI `r:bad`.
fn modern(streams: &Streams) -> impl Fn(&SeenRequest) -> Reply + Send + Sync + 'static {
    let streams = Arc::clone(streams);
    move |seen| match seen.method() {
        "server/discover" => Reply::Json(seen.answer(json!({
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}},
        }))),
        "subscriptions/listen" => {
            let wanted = &seen.body["params"]["notifications"];
            if wanted.to_string().contains("r:bad") {
                return Reply::Json(seen.error(-32602));
            }
            let (more, receiver) = mpsc::unbounded_channel();
            streams.lock().unwrap().push((wanted.clone(), more));
            let acknowledged =
                r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}"#;
            Reply::Live(event(acknowledged), receiver)
        }
        "tools/list" => Reply::Json(seen.answer(r#"{"tools":[]}"#)),
        "resources/list" => Reply::Json(seen.answer(r#"{"resources":[]}"#)),
        "resources/templates/list" => Reply::Json(seen.answer(r#"{"resourceTemplates":[]}"#)),
        method => panic!("unexpected {method}"),
    }
}

#[tokio::test]
async fn a_modern_server_has_one_subscription_for_everything() {
    let streams = Streams::default();
    let server = Server::start(modern(&streams)).await;
    let mailbox = Mailbox::default();
    let backend = Backend::start(spec("b", server.transport()), listening(&mailbox), None);
    eventually("the list filter", || (streams.lock().unwrap().len() == 1).then_some(())).await;
    // A burst is few streams.
    let uris: Vec<String> = (0..20).map(|n| format!("r:{n:02}")).collect();
    let burst = join_all(uris.iter().map(|uri| subscribe(&backend, uri))).await;
    assert!(burst.iter().all(|answer| matches!(answer, Ok(RpcOutcome::Result(_)))), "{burst:?}");
    let (filter, stream) = streams.lock().unwrap().last().cloned().unwrap();
    assert_eq!(filter["toolsListChanged"], true);
    let mut asked: Vec<String> = serde_json::from_value(filter["resourceSubscriptions"].clone()).unwrap();
    asked.sort();
    assert_eq!(asked, uris);
    let opened = streams.lock().unwrap().len();
    assert!(opened <= 5, "{opened} streams");
    eventually("the end of the others", || {
        (server.streams_closed_by_client() as usize == opened - 1).then_some(())
    })
    .await;
    stream.send(event(&updated("r:03"))).unwrap();
    let message = eventually("the update", || mailbox.all().pop()).await;
    assert_eq!(message, (None, updated("r:03")));

    // A refusal leaves the other subscriptions in force.
    let answer = subscribe(&backend, "r:bad").await.unwrap();
    assert!(matches!(answer, RpcOutcome::Error(_)), "{answer:?}");
    stream.send(event(&updated("r:04"))).unwrap();
    eventually("the next update", || (mailbox.all().len() == 2).then_some(())).await;

    for uri in &uris {
        backend.unsubscribe(uri, None);
    }
    backend.watch_task("t1").unwrap();
    let last = || streams.lock().unwrap().last().map(|(filter, _)| filter.clone());
    let wanted = json!({"toolsListChanged": true, "taskIds": ["t1"]});
    eventually("the task", || (last().as_ref() == Some(&wanted)).then_some(())).await;
    let task =
        r#"{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t1","status":"working"}}"#;
    streams.lock().unwrap().last().unwrap().1.send(event(task)).unwrap();
    eventually("its status", || mailbox.all().into_iter().find(|(_, message)| message == task)).await;
    backend.unwatch_task("t1");
    eventually("its end", || (last() == Some(json!({"toolsListChanged": true}))).then_some(())).await;
    backend.stop().await;
    eventually("the end of all", || {
        (server.streams_closed_by_client() as usize == streams.lock().unwrap().len()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_modern_stream_that_ends_is_opened_again_and_everybody_looks() {
    let streams = Streams::default();
    let server = Server::start(modern(&streams)).await;
    let mailbox = Mailbox::default();
    let backend = Backend::start(spec("b", server.transport()), listening(&mailbox), None);
    subscribe(&backend, "r:1").await.unwrap();
    let listed = server.asked("tools/list").len();
    let opened = streams.lock().unwrap().len();
    // Dropping the sender ends the stream.
    streams.lock().unwrap().iter_mut().for_each(|(_, stream)| *stream = mpsc::unbounded_channel().0);
    eventually("the next stream", || (streams.lock().unwrap().len() == opened + 1).then_some(())).await;
    let message = eventually("the call to look again", || mailbox.all().pop()).await;
    assert_eq!(message, (None, updated("r:1")));
    eventually("the listing", || (server.asked("tools/list").len() > listed).then_some(())).await;
    backend.stop().await;
}

#[tokio::test]
async fn a_session_with_a_connection_of_its_own_subscribes_there() {
    let (announce, stream) = mpsc::unbounded_channel();
    let stream = Mutex::new(Some(stream));
    let server =
        Server::start(stateful(move |seen| match (&*seen.http.to_string(), seen.header("mcp-session-id")) {
            ("GET", Some("s2")) => match stream.lock().unwrap().take() {
                Some(stream) => Reply::Live(": open\n\n".to_owned(), stream),
                None => Reply::Status(405, String::new()),
            },
            ("GET", _) => Reply::Status(405, String::new()),
            (_, Some("s2")) if seen.method() == "ping" || seen.method() == "tools/call" => {
                Reply::Status(404, String::new())
            }
            _ => Reply::Json(seen.answer("{}")),
        }))
        .await;
    let mailbox = Mailbox::default();
    let backend = Backend::start(spec("b", server.transport()), listening(&mailbox), None);
    let subscriber = Subscriber { session: Some([7; 16]), ..Subscriber::default() };
    for uri in ["r:1", "r:2"] {
        assert!(matches!(backend.subscribe(uri, &subscriber).await.unwrap(), RpcOutcome::Result(_)));
    }
    backend.unsubscribe("r:2", Some([7; 16]));
    eventually("the end of one", || server.asked("resources/unsubscribe").pop()).await;
    let sessions = |method: &str| {
        let asked = server.asked(method).into_iter();
        asked.map(|seen| seen.header("mcp-session-id").unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(sessions("resources/subscribe"), ["s2", "s2"]);
    assert_eq!(sessions("resources/unsubscribe"), ["s2"]);
    // Its stream is open, though the client listens to nothing here and can be asked nothing.
    announce.send(event(&updated("r:1"))).unwrap();
    let mail = eventually("the update", || mailbox.all().pop()).await;
    assert_eq!(mail, (Some([7; 16]), updated("r:1")));
    // A session that the server has forgotten is subscribed again, and its client told to look.
    let params = params_of(r#"{"name":"forget"}"#);
    let request = Request { session: Some([7; 16]), ..Request::new("tools/call", &params) };
    backend.request(request).await.unwrap();
    eventually("the renewal", || (sessions("resources/subscribe") == ["s2", "s2", "s3"]).then_some(())).await;
    let mail = eventually("the hint", || Some(mailbox.all()).filter(|all| all.len() == 2)).await;
    assert_eq!(mail[1], (Some([7; 16]), updated("r:1")));
    backend.end_session([7; 16]);
    backend.unsubscribe("r:1", Some([7; 16]));
    backend.stop().await;
}

#[tokio::test]
async fn subscriptions_that_a_server_does_not_declare_are_tried() {
    let rest = stateful(|_| Reply::Status(405, String::new()));
    let server = Server::start(move |seen| match (rest(seen), seen.body["params"]["uri"].as_str()) {
        // The Python SDK 1 declares `false` and serves them.
        (Reply::Session(id, body), _) => {
            Reply::Session(id, body.replace(r#""subscribe":true"#, r#""subscribe":false"#))
        }
        (_, Some("r:none")) => Reply::Json(seen.error(-32601)),
        (reply, _) => reply,
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    for session in [None, Some([7; 16])] {
        let subscriber = Subscriber { session, ..Subscriber::default() };
        let answer = backend.subscribe("r:1", &subscriber).await.unwrap();
        assert!(matches!(answer, RpcOutcome::Result(_)), "{answer:?}");
        let answer = backend.subscribe("r:none", &subscriber).await.unwrap();
        assert!(matches!(answer, RpcOutcome::Error(_)), "{answer:?}");
    }
    backend.stop().await;
}

#[tokio::test]
async fn a_legacy_client_of_a_server_of_both_eras_has_what_that_era_offers() {
    let legacy = stateful(|_| Reply::Status(405, String::new()));
    let server = Server::start(move |seen| match seen.method() {
        "server/discover" => Reply::Json(seen.answer(json!({
            "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "resources": {}},
        }))),
        _ => legacy(seen),
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let subscriber = Subscriber { session: Some([7; 16]), ..Subscriber::default() };
    let answer = backend.subscribe("r:1", &subscriber).await.unwrap();
    assert!(matches!(answer, RpcOutcome::Result(_)), "{answer:?}");
    let mut discovered = backend.discovered();
    let is_known = |found: &Option<Arc<vmcp_model::discovered::Discovered>>| {
        found.as_ref().is_some_and(|found| found.legacy_capabilities.is_some())
    };
    let known = discovered.wait_for(is_known).await.unwrap().clone().unwrap();
    assert!(known.legacy_capabilities.as_ref().unwrap().get().contains("logging"));
    backend.stop().await;
}

#[tokio::test]
async fn the_first_legacy_client_is_told_what_a_server_of_both_eras_offers_to_it() {
    let server = crate::isolation::dual_listening(|_| Reply::Status(405, String::new())).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    crate::support::wait_for_definitions(&backend, |found| found.tools.len() == 1).await;
    backend.learn_legacy_capabilities().expect("something to learn").await;
    let known = backend.discovered().borrow().clone().unwrap();
    assert!(known.legacy_capabilities.as_ref().unwrap().get().contains("logging"));
    assert!(backend.learn_legacy_capabilities().is_none(), "it is asked once");
    assert_eq!(backend.status().sessions, 0);
    backend.stop().await;

    let server = Server::start(crate::support::scripts::modern(|seen| Reply::Json(seen.error(-32601)))).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    crate::support::wait_for_definitions(&backend, |found| found.tools.len() == 1).await;
    backend.learn_legacy_capabilities().expect("perhaps something to learn").await;
    assert!(backend.learn_legacy_capabilities().is_none(), "it is of one era");
    assert_eq!(server.asked("initialize").len(), 1);
    backend.stop().await;
}

#[tokio::test]
async fn a_server_that_takes_subscriptions_in_the_legacy_era_alone_takes_them_of_modern_clients() {
    let (announce, stream) = mpsc::unbounded_channel();
    let stream = Mutex::new(Some(stream));
    let server = crate::isolation::dual_listening(move |_| match stream.lock().unwrap().take() {
        Some(stream) => Reply::Live(": open\n\n".to_owned(), stream),
        None => Reply::Status(405, String::new()),
    })
    .await;
    let mailbox = Mailbox::default();
    let settings = BackendSettings { session_idle: Duration::from_millis(300), ..listening(&mailbox) };
    let backend = Backend::start(spec("b", server.transport()), settings, None);
    for uri in ["r:1", "r:1", "r:2"] {
        let outcome = subscribe(&backend, uri).await;
        assert!(matches!(outcome, Ok(RpcOutcome::Result(_))), "{outcome:?}");
    }
    // The session lasts for as long as a client listens, and its messages are for all of them.
    tokio::time::sleep(Duration::from_millis(700)).await;
    announce.send(event(&updated("r:1"))).unwrap();
    let message = eventually("the update", || mailbox.all().pop()).await;
    assert_eq!(message, (None, updated("r:1")));
    for uri in ["r:2", "r:1", "r:1"] {
        backend.unsubscribe(uri, None);
    }
    eventually("the end", || (told(&server).len() == 4).then_some(())).await;
    assert_eq!(server.asked("initialize").len(), 1);
    eventually("the end of the session", || (backend.status().sessions == 0).then_some(())).await;
    backend.stop().await;
}
