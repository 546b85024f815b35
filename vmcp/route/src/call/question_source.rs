//! The source of a question: a client shows a person the questions of many servers behind one connection, so
//! each question names the server that asks. A server with `questions: false` asks nothing.

use serde_json::value::RawValue;
use vmcp_backend::{CallError, ClientFacts, Event, Question, Response, RpcOutcome};
use vmcp_json::object::{Edit, Object};
use vmcp_json::{text, text::empty_object};
use vmcp_wire::handshake::client_capabilities::without_tasks_extension;
use vmcp_wire::keys::INPUT_REQUESTS;
use vmcp_wire::meta::META;
use vmcp_wire::methods;
use vmcp_wire::payload::Payload;
use vmcp_wire::translate::{ResultType, payload_type};

use crate::caller::CallContext;

/// Key of the backend's name in `_meta` of a question.
pub const SERVER: &str = "vmcp/server";

/// The words of a question: those of an elicitation, and the instructions of a sampling.
const MESSAGE: &str = "message";
const SYSTEM_PROMPT: &str = "systemPrompt";
/// Key of the visits that an error of a legacy backend demands.
const ELICITATIONS: &str = "elicitations";
/// Capabilities of a client that let a server ask.
const ASKING_CAPABILITIES: [&str; 3] = ["elicitation", "sampling", "roots"];

/// True if the configuration lets the backend ask clients nothing.
pub(crate) fn is_silent(context: CallContext<'_>, backend: &str) -> bool {
    context.snapshot.config.silent_backends.contains(backend)
}

/// Returns the caller as the backend is told of it: a backend that may ask nothing reads of no capability to
/// answer.
pub(crate) fn told_client(context: CallContext<'_>, backend: &str) -> ClientFacts {
    let mut client = context.caller.client.clone();
    if is_silent(context, backend) {
        client.capabilities = client.capabilities.as_deref().and_then(without_questions).map(Into::into);
    }
    client
}

/// Returns the caller as a backend is told of it whose result a webhook reads: as a client that takes no task
/// for a result.
pub(crate) fn without_tasks(client: ClientFacts) -> ClientFacts {
    let Some(without) = client.capabilities.as_deref().and_then(without_tasks_extension) else {
        return client;
    };
    ClientFacts { capabilities: RawValue::from_string(without).ok().map(Into::into), ..client }
}

fn without_questions(capabilities: &RawValue) -> Option<Box<RawValue>> {
    let object = Object::parse(capabilities).ok()?;
    let mut edit = object.edit();
    for capability in ASKING_CAPABILITIES {
        edit.remove(capability);
    }
    edit.finish().into_raw().ok()
}

/// Returns the answer of a backend that may ask nothing; an error if it asks instead of answering.
pub(crate) fn unasking(response: Response) -> Result<Response, CallError> {
    let asks = match &response.outcome {
        RpcOutcome::Result(result) => payload_type(result) == ResultType::InputRequired,
        RpcOutcome::Error(error) => demands_visits(error),
        RpcOutcome::Arriving(_) => false,
    };
    if asks {
        let reason = "it asks the client a question, which its entry forbids (`questions: false`)";
        return Err(CallError::protocol(reason));
    }
    Ok(response)
}

/// True for the error of a legacy backend that sends the user to URLs before it answers.
fn demands_visits(error: &RawValue) -> bool {
    let error = Object::parse(error).unwrap_or_default();
    let data = error.text("data").and_then(|data| Object::parse_valid(data).ok());
    data.is_some_and(|data| data.get(ELICITATIONS).is_some())
}

/// Names the backend in an event, if the event is a question.
pub fn named(event: Event, backend: &str) -> Event {
    match event {
        Event::Question(Question { method, params, answer }) => {
            let params = Some(named_params(&method, params.as_deref(), backend));
            Event::Question(Question { method, params, answer })
        }
        event @ Event::Notification(_) => event,
    }
}

