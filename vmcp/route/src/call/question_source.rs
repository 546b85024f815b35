//! The source of a question: a client shows a person the questions of many servers behind one connection, so
//! each question names the server that asks. A server with `questions: false` asks nothing. A question that
//! cannot be read whole, such as one that names a key twice or in another letter case, is refused: a client
//! may read other words in it.

use serde_json::value::RawValue;
use url::Url;
use vmcp_backend::{CallError, ClientFacts, Event, Question, Response, RpcOutcome};
use vmcp_json::object::{Edit, Object, ObjectError};
use vmcp_json::{text, text::empty_object};
use vmcp_wire::handshake::client_capabilities::without_tasks_extension;
use vmcp_wire::keys::INPUT_REQUESTS;
use vmcp_wire::letter_case::{ASKING_RESULT, QUESTION, first_misspelled, folded};
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
/// Address to which a question sends the user.
const ADDRESS: &str = "url";
/// Key of the details of an error.
const DATA: &str = "data";
/// Key of the visits that an error of a legacy backend demands.
const ELICITATIONS: &str = "elicitations";
/// Keys of a question within a result.
const REQUEST: [&str; 2] = ["method", PARAMS];
const PARAMS: &str = "params";
/// An absent value, as some serializers write it.
const NULL: &str = "null";
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
/// `is_state` is true for an answer about a task.
pub(crate) fn unasking(response: Response, is_state: bool) -> Result<Response, CallError> {
    let asks = match &response.outcome {
        RpcOutcome::Result(result) => may_ask(result, is_state),
        RpcOutcome::Error(error) => !matches!(demanded_visits(error), Ok(None)),
        RpcOutcome::Arriving(_) => false,
    };
    if asks {
        let reason = "it asks the client a question, which its entry forbids (`questions: false`)";
        return Err(CallError::protocol(reason));
    }
    Ok(response)
}

/// True for a result that asks for input, for the state of a task that waits for input, and for a result of
/// unknown type, because a key occurs twice or in another letter case.
fn may_ask(result: &Payload, is_state: bool) -> bool {
    let kind = payload_type(result);
    if kind == ResultType::InputRequired {
        true
    } else if is_state || kind == ResultType::Task {
        has_requests(result)
    } else {
        // The type of a received result has been found, once and in its own spelling, while it arrived.
        result.received().is_none() && !is_plain(result)
    }
}

/// True for an object with questions, and for one that a client may read in another way.
fn has_requests(state: &RawValue) -> bool {
    Object::parse(state).is_ok_and(|object| object.text(INPUT_REQUESTS).is_some()) || !is_plain(state)
}

/// True for a result that names no key twice, and no key of [`ASKING_RESULT`] in another letter case.
fn is_plain(result: &RawValue) -> bool {
    Object::parse(result).is_ok_and(|object| first_misspelled(object.keys(), &ASKING_RESULT).is_none())
}

/// The error of a legacy backend that sends the user to URLs before it answers.
struct VisitDemand<'a> {
    error: Object<'a>,
    data: Object<'a>,
    /// The visits, as JSON.
    list: &'a str,
}

/// The reason why an error of a backend cannot be read whole.
#[derive(Debug, thiserror::Error)]
enum UnreadableError {
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error("it demands visits under a key in another letter case")]
    LetterCase,
}

/// Returns the visits that an error demands. Fails for an error that cannot be read whole.
fn demanded_visits(error: &RawValue) -> Result<Option<VisitDemand<'_>>, UnreadableError> {
    let error = Object::parse(error)?;
    if error.keys().zip(error.values()).any(|(key, data)| hides_visits(key, data)) {
        return Err(UnreadableError::LetterCase);
    }
    let Some(data) = error.text(DATA).filter(|data| text::is_object(data)) else { return Ok(None) };
    let data = Object::parse_valid(data)?;
    let list = data.text(ELICITATIONS).filter(|list| *list != NULL);
    Ok(list.map(|list| VisitDemand { error, data, list }))
}

/// True for an entry of an error in which clients that pass over letter case would find visits.
fn hides_visits(key: &str, data: &str) -> bool {
    if folded(key) != DATA || !text::is_object(data) {
        return false;
    }
    match Object::parse_valid(data) {
        Ok(data) => {
            data.keys().any(|inner| folded(inner) == ELICITATIONS && (key, inner) != (DATA, ELICITATIONS))
        }
        // The data under its own key are read, and refused, by their reader.
        Err(_) => key != DATA,
    }
}

/// Names the backend in an event, if the event is a question; `None` for a question that cannot be read.
pub fn named(event: Event, backend: &str) -> Option<Event> {
    match event {
        Event::Question(Question { id, method, params, answer }) => {
            let params = Some(named_params(&method, params.as_deref(), backend)?);
            Some(Event::Question(Question { id, method, params, answer }))
        }
        Event::Notification(message) => {
            let told = match changed_task(&message) {
                Some((object, params)) => {
                    let params = named_requests(params, backend)?.get().to_owned();
                    let mut edit = object.edit();
                    edit.set(PARAMS, params);
                    Some(edit.finish().into_raw().ok()?)
                }
                None => None,
            };
            Some(Event::Notification(told.unwrap_or(message)))
        }
    }
}

