//! Input rounds: bridges a modern backend's questions to a legacy client.
//!
//! A modern backend that needs input answers with questions (`input_required`) instead of waiting. A legacy
//! client is asked them on its stream, and the request is repeated with its answers, until the backend has
//! what it needs or [`MAX_ROUNDS`] are over.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use futures::future::try_join_all;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use vmcp_backend::{CallError, Response, RpcOutcome, Transmission};
use vmcp_json::object::Object;
use vmcp_json::text;
use vmcp_wire::era::Era;
use vmcp_wire::keys::{ELICITATION_ID, INPUT_REQUESTS, INPUT_RESPONSES, REQUEST_STATE};
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::payload::Payload;
use vmcp_wire::rpc::RpcError;
use vmcp_wire::translate::{ResultType, payload_type};
use vmcp_wire::{codes, methods};

use super::ask_client;
use crate::caller::Caller;

/// Most repetitions of a request; then the request fails.
pub(crate) const MAX_ROUNDS: usize = 10;
/// Most questions in one round; a backend that asks more fails the request.
const MAX_QUESTIONS: usize = 32;
/// Pause before the request is repeated for a backend that asks no question but wants its state back. Doubles
/// with each round, up to 64 times.
const STATE_ONLY_PAUSE: Duration = Duration::from_millis(100);

/// Waits before a request is repeated with its state alone.
pub(crate) async fn pause_before_repeat(round: usize) {
    sleep(STATE_ONLY_PAUSE * (1 << round.min(6))).await;
}

/// The rounds of one request.
pub(crate) struct InputRounds<'a> {
    caller: &'a Caller,
    params: &'a OwnedParams,
    answer_timeout: Duration,
    round: usize,
}

/// The step that follows a response.
#[derive(Debug)]
pub(crate) enum Next {
    /// The request is repeated with these parameters.
    Repeat(OwnedParams),
    /// The response asks for nothing: it is the answer.
    Complete,
    /// The request ends with this error object.
    Error(Box<RawValue>),
}

impl<'a> InputRounds<'a> {
    /// Begins with the parameters of the first request. The client has `answer_timeout` for each round.
    pub(crate) fn new(caller: &'a Caller, params: &'a OwnedParams, answer_timeout: Duration) -> Self {
        InputRounds { caller, params, answer_timeout, round: 0 }
    }

    /// Puts the questions of `response` to the client, if it has any.
    pub(crate) async fn next(&mut self, response: &Response) -> Result<Next, CallError> {
        let Some(question) = question(response) else { return Ok(Next::Complete) };
        if self.round == MAX_ROUNDS {
            let ended =
                refused(format!("the backend asked for input {MAX_ROUNDS} times and did not come to an end"));
            return Ok(Next::Error(ended));
        }
        let answered = tokio::select! {
            answered = timeout(self.answer_timeout, Box::pin(answer(self.caller, self.params, question, self.round))) => answered,
            () = self.caller.cancel.cancelled() => return Err(CallError::Cancelled { transmission: Transmission::Sent }),
        };
        self.round += 1;
        match answered {
            Ok(Ok(repeated)) => Ok(Next::Repeat(repeated)),
            Ok(Err(ended)) => Ok(Next::Error(ended)),
            Err(_) => Err(CallError::timeout(self.answer_timeout, Transmission::Sent)),
        }
    }
}

fn question(response: &Response) -> Option<&Payload> {
    match &response.outcome {
        RpcOutcome::Result(result) if response.era == Era::Modern => {
            (payload_type(result) == ResultType::InputRequired).then_some(result)
        }
        _ => None,
    }
}