/// Names the backend in the questions that an answer asks instead of a result: `inputRequests` of a result,
/// visits that an error demands.
pub(crate) fn named_response(response: Response, backend: &str) -> Response {
    let Response { outcome, era } = response;
    let outcome = match outcome {
        RpcOutcome::Result(result) if result.contains(&text::quoted(INPUT_REQUESTS)) => {
            RpcOutcome::Result(named_requests(&result, backend).map_or(result, Payload::from))
        }
        RpcOutcome::Error(error) if error.contains(&text::quoted(ELICITATIONS)) => {
            RpcOutcome::Error(named_visits(&error, backend).map_or(error, Payload::from))
        }
        outcome => outcome,
    };
    Response { outcome, era }
}

/// Names the backend in the parameters of a question.
fn named_params(method: &str, params: Option<&RawValue>, backend: &str) -> Box<RawValue> {
    let params = params.unwrap_or(empty_object());
    let Ok(object) = Object::parse(params) else { return params.to_owned() };
    let mut edit = object.edit();
    match method {
        methods::ELICIT => _ = edit.set(MESSAGE, asked(object.get_str(MESSAGE).as_deref(), backend)),
        methods::SAMPLE => {
            _ = edit.set(SYSTEM_PROMPT, asked(object.get_str(SYSTEM_PROMPT).as_deref(), backend));
        }
        _ => {}
    }
    name_in_meta(&object, &mut edit, backend);
    edit.finish().into_raw().unwrap_or_else(|_| params.to_owned())
}

/// Returns the words of a question behind the name of the server that asks, as JSON.
fn asked(words: Option<&str>, backend: &str) -> String {
    text::quoted(&match words {
        Some(words) => format!("The server {backend} asks: {words}"),
        None => format!("The server {backend} asks."),
    })
}

fn name_in_meta<'a>(object: &Object<'a>, edit: &mut Edit<'_, 'a>, backend: &str) {
    let meta = object.text(META).and_then(|meta| Object::parse_valid(meta).ok()).unwrap_or_default();
    let mut inner = meta.edit();
    inner.set(SERVER, text::quoted(backend));
    edit.set(META, inner.finish().into_cow().into_owned());
}

fn named_requests(result: &RawValue, backend: &str) -> Option<Box<RawValue>> {
    let object = Object::parse(result).ok()?;
    let requests = Object::parse_valid(object.text(INPUT_REQUESTS)?).ok()?;
    let entries = requests.iter().map(|(key, request)| {
        let named = named_request(request, backend);
        format!("{}:{}", text::quoted(key), named.as_deref().unwrap_or(request).get())
    });
    let entries: Vec<String> = entries.collect();
    let mut edit = object.edit();
    edit.set(INPUT_REQUESTS, format!("{{{}}}", entries.join(",")));
    edit.finish().into_raw().ok()
}

fn named_request(request: &RawValue, backend: &str) -> Option<Box<RawValue>> {
    let object = Object::parse(request).ok()?;
    let params = named_params(&object.get_str("method")?, object.get("params"), backend);
    let mut edit = object.edit();
    edit.set("params", params.get().to_owned());
    edit.finish().into_raw().ok()
}

fn named_visits(error: &RawValue, backend: &str) -> Option<Box<RawValue>> {
    let object = Object::parse(error).ok()?;
    let data = Object::parse_valid(object.text("data")?).ok()?;
    let visits: Vec<&RawValue> = serde_json::from_str(data.text(ELICITATIONS)?).ok()?;
    let visits = visits.into_iter().map(|visit| named_params(methods::ELICIT, Some(visit), backend));
    let visits: Vec<String> = visits.map(|visit| visit.get().to_owned()).collect();
    let mut inner = data.edit();
    inner.set(ELICITATIONS, format!("[{}]", visits.join(",")));
    let inner = inner.finish().into_cow().into_owned();
    let mut edit = object.edit();
    edit.set("data", inner);
    edit.finish().into_raw().ok()
}

