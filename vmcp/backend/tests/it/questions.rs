//! Questions of legacy servers to their clients: the way of a question, and of its answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use vmcp_backend::{
    Backend, BackendSettings, ClientFacts, Event, EventReceiver, Question, Request, RpcOutcome, SessionId,
    event_queue,
};

use crate::support::scripts::{legacy, stateful};
use crate::support::server::{Reply, SeenRequest, Server, event};
use crate::support::{
    Mailbox, SESSION, client, eventually, json as parsed, params_of, raw, result, settings, spec,
};

const ALL: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}"#;
const ELICIT: &str =
    r#"{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"name?"}}"#;

/// Streams that a script opened, by their opener: the session of a GET, the tool of a call.
#[derive(Clone, Default)]
struct Streams(Arc<Mutex<Vec<(String, Stream)>>>);

type Stream = mpsc::UnboundedSender<String>;

impl Streams {
    fn open(&self, name: &str, first: &str) -> Reply {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0.lock().unwrap().push((name.to_owned(), sender));
        Reply::Live(first.to_owned(), receiver)
    }

    async fn of(&self, name: &str) -> Stream {
        let find = || {
            let open = self.0.lock().unwrap();
            open.iter().find(|(of, _)| of == name).map(|(_, sender)| sender.clone())
        };
        eventually(&format!("the stream {name}"), find).await
    }
}

/// Each call and each GET opens a stream.
fn script(streams: &Streams) -> impl Fn(&SeenRequest) -> Reply + Send + Sync + 'static {
    let streams = streams.clone();
    move |seen| {
        if seen.http == "GET" {
            return streams.open(seen.header("mcp-session-id").unwrap_or("none"), ": open\n\n");
        }
        match (seen.method(), seen.body["params"]["name"].as_str()) {
            ("tools/call", Some(tool)) => streams.open(tool, ": begun\n\n"),
            _ => Reply::Status(202, String::new()),
        }
    }
}

/// Waits for the answer that was posted to the server's request `id`.
async fn answered(server: &Server, id: &str) -> Value {
    let find = || server.seen().into_iter().find(|seen| seen.body["id"] == id && seen.method().is_empty());
    eventually(&format!("the answer to {id}"), find).await.body
}

