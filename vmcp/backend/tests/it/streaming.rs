//! Large results that are handed on while they arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};
use vmcp_backend::{
    ArrivingRest, ArrivingResult, Backend, BackendSettings, ByteBudget, CallError, Request, RpcOutcome,
};
use vmcp_wire::era::Era;
use vmcp_wire::translate::{IncrementalResult, ResultPlan};

use crate::support::scripts::{legacy, modern};
use crate::support::server::{Reply, SeenRequest, Server};
use crate::support::{PATIENCE, cached, eventually, json, params_of, settings, spec};

/// Bytes beyond which an answer is begun.
const LARGE: usize = 64 * 1024;

/// The way in which a server answers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Json,
    Events,
}

/// A server of either era whose answers to calls the test writes.
struct Script {
    server: Server,
    /// The answers under way, of which the beginning was sent.
    open: Arc<Mutex<Vec<UnboundedSender<String>>>>,
}

/// The message of an answer to `seen` up to somewhere in its content.
fn beginning(seen: &SeenRequest) -> String {
    let text = "x".repeat(2 * LARGE);
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[{{"type":"text","text":"{text}"#, seen.id())
}

const END: &str = r#" and the end"}]}}"#;

impl Script {
    async fn start(era: Era, form: Form) -> Self {
        let open: Arc<Mutex<Vec<UnboundedSender<String>>>> = Arc::default();
        let answers = Arc::clone(&open);
        let call = move |seen: &SeenRequest| {
            let (more, receiver) = unbounded_channel();
            answers.lock().push(more);
            match form {
                Form::Json => Reply::LiveJson(beginning(seen), receiver),
                Form::Events => Reply::Live(format!("id: 1\ndata: {}", beginning(seen)), receiver),
            }
        };
        let server = match era {
            Era::Modern => Server::start(modern(call)).await,
            Era::Legacy => Server::start(legacy(call)).await,
        };
        Self { server, open }
    }

    fn backend(&self, settings: BackendSettings) -> Backend {
        Backend::start(spec("b", self.server.transport()), settings, Some(cached()))
    }

    /// Sends more of the only answer that is open.
    fn send(&self, text: &str) {
        self.open.lock()[0].send(text.to_owned()).unwrap();
    }

    fn end(&self) {
        self.open.lock().clear();
    }
}

async fn begin(backend: &Backend) -> Result<ArrivingResult, CallError> {
    let params = params_of(r#"{"name":"large","arguments":{}}"#);
    let request = Request { subject: Some("large"), stream: true, ..Request::new("tools/call", &params) };
    let response = timeout(PATIENCE, backend.request(request)).await.expect("the beginning in time")?;
    match response.outcome {
        RpcOutcome::Arriving(arriving) => Ok(arriving),
        other => panic!("collected: {other:?}"),
    }
}

async fn read(rest: &mut ArrivingRest) -> Option<Result<Bytes, CallError>> {
    timeout(PATIENCE, rest.next()).await.expect("a piece in time")
}

#[tokio::test]
async fn a_large_result_is_there_before_its_end() {
    for (era, form) in [Era::Modern, Era::Legacy]
        .into_iter()
        .flat_map(|era| [Form::Json, Form::Events].map(|form| (era, form)))
    {
        let script = Script::start(era, form).await;
        let backend = script.backend(settings());
        let (scanner, so_far, mut rest) = begin(&backend).await.unwrap().into_parts();
        assert!(so_far.len() >= LARGE, "{era:?} {form:?}");
        let plan = ResultPlan { from: era, to: Era::Legacy, ..ResultPlan::default() };
        let mut result = IncrementalResult::begin("tools/call", &plan, "7", scanner, so_far).unwrap();
        let mut text = result.take().into_bytes().to_vec();
        assert!(text.len() >= LARGE && text.starts_with(br#"{"jsonrpc":"2.0","id":7,"result":{"#));
        script.send(" more ü");
        while !text.ends_with(" more ü".as_bytes()) {
            result.push(read(&mut rest).await.unwrap().unwrap()).unwrap();
            text.extend_from_slice(&result.take().into_bytes());
        }
        let events_end = if form == Form::Events { "\n\n" } else { "" };
        script.send(&format!("{END}{events_end}"));
        script.end();
        while let Some(piece) = read(&mut rest).await {
            result.push(piece.unwrap()).unwrap();
        }
        text.extend_from_slice(&result.finish().unwrap().0.into_bytes());
        let message = json(std::str::from_utf8(&text).unwrap());
        assert!(message["result"]["content"][0]["text"].as_str().unwrap().ends_with("x more ü and the end"));
        assert!(script.server.asked("notifications/cancelled").is_empty());
        backend.stop().await;
    }
}

#[tokio::test]
async fn results_that_cannot_be_begun_are_collected() {
    let long = "x".repeat(3 * LARGE);
    let answers: [fn(&SeenRequest, &str) -> String; 4] = [
        |seen, _| seen.answer(r#"{"content":[]}"#),
        |seen, long| format!(r#"{{"jsonrpc":"2.0","result":{{"a":"{long}"}},"id":{}}}"#, seen.id()),
        |seen, long| seen.answer(format!(r#"{{"resultType":"input_required","a":"{long}"}}"#)),
        |seen, long| seen.answer(format!(r#"{{"resultType":"complete","a":"{long}"}}"#)),
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        let long = long.clone();
        let server = Server::start(modern(move |seen| Reply::Json(answer(seen, &long)))).await;
        let backend = Backend::start(spec("b", server.transport()), settings(), Some(cached()));
        let params = params_of(r#"{"name":"x"}"#);
        // The last one could be begun, but its caller takes no stream.
        let request = Request { stream: number < 3, ..Request::new("tools/call", &params) };
        let response = backend.request(request).await.unwrap();
        assert!(matches!(response.outcome, RpcOutcome::Result(_)), "{number}");
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_slow_reader_slows_the_backend_and_holds_few_bytes() {
    const PIECE: usize = 64 * 1024;
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let server = Server::start(modern(move |seen| {
        let count = Arc::clone(&count);
        let flood = futures::stream::repeat_with(move || {
            count.fetch_add(PIECE, Ordering::SeqCst);
            "y".repeat(PIECE)
        });
        Reply::StreamJson(Box::pin(futures::stream::iter([beginning(seen)]).chain(flood)))
    }))
    .await;
    let byte_budget = ByteBudget::default();
    let limits = BackendSettings { byte_budget: byte_budget.clone(), ..settings() };
    let backend = Backend::start(spec("b", server.transport()), limits, Some(cached()));
    let arriving = begin(&backend).await.unwrap();
    // The sockets' buffers fill; then the server must wait.
    let mut before = 0;
    loop {
        sleep(Duration::from_millis(300)).await;
        let now = sent.load(Ordering::SeqCst);
        assert!(now < 64 << 20, "{now} bytes were sent to a reader that reads none");
        if now == before && now > 0 {
            break;
        }
        before = now;
    }
    assert!(byte_budget.held() < 1 << 20, "{} bytes held", byte_budget.held());
    let (_, so_far, mut rest) = arriving.into_parts();
    drop(so_far);
    assert_eq!(byte_budget.held(), 0);
    for _ in 0..10 {
        read(&mut rest).await.unwrap().unwrap();
    }
    drop(rest);
    eventually("the end of the stream", || (server.streams_closed_by_client() >= 1).then_some(())).await;
    backend.stop().await;
}

#[tokio::test]
async fn a_backend_that_dies_amid_its_answer_is_an_error_at_the_end() {
    for form in [Form::Json, Form::Events] {
        let server = Server::start(modern(move |seen| match form {
            Form::Json => Reply::BrokenJson(beginning(seen).into_bytes()),
            Form::Events => Reply::Broken(format!("data: {}", beginning(seen)).into_bytes()),
        }))
        .await;
        let backend = Backend::start(spec("b", server.transport()), settings(), Some(cached()));
        let (_, _, mut rest) = begin(&backend).await.unwrap().into_parts();
        let error = loop {
            match read(&mut rest).await.expect("an error, not an end") {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(error.category(), "unavailable");
        assert!(read(&mut rest).await.is_none());
        assert!(backend.status().last_error.unwrap().contains("broke off"));
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_reader_that_leaves_cancels_the_call() {
    for (era, form) in [(Era::Modern, Form::Json), (Era::Legacy, Form::Json), (Era::Legacy, Form::Events)] {
        let script = Script::start(era, form).await;
        let backend = script.backend(settings());
        let arriving = begin(&backend).await.unwrap();
        assert!(script.server.asked("notifications/cancelled").is_empty());
        drop(arriving);
        eventually("the closed stream", || (script.server.streams_closed_by_client() >= 1).then_some(()))
            .await;
        let cancelled = || script.server.asked("notifications/cancelled").len();
        if era == Era::Legacy {
            eventually("the cancellation", || (cancelled() == 1).then_some(())).await;
        } else {
            assert_eq!(cancelled(), 0);
        }
        backend.stop().await;
    }
}

#[tokio::test]
async fn silence_amid_an_answer_ends_at_the_deadline_and_a_slow_reader_is_no_silence() {
    let script = Script::start(Era::Modern, Form::Json).await;
    let backend = script.backend(settings());
    let params = params_of(r#"{"name":"large"}"#);
    let deadline = Duration::from_secs(2);
    let request = Request { stream: true, deadline, ..Request::new("tools/call", &params) };
    let RpcOutcome::Arriving(arriving) = backend.request(request).await.unwrap().outcome else {
        panic!("a large result")
    };
    let (_, _, mut rest) = arriving.into_parts();
    sleep(deadline + Duration::from_millis(500)).await;
    script.send(" more");
    let mut arrived = Vec::new();
    while !arrived.ends_with(b" more") {
        arrived.extend_from_slice(&read(&mut rest).await.unwrap().unwrap());
    }
    assert_eq!(read(&mut rest).await.unwrap().unwrap_err().category(), "timeout");
    assert!(read(&mut rest).await.is_none());
    eventually("the closed stream", || (script.server.streams_closed_by_client() >= 1).then_some(())).await;
    backend.stop().await;
}