#[cfg(test)]
mod tests {
    use vmcp_wire::era::Era;

    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn every_question_of_a_backend_names_it() {
        for (method, params, named) in [
            (
                "elicitation/create",
                Some(r#"{"message":"vmcp needs your password"}"#),
                r#"{"message":"The server evil asks: vmcp needs your password","_meta":{"vmcp/server":"evil"}}"#,
            ),
            (
                "elicitation/create",
                Some(r#"{"mode":"url","url":"https://x","_meta":{"a":1,"vmcp/server":"good"}}"#),
                r#"{"mode":"url","url":"https://x","_meta":{"a":1,"vmcp/server":"evil"},"message":"The server evil asks."}"#,
            ),
            (
                "sampling/createMessage",
                Some(r#"{"messages":[],"systemPrompt":"p"}"#),
                r#"{"messages":[],"systemPrompt":"The server evil asks: p","_meta":{"vmcp/server":"evil"}}"#,
            ),
            ("roots/list", None, r#"{"_meta":{"vmcp/server":"evil"}}"#),
        ] {
            assert_eq!(named_params(method, params.map(raw).as_deref(), "evil").get(), named, "{method}");
        }
    }

    #[test]
    fn questions_within_answers_name_their_backend() {
        let asks = r#"{"resultType":"input_required","inputRequests":{"a\"":{"method":"elicitation/create","params":{"message":"?"}},"b":{"method":"roots/list"}}}"#;
        let demands =
            r#"{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","message":"Go"}]}}"#;
        let of = |outcome| {
            let named = named_response(Response { outcome, era: Era::Modern }, "evil");
            let (Ok(text) | Err(text)) = named.outcome.settled();
            text.get().to_owned()
        };
        assert_eq!(
            of(RpcOutcome::result(&raw(asks))),
            r#"{"resultType":"input_required","inputRequests":{"a\"":{"method":"elicitation/create","params":{"message":"The server evil asks: ?","_meta":{"vmcp/server":"evil"}}},"b":{"method":"roots/list","params":{"_meta":{"vmcp/server":"evil"}}}}}"#
        );
        assert_eq!(
            of(RpcOutcome::error(&raw(demands))),
            r#"{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","message":"The server evil asks: Go","_meta":{"vmcp/server":"evil"}}]}}"#
        );
    }

    #[test]
    fn a_silent_backend_reads_of_no_capability_to_answer() {
        let told =
            |capabilities: &str| without_questions(&raw(capabilities)).map(|told| told.get().to_owned());
        let all =
            r#"{"elicitation":{"form":{}},"sampling":{},"roots":{"listChanged":true},"extensions":{"x":{}}}"#;
        assert_eq!(told(all).as_deref(), Some(r#"{"extensions":{"x":{}}}"#));
        assert_eq!(told("{}").as_deref(), Some("{}"));
    }

    #[test]
    fn a_backend_whose_result_is_read_hears_of_no_tasks() {
        let told = |capabilities: &str| {
            let capabilities = Some(raw(capabilities).into());
            let told = without_tasks(ClientFacts { capabilities, ..ClientFacts::default() });
            told.capabilities.map(|told| told.get().to_owned())
        };
        let tasks = r#"{"roots":{},"extensions":{"x":{},"io.modelcontextprotocol/tasks":{}}}"#;
        assert_eq!(told(tasks).as_deref(), Some(r#"{"roots":{},"extensions":{"x":{}}}"#));
        assert_eq!(told(r#"{"roots":{}}"#).as_deref(), Some(r#"{"roots":{}}"#));
    }

    #[test]
    fn a_silent_backend_that_asks_in_its_answer_fails() {
        let asks = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create"}}}"#;
        let demands = r#"{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url"}]}}"#;
        for (outcome, fails) in [
            (RpcOutcome::result(&raw(asks)), true),
            (RpcOutcome::error(&raw(demands)), true),
            (RpcOutcome::result(&raw(r#"{"content":[{"type":"text","text":"inputRequests"}]}"#)), false),
            (RpcOutcome::error(&raw(r#"{"code":-32603,"message":"elicitations"}"#)), false),
        ] {
            let answer = unasking(Response { outcome, era: Era::Modern });
            assert_eq!(answer.is_err(), fails, "{answer:?}");
        }
    }

    #[test]
    fn other_events_stay_as_they_came() {
        let Event::Notification(message) = named(Event::Notification(raw(r#"{"method":"n"}"#)), "b") else {
            panic!("a notification")
        };
        assert_eq!(message.get(), r#"{"method":"n"}"#);
    }
}