/// True for a question, and for a change of a task that waits for input.
pub fn asks(event: &Event) -> bool {
    match event {
        Event::Question(_) => true,
        Event::Notification(message) => changed_task(message).is_some(),
    }
}

/// Returns a notification and its parameters if it tells the state of a task with questions.
fn changed_task(message: &RawValue) -> Option<(Object<'_>, &RawValue)> {
    // Most notifications are of other methods, and a flood of them is cheap to pass on.
    if !message.get().contains("tasks") && !message.get().contains("\\u") {
        return None;
    }
    let object = Object::parse(message).ok()?;
    let params = object.get(PARAMS)?;
    (object.get_str("method")? == methods::TASK_CHANGED && has_requests(params)).then_some((object, params))
}

/// Names the backend in the questions that an answer asks instead of a result: `inputRequests` of a result,
/// visits that an error demands; `is_state` is true for an answer about a task. Fails for an answer whose
/// questions cannot be read.
pub(crate) fn named_response(
    response: Response,
    backend: &str,
    is_state: bool,
) -> Result<Response, CallError> {
    let unreadable = || CallError::protocol("it asks the client a question that cannot be read");
    let Response { outcome, era } = response;
    let outcome = match outcome {
        RpcOutcome::Result(result) if may_ask(&result, is_state) => {
            RpcOutcome::Result(named_requests(&result, backend).ok_or_else(unreadable)?.into())
        }
        RpcOutcome::Error(error) => {
            let named = match demanded_visits(&error) {
                Ok(None) => None,
                Ok(Some(demand)) => Some(named_visits(&demand, backend).ok_or_else(unreadable)?),
                Err(reason) => {
                    return Err(CallError::protocol(format!("its error cannot be read: {reason}")));
                }
            };
            RpcOutcome::Error(named.unwrap_or(error))
        }
        outcome => outcome,
    };
    Ok(Response { outcome, era })
}

/// Names the backend in the parameters of a question.
fn named_params(method: &str, params: Option<&RawValue>, backend: &str) -> Option<Box<RawValue>> {
    let params = params.filter(|params| params.get() != NULL).unwrap_or(empty_object());
    let object = Object::parse(params).ok()?;
    if first_misspelled(object.keys(), &QUESTION).is_some()
        || (method == methods::ELICIT && !leads_to_page(&object))
    {
        return None;
    }
    let mut edit = object.edit();
    match method {
        methods::ELICIT => _ = edit.set(MESSAGE, asked(object.get_str(MESSAGE).as_deref(), backend)),
        methods::SAMPLE => {
            _ = edit.set(SYSTEM_PROMPT, asked(object.get_str(SYSTEM_PROMPT).as_deref(), backend));
        }
        _ => {}
    }
    name_in_meta(&object, &mut edit, backend);
    edit.finish().into_raw().ok()
}

/// True if a question sends the user to a page, or nowhere. Other schemes run scripts, open files or start
/// programs (`javascript:`, `file:`, `ms-msdt:`); a user name in front of the host passes for the host.
fn leads_to_page(question: &Object<'_>) -> bool {
    let Some(address) = question.text(ADDRESS).filter(|address| *address != NULL) else { return true };
    let url = text::unquoted(address).and_then(|address| Url::parse(&address).ok());
    url.is_some_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none()
    })
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
    if first_misspelled(object.keys(), &ASKING_RESULT).is_some() {
        return None;
    }
    let Some(requests) = object.text(INPUT_REQUESTS).filter(|requests| *requests != NULL) else {
        return Some(result.to_owned());
    };
    let requests = Object::parse_valid(requests).ok()?;
    let entries = requests.iter().map(|(key, request)| {
        let named = named_request(request, backend)?;
        Some(format!("{}:{}", text::quoted(key), named.get()))
    });
    let entries: Vec<String> = entries.collect::<Option<_>>()?;
    let mut edit = object.edit();
    edit.set(INPUT_REQUESTS, format!("{{{}}}", entries.join(",")));
    edit.finish().into_raw().ok()
}

fn named_request(request: &RawValue, backend: &str) -> Option<Box<RawValue>> {
    let object = Object::parse(request).ok()?;
    if first_misspelled(object.keys(), &REQUEST).is_some() {
        return None;
    }
    let params = named_params(&object.get_str("method")?, object.get(PARAMS), backend)?;
    let mut edit = object.edit();
    edit.set(PARAMS, params.get().to_owned());
    edit.finish().into_raw().ok()
}

fn named_visits(demand: &VisitDemand<'_>, backend: &str) -> Option<Payload> {
    let visits: Vec<&RawValue> = serde_json::from_str(demand.list).ok()?;
    let visits = visits.into_iter().map(|visit| named_params(methods::ELICIT, Some(visit), backend));
    let visits: Vec<Box<RawValue>> = visits.collect::<Option<_>>()?;
    let visits: Vec<&str> = visits.iter().map(|visit| visit.get()).collect();
    let mut inner = demand.data.edit();
    inner.set(ELICITATIONS, format!("[{}]", visits.join(",")));
    let inner = inner.finish().into_cow().into_owned();
    let mut edit = demand.error.edit();
    edit.set(DATA, inner);
    edit.finish().into_raw().ok().map(Payload::from)
}

#[cfg(test)]
mod tests;