/// Starts a call whose events go to the receiver.
fn start_call(
    backend: &Backend,
    tool: &'static str,
    session: Option<SessionId>,
    client: ClientFacts,
    deadline: Duration,
) -> (tokio::task::JoinHandle<String>, EventReceiver) {
    let (events, receiver) = event_queue(16);
    let backend = backend.clone();
    let call = tokio::spawn(async move {
        let params = params_of(&format!(r#"{{"name":"{tool}"}}"#));
        let request = Request {
            session,
            client,
            events: Some(events),
            deadline,
            ..Request::new("tools/call", &params)
        };
        match backend.request(request).await {
            Ok(response) => result(&response).to_owned(),
            Err(error) => error.category().to_owned(),
        }
    });
    (call, receiver)
}

async fn question(events: &mut EventReceiver) -> Question {
    let event =
        tokio::time::timeout(crate::support::PATIENCE, events.recv()).await.expect("an event in time");
    match event.expect("an event") {
        Event::Question(question) => question,
        Event::Notification(message) => panic!("a notification: {message}"),
    }
}

const LONG: Duration = Duration::from_mins(1);

fn finish(server: &Server, tool: &str) -> String {
    let call =
        server.asked("tools/call").into_iter().find(|seen| seen.body["params"]["name"] == tool).unwrap();
    event(&call.answer(r#"{"content":[]}"#))
}

#[tokio::test]
async fn a_question_on_the_stream_of_a_call_goes_to_its_caller() {
    let deadline = Duration::from_secs(1);
    let streams = Streams::default();
    let server = Server::start(legacy(script(&streams))).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let (call, mut events) = start_call(&backend, "a", None, client(ALL), deadline);
    let stream = streams.of("a").await;
    stream.send(event(ELICIT)).unwrap();
    let asked = question(&mut events).await;
    assert_eq!(
        (&*asked.method, parsed(asked.params.unwrap().get())),
        ("elicitation/create", json!({"message": "name?"}))
    );
    // While the person thinks, other messages come through and the deadline clock stands still.
    stream.send(event(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#)).unwrap();
    assert_eq!(answered(&server, "p").await["result"], json!({}));
    tokio::time::sleep(deadline + Duration::from_millis(200)).await;
    assert!(!call.is_finished(), "an open question stops the clock");
    let outcome = RpcOutcome::result(&raw(r#"{"action":"accept","content":{"name":"x"}}"#));
    asked.answer.send(outcome).unwrap();
    let answer = answered(&server, "q1").await;
    assert_eq!(answer["result"], json!({"action": "accept", "content": {"name": "x"}}));
    stream.send(finish(&server, "a")).unwrap();
    assert_eq!(call.await.unwrap(), r#"{"content":[]}"#);
    backend.stop().await;
}

#[tokio::test]
async fn what_the_client_did_not_declare_is_refused_without_asking() {
    let streams = Streams::default();
    let server = Server::start(legacy(script(&streams))).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let (call, mut events) = start_call(&backend, "a", None, client(r#"{"elicitation":{}}"#), LONG);
    let stream = streams.of("a").await;
    for (id, method, params) in [
        ("url", "elicitation/create", r#"{"mode":"url","url":"https://example.com"}"#),
        ("sample", "sampling/createMessage", "{}"),
        ("roots", "roots/list", "{}"),
        ("vendor", "vendor/x", "{}"),
    ] {
        let request = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{params}}}"#);
        stream.send(event(&request)).unwrap();
        assert_eq!(answered(&server, id).await["error"]["code"], -32601, "{method}");
    }
    // An answer that the client refuses to give is an error, too.
    stream.send(event(ELICIT)).unwrap();
    drop(question(&mut events).await);
    let refused = answered(&server, "q1").await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("cannot be asked"), "{refused}");
    stream.send(finish(&server, "a")).unwrap();
    call.await.unwrap();
    backend.stop().await;
}

#[tokio::test]
async fn a_question_ends_with_its_call_and_when_the_server_takes_it_back() {
    let streams = Streams::default();
    let server = Server::start(legacy(script(&streams))).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let (call, mut events) = start_call(&backend, "a", None, client(ALL), LONG);
    let stream = streams.of("a").await;
    stream.send(event(ELICIT)).unwrap();
    let mut taken_back = question(&mut events).await;
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q1"}}"#;
    stream.send(event(cancelled)).unwrap();
    taken_back.answer.closed().await;
    stream.send(event(&ELICIT.replace("q1", "q2"))).unwrap();
    let mut given_up = question(&mut events).await;
    call.abort();
    given_up.answer.closed().await;
    eventually("the cancellation", || server.asked("notifications/cancelled").pop()).await;
    let refused = answered(&server, "q2").await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("has ended"), "{refused}");
    assert!(!server.seen().iter().any(|seen| seen.body["id"] == "q1"), "nobody waits for that answer");
    backend.stop().await;
}

#[tokio::test]
async fn on_a_shared_connection_nobody_is_asked_what_belongs_to_no_call() {
    let streams = Streams::default();
    let server = Server::start(legacy_without_session(&streams)).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let (call, mut events) = start_call(&backend, "a", Some(SESSION), client(ALL), LONG);
    let main = streams.of("none").await;
    let own = streams.of("a").await;
    // The only call under way: still, the question may be a late one of an earlier call.
    main.send(event(ELICIT)).unwrap();
    let refused = answered(&server, "q1").await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("belongs to no call"), "{refused}");
    main.send(event(r#"{"jsonrpc":"2.0","id":"r1","method":"roots/list"}"#)).unwrap();
    assert_eq!(answered(&server, "r1").await["error"]["code"], -32601, "roots are not made up");
    main.send(event(
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"secret"}}"#,
    ))
    .unwrap();
    // On its own stream the call is asked.
    own.send(event(&ELICIT.replace("q1", "q2"))).unwrap();
    let yes = RpcOutcome::result(&raw(r#"{"action":"cancel"}"#));
    question(&mut events).await.answer.send(yes).unwrap();
    assert_eq!(answered(&server, "q2").await["result"]["action"], "cancel");
    own.send(finish(&server, "a")).unwrap();
    call.await.unwrap();
    assert!(events.recv().await.is_none(), "the log message is the operator's");
    backend.stop().await;
}

/// Legacy, stateless, with a GET stream.
fn legacy_without_session(streams: &Streams) -> impl Fn(&SeenRequest) -> Reply + Send + Sync + 'static {
    let (script, rest) = (script(streams), legacy(|_| Reply::Hang));
    move |seen| match (seen.http.as_str(), seen.method()) {
        ("GET", _) | (_, "tools/call") => script(seen),
        (_, "initialize") => match rest(seen) {
            Reply::With(_, body) => Reply::Json(body),
            _ => unreachable!("the script answers with a session"),
        },
        _ => rest(seen),
    }
}

#[tokio::test]
async fn a_question_on_a_clients_own_session_goes_to_that_client() {
    let streams = Streams::default();
    let server = Server::start(stateful(script(&streams))).await;
    let mailbox = Mailbox::default();
    let settings = BackendSettings { downstream: Arc::new(mailbox.clone()), ..settings() };
    let backend = Backend::start(spec("b", server.transport()), settings, None);
    let (call, mut events) = start_call(&backend, "a", Some(SESSION), client(ALL), LONG);
    let own = streams.of("s2").await;
    streams.of("a").await;
    own.send(event(ELICIT)).unwrap();
    question(&mut events).await.answer.send(RpcOutcome::result(&raw(r#"{"action":"decline"}"#))).unwrap();
    assert_eq!(answered(&server, "q1").await["result"]["action"], "decline");
    let posted = server.seen().into_iter().find(|seen| seen.body["id"] == "q1").unwrap();
    assert_eq!(posted.header("mcp-session-id"), Some("s2"));
    streams.of("a").await.send(finish(&server, "a")).unwrap();
    call.await.unwrap();
    own.send(event(&ELICIT.replace("q1", "q2"))).unwrap();
    assert_eq!(answered(&server, "q2").await["error"]["code"], -32601, "the mailbox drops questions");
    assert_eq!(mailbox.all(), [(Some(SESSION), "elicitation/create".to_owned())]);
    backend.stop().await;
}

#[tokio::test]
async fn questions_by_the_thousand_are_refused_and_the_call_goes_on() {
    let server = Server::start(legacy(|seen| {
        if seen.method() != "tools/call" {
            return Reply::Status(202, String::new());
        }
        let one = |id: usize| event(&ELICIT.replace("\"q1\"", &format!("\"q{}\"", id % 500)));
        let mut text: String = (0..1000).map(one).collect();
        text += &event(r#"{"jsonrpc":"2.0","id":99999,"result":{}}"#);
        Reply::Pieces(vec![text, event(&seen.answer(r#"{"content":[]}"#))])
    }))
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let (call, mut events) = start_call(&backend, "a", None, client(ALL), LONG);
    let mut open = Vec::new();
    while let Some(Event::Question(question)) = events.recv().await {
        open.push(question);
    }
    assert_eq!(call.await.unwrap(), r#"{"content":[]}"#);
    assert_eq!(open.len(), 16, "the share of one call");
    assert!(open.iter().all(|question| question.answer.is_closed()));
    backend.stop().await;
}
