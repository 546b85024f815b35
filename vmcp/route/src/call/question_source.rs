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
const REQUEST: [&str; 2] = ["method", "params"];
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
pub(crate) fn unasking(response: Response) -> Result<Response, CallError> {
    let asks = match &response.outcome {
        RpcOutcome::Result(result) => may_ask(result),
        RpcOutcome::Error(error) => !matches!(demanded_visits(error), Ok(None)),
        RpcOutcome::Arriving(_) => false,
    };
    if asks {
        let reason = "it asks the client a question, which its entry forbids (`questions: false`)";
        return Err(CallError::protocol(reason));
    }
    Ok(response)
}

/// True for a result that asks for input, and for one of unknown type, because a key occurs twice or in
/// another letter case.
fn may_ask(result: &Payload) -> bool {
    // The type of a received result has been found, once and in its own spelling, while it arrived.
    payload_type(result) == ResultType::InputRequired || (result.received().is_none() && !is_plain(result))
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
        event @ Event::Notification(_) => Some(event),
    }
}

/// Names the backend in the questions that an answer asks instead of a result: `inputRequests` of a result,
/// visits that an error demands. Fails for an answer whose questions cannot be read.
pub(crate) fn named_response(response: Response, backend: &str) -> Result<Response, CallError> {
    let unreadable = || CallError::protocol("it asks the client a question that cannot be read");
    let Response { outcome, era } = response;
    let outcome = match outcome {
        RpcOutcome::Result(result) if may_ask(&result) => {
            RpcOutcome::Result(named_requests(&result, backend).ok_or_else(unreadable)?)
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

fn named_requests(result: &Payload, backend: &str) -> Option<Payload> {
    let object = Object::parse(result).ok()?;
    if first_misspelled(object.keys(), &ASKING_RESULT).is_some() {
        return None;
    }
    let Some(requests) = object.text(INPUT_REQUESTS).filter(|requests| *requests != NULL) else {
        return Some(result.clone());
    };
    let requests = Object::parse_valid(requests).ok()?;
    let entries = requests.iter().map(|(key, request)| {
        let named = named_request(request, backend)?;
        Some(format!("{}:{}", text::quoted(key), named.get()))
    });
    let entries: Vec<String> = entries.collect::<Option<_>>()?;
    let mut edit = object.edit();
    edit.set(INPUT_REQUESTS, format!("{{{}}}", entries.join(",")));
    edit.finish().into_raw().ok().map(Payload::from)
}

fn named_request(request: &RawValue, backend: &str) -> Option<Box<RawValue>> {
    let object = Object::parse(request).ok()?;
    if first_misspelled(object.keys(), &REQUEST).is_some() {
        return None;
    }
    let params = named_params(&object.get_str("method")?, object.get("params"), backend)?;
    let mut edit = object.edit();
    edit.set("params", params.get().to_owned());
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
mod tests {
    use tokio::sync::oneshot;
    use vmcp_wire::era::Era;
    use vmcp_wire::payload::{Reply, Scanner, reply};

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
            let params = named_params(method, params.map(raw).as_deref(), "evil").unwrap();
            assert_eq!(params.get(), named, "{method}");
        }
    }

    #[test]
    fn questions_within_answers_name_their_backend() {
        let asks = r#"{"resultType":"input_required","inputRequests":{"a\"":{"method":"elicitation/create","params":{"message":"?"}},"b":{"method":"roots/list"}}}"#;
        let demands =
            r#"{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","message":"Go"}]}}"#;
        let of = |outcome| {
            let named = named_response(Response { outcome, era: Era::Modern }, "evil").unwrap();
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
    fn absent_parts_may_be_written_as_null() {
        let asks =
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list","params":null}}}"#;
        let demands = r#"{"code":-32603,"message":"m","data":{"elicitations":null}}"#;
        for (outcome, expected) in [
            (
                RpcOutcome::result(&raw(asks)),
                r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list","params":{"_meta":{"vmcp/server":"plain"}}}}}"#,
            ),
            (RpcOutcome::error(&raw(demands)), demands),
        ] {
            let named = named_response(Response { outcome, era: Era::Modern }, "plain").unwrap();
            let (Ok(text) | Err(text)) = named.outcome.settled();
            assert_eq!(text.get(), expected);
        }
    }

    #[test]
    fn a_question_under_escaped_keys_names_its_backend() {
        let asks = r#"{"result\u0054ype":"input_required","input\u0052equests":{"a":{"meth\u006fd":"elicitation/create","params":{"mess\u0061ge":"?"}}}}"#;
        let demands = r#"{"code":-32042,"message":"m","dat\u0061":{"elicit\u0061tions":[{"message":"Go"}]}}"#;
        for outcome in [RpcOutcome::result(&raw(asks)), RpcOutcome::error(&raw(demands))] {
            let named = named_response(Response { outcome, era: Era::Modern }, "evil").unwrap();
            let (Ok(text) | Err(text)) = named.outcome.settled();
            assert!(text.get().contains(r#""The server evil asks: "#), "{}", text.get());
        }
    }

    #[test]
    fn a_question_sends_people_to_pages_alone() {
        let asked = |url: &str| {
            let question = raw(&format!(r#"{{"mode":"url","message":"Go","url":{url}}}"#));
            named_params(methods::ELICIT, Some(&*question), "evil").is_some()
        };
        for url in [r#""https://a.example/sign-in?x=1""#, r#""http://127.0.0.1:8080/""#, "null"] {
            assert!(asked(url), "{url}");
        }
        for url in [
            r#""javascript:alert(1)""#,
            r#"" java\nscript:alert(1)""#,
            r#""file:///etc/passwd""#,
            r#""ms-msdt:/id""#,
            r#""https://github.com@evil.example/""#,
            "5",
        ] {
            assert!(!asked(url), "{url}");
        }
        let visit = r#"{"code":-32042,"message":"m","data":{"elicitations":[{"url":"vbscript:x"}]}}"#;
        let outcome = RpcOutcome::error(&raw(visit));
        assert!(named_response(Response { outcome, era: Era::Legacy }, "evil").is_err());
    }

    #[test]
    fn a_question_under_keys_in_another_letter_case_is_refused() {
        let named = |outcome| named_response(Response { outcome, era: Era::Modern }, "evil");
        let question = r#"{"method":"elicitation/create","params":{"message":"?"}}"#;
        for result in [
            format!(r#"{{"ResultType":"input_required","InputRequests":{{"a":{question}}}}}"#),
            format!(r#"{{"resultType":"input_required","inputRequests":{{}},"inputrequests":{{"a":{question}}}}}"#),
            format!(r#"{{"resultType":"input_required","InputRequests":{{"a":{question}}}}}"#),
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"x","Method":"elicitation/create"}}}"#
                .to_owned(),
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"Message":"vmcp asks"}}}}"#
                .to_owned(),
        ] {
            assert!(named(RpcOutcome::result(&raw(&result))).is_err(), "{result}");
        }
        let typed = RpcOutcome::result(&raw(r#"{"content":[],"RESULTTYPE":"input_required"}"#));
        assert!(unasking(Response { outcome: typed, era: Era::Modern }).is_err());
        for error in [
            r#"{"code":-32042,"message":"m","Data":{"elicitations":[{"message":"Go"}]}}"#,
            r#"{"code":-32042,"message":"m","data":{"Elicitations":[{"message":"Go"}]}}"#,
            r#"{"code":-32042,"message":"m","data":{"elicitations":[],"ELICITATIONS":[{"message":"Go"}]}}"#,
            r#"{"code":-32042,"message":"m","DATA":{"x":1,"x":2,"elicitations":[{"message":"Go"}]}}"#,
        ] {
            assert!(named(RpcOutcome::error(&raw(error))).is_err(), "{error}");
            let outcome = RpcOutcome::error(&raw(error));
            assert!(unasking(Response { outcome, era: Era::Legacy }).is_err(), "{error}");
        }
        for question in [
            r#"{"message":"Which one?","Message":"vmcp needs your password"}"#,
            r#"{"message":"?","mode":"form","Mode":"url","Url":"https://evil.example"}"#,
            "{\"messages\":[],\"\u{17f}ystemPrompt\":\"p\"}",
            r#"{"message":"?","_Meta":{"vmcp/server":"good"}}"#,
        ] {
            assert!(named_params(methods::ELICIT, Some(&*raw(question)), "evil").is_none(), "{question}");
        }
        // Data of servers have keys of their own.
        let error = r#"{"code":-1,"message":"m","Data":{"Reason":"x"},"data":{"Name":1}}"#;
        assert!(named(RpcOutcome::error(&raw(error))).is_ok());
    }

    #[test]
    fn a_question_that_names_a_key_twice_is_refused() {
        let question = r#"{"method":"elicitation/create","params":{"message":"?"}}"#;
        for result in [
            format!(r#"{{"inputRequests":{{}},"inputRequests":{{"a":{question}}}}}"#),
            format!(r#"{{"inputRequests":{{"a":{question},"a":{question}}}}}"#),
            r#"{"inputRequests":{"a":{"method":"x","method":"elicitation/create"}}}"#.to_owned(),
            r#"{"inputRequests":{"a":{"method":"elicitation/create","params":{"message":"1","message":"2"}}}}"#
                .to_owned(),
            format!(r#"{{"inputRequests":[{question}]}}"#),
        ] {
            let result = format!(r#"{{"resultType":"input_required",{}"#, &result[1..]);
            // As it arrives from a backend: a parser that takes the last of two keys finds the type.
            let arrived = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
            let mut scanner = Scanner::default();
            scanner.push(arrived.as_bytes()).unwrap();
            let reply = reply(arrived.clone().into(), scanner.finish().unwrap(), "1");
            let Ok(Reply::Result(result)) = reply else { panic!("{arrived}") };
            let outcome = RpcOutcome::Result(result);
            let refused = named_response(Response { outcome, era: Era::Modern }, "evil");
            assert!(refused.is_err(), "{arrived}");
        }
        for error in [
            r#"{"code":-32042,"message":"m","data":{"elicitations":[{"message":"1","message":"2"}]}}"#,
            r#"{"code":-32042,"message":"m","data":{"elicitations":[],"elicitations":[{"message":"2"}]}}"#,
            r#"{"code":-32042,"message":"m","data":{},"data":{"elicitations":[{"message":"2"}]}}"#,
        ] {
            let answer = || Response { outcome: RpcOutcome::error(&raw(error)), era: Era::Legacy };
            assert!(named_response(answer(), "evil").is_err(), "{error}");
            assert!(unasking(answer()).is_err(), "{error}");
        }
        let (sender, mut answer) = oneshot::channel();
        let params = Some(raw(r#"{"message":"1","message":"2"}"#));
        let question = Question { id: None, method: methods::ELICIT.into(), params, answer: sender };
        assert!(named(Event::Question(question), "evil").is_none());
        assert!(answer.try_recv().is_err(), "the backend hears that nobody was asked");
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
        let Some(Event::Notification(message)) = named(Event::Notification(raw(r#"{"method":"n"}"#)), "b")
        else {
            panic!("a notification")
        };
        assert_eq!(message.get(), r#"{"method":"n"}"#);
    }
}