/// Returns the parameters of the next round: those of the first, with the client's answers and the backend's
/// own state. The error object says why the client gave no answer.
async fn answer(
    caller: &Caller,
    params: &OwnedParams,
    question: &RawValue,
    round: usize,
) -> Result<OwnedParams, Box<RawValue>> {
    let unreadable =
        |what: &str| refused(format!("the backend asked for input in a way that cannot be read: {what}"));
    let question = Object::parse(question).map_err(|error| unreadable(&error.to_string()))?;
    let requests = question.get(INPUT_REQUESTS);
    let requests = requests.map(Object::parse).transpose().map_err(|error| unreadable(&error.to_string()))?;
    let requests = requests.unwrap_or_default();
    if requests.len() > MAX_QUESTIONS {
        return Err(refused(format!("the backend asks more than {MAX_QUESTIONS} questions at once")));
    }
    if requests.is_empty() {
        if question.text(REQUEST_STATE).is_none() {
            return Err(unreadable("it has neither `inputRequests` nor `requestState`"));
        }
        pause_before_repeat(round).await;
    }
    let mut open = Vec::with_capacity(requests.len());
    for (key, request) in requests.iter() {
        open.push((text::quoted(key), ask(caller, request).await?));
    }
    // All questions were sent before any answer is awaited, so that the client may answer them in any order.
    let answers = try_join_all(open.into_iter().map(|(key, answered)| async move {
        match answered.await {
            Ok(RpcOutcome::Result(result)) => Ok(format!("{key}:{}", result.get())),
            // A client's error instead of an answer becomes the answer to its own request.
            Ok(RpcOutcome::Error(error)) => Err(error.into_raw()),
            Ok(RpcOutcome::Arriving(_)) | Err(_) => {
                Err(refused("the backend needs input, and the client could not be asked".to_owned()))
            }
        }
    }));
    let answers = answers.await?;
    let answers = (!answers.is_empty()).then(|| format!("{{{}}}", answers.join(",")));
    let state = question.text(REQUEST_STATE);
    let repeated = params.with(&[(INPUT_RESPONSES, answers.as_deref()), (REQUEST_STATE, state)]);
    repeated.map_err(|error| refused(error.to_string()))
}

/// Puts one question to the client; returns the receiver of its answer.
async fn ask(caller: &Caller, request: &RawValue) -> Result<oneshot::Receiver<RpcOutcome>, Box<RawValue>> {
    let request = Object::parse(request).unwrap_or_default();
    let method = request.get_str("method").unwrap_or_default();
    let params = request.get("params");
    let params = params.map(|params| with_elicitation_id(&method, params));
    ask_client::ask(caller, &method, params).await.map_err(|why| {
        let shown: String = method.chars().take(64).collect();
        refused(format!("the backend needs an answer to {shown}, and the client {why}"))
    })
}

/// Adds the `elicitationId` that clients of 2025-11-25 require when they are asked to visit a URL; the modern
/// revision has none.
fn with_elicitation_id(method: &str, params: &RawValue) -> Box<RawValue> {
    let added = || {
        let object = Object::parse(params).ok()?;
        if method != methods::ELICIT || object.get_str("mode")? != "url" {
            return None;
        }
        let mut edit = object.edit();
        // Unique, not secret: the keys of a `RandomState` differ from call to call, and in each process.
        let (one, other) = (RandomState::new().hash_one(0), RandomState::new().hash_one(1));
        edit.set_if_absent(ELICITATION_ID, format!("\"vmcp-{one:016x}{other:016x}\""));
        RawValue::from_string(edit.finish().into_cow().into_owned()).ok()
    };
    added().unwrap_or_else(|| params.to_owned())
}

fn refused(message: String) -> Box<RawValue> {
    let error = RpcError::new(codes::INTERNAL_ERROR, message).to_json();
    RawValue::from_string(error).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use vmcp_backend::{ClientFacts, Event};

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn modern(result: &str) -> Response {
        Response { outcome: RpcOutcome::result(&raw(result)), era: Era::Modern }
    }

    /// Runs a request whose backend gives `results` one after another; the client answers `answer` to
    /// everything. Returns the outcome, and the parameters that the backend was sent.
    async fn run_with(results: &[&str], answer: Option<RpcOutcome>) -> (String, Vec<String>) {
        let (events, mut asked) = vmcp_backend::event_queue(8);
        let capabilities = Some(Arc::from(raw(r#"{"elicitation":{}}"#)));
        let client = ClientFacts { capabilities, ..ClientFacts::default() };
        let caller = Caller { client, events: Some(events), ..Caller::default() };
        let user = tokio::spawn(async move {
            while let Some(Event::Question(question)) = asked.recv().await {
                match &answer {
                    Some(RpcOutcome::Result(result)) => {
                        drop(question.answer.send(RpcOutcome::result(result)));
                    }
                    Some(RpcOutcome::Error(error)) => drop(question.answer.send(RpcOutcome::error(error))),
                    Some(RpcOutcome::Arriving(_)) | None => {}
                }
            }
        });
        let params = OwnedParams::from_text(r#"{"name":"t","arguments":{}}"#).unwrap();
        let mut rounds = InputRounds::new(&caller, &params, Duration::from_secs(9));
        let (mut sent, mut response) = (Vec::new(), modern(results[0]));
        let text = loop {
            match rounds.next(&response).await.unwrap() {
                Next::Repeat(params) => sent.push(params.text().to_owned()),
                Next::Error(error) => break error,
                Next::Complete => {
                    let (Ok(text) | Err(text)) = response.outcome.settled();
                    break text.into_raw();
                }
            }
            response = modern(results[sent.len().min(results.len() - 1)]);
        };
        drop(caller);
        user.await.unwrap();
        (text.get().to_owned(), sent)
    }

    const ASKS: &str = r#"{"resultType":"input_required","requestState":"s\"1","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?"}},"b":{"method":"elicitation/create"}}}"#;

    #[tokio::test]
    async fn a_request_is_repeated_with_the_answers_and_the_exact_state() {
        let yes = RpcOutcome::result(&raw(r#"{"action":"decline"}"#));
        let (text, sent) = run_with(&[ASKS, r#"{"resultType":"complete","x":1}"#], Some(yes)).await;
        assert_eq!(text, r#"{"resultType":"complete","x":1}"#);
        assert_eq!(
            sent,
            [
                r#"{"name":"t","arguments":{},"inputResponses":{"a":{"action":"decline"},"b":{"action":"decline"}},"requestState":"s\"1"}"#
            ]
        );
    }

    #[tokio::test]
    async fn a_url_to_visit_has_the_id_that_legacy_clients_require() {
        let (events, mut asked) = vmcp_backend::event_queue(8);
        let capabilities = Some(Arc::from(raw(r#"{"elicitation":{"url":{}}}"#)));
        let client = ClientFacts { capabilities, ..ClientFacts::default() };
        let caller = Caller { client, events: Some(events), ..Caller::default() };
        let mut ids = Vec::new();
        for _ in 0..2 {
            let request =
                raw(r#"{"method":"elicitation/create","params":{"mode":"url","url":"https://example.com"}}"#);
            let _answered = ask(&caller, &request).await.unwrap();
            let Some(Event::Question(question)) = asked.recv().await else { panic!("a question") };
            let params: serde_json::Value = serde_json::from_str(question.params.unwrap().get()).unwrap();
            assert_eq!(params["url"], "https://example.com");
            ids.push(params["elicitationId"].as_str().unwrap().to_owned());
        }
        assert!(ids[0] != ids[1] && ids[0].starts_with("vmcp-"), "{ids:?}");
        let own = raw(r#"{"mode":"url","elicitationId":"theirs"}"#);
        assert_eq!(with_elicitation_id("elicitation/create", &own).get(), own.get());
        let form = raw(r#"{"mode":"form","message":"?"}"#);
        assert_eq!(with_elicitation_id("elicitation/create", &form).get(), form.get());
    }

    #[tokio::test]
    async fn what_a_client_says_instead_of_an_answer_ends_the_request() {
        let no = RpcOutcome::error(&raw(r#"{"code":-1,"message":"no"}"#));
        let (text, sent) = run_with(&[ASKS], Some(no)).await;
        assert_eq!((text.as_str(), sent.len()), (r#"{"code":-1,"message":"no"}"#, 0));
        let (text, _) = run_with(&[ASKS], None).await;
        assert!(text.contains("could not be asked"), "{text}");
        let roots = ASKS.replace("elicitation/create", "roots/list");
        let (text, _) = run_with(&[&roots], None).await;
        assert!(text.contains("did not declare"), "{text}");
    }

    #[tokio::test]
    async fn a_backend_that_never_has_enough_is_given_up() {
        let yes = RpcOutcome::result(&raw("{}"));
        let (text, sent) = run_with(&[ASKS], Some(yes)).await;
        assert!(text.contains("10 times"), "{text}");
        assert_eq!(sent.len(), MAX_ROUNDS);
        let (text, _) = run_with(&[r#"{"resultType":"input_required"}"#], None).await;
        assert!(text.contains("neither"), "{text}");
    }
}
