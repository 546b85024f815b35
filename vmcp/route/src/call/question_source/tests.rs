//! Questions in events, answers and states of tasks.

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
    let demands = r#"{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","message":"Go"}]}}"#;
    let of = |outcome| {
        let named = named_response(Response { outcome, era: Era::Modern }, "evil", false).unwrap();
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
        let named = named_response(Response { outcome, era: Era::Modern }, "plain", false).unwrap();
        let (Ok(text) | Err(text)) = named.outcome.settled();
        assert_eq!(text.get(), expected);
    }
}

#[test]
fn a_question_under_escaped_keys_names_its_backend() {
    let asks = r#"{"result\u0054ype":"input_required","input\u0052equests":{"a":{"meth\u006fd":"elicitation/create","params":{"mess\u0061ge":"?"}}}}"#;
    let demands = r#"{"code":-32042,"message":"m","dat\u0061":{"elicit\u0061tions":[{"message":"Go"}]}}"#;
    for outcome in [RpcOutcome::result(&raw(asks)), RpcOutcome::error(&raw(demands))] {
        let named = named_response(Response { outcome, era: Era::Modern }, "evil", false).unwrap();
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
    assert!(named_response(Response { outcome, era: Era::Legacy }, "evil", false).is_err());
}

#[test]
fn a_question_under_keys_in_another_letter_case_is_refused() {
    let named = |outcome| named_response(Response { outcome, era: Era::Modern }, "evil", false);
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
    assert!(unasking(Response { outcome: typed, era: Era::Modern }, false).is_err());
    for error in [
        r#"{"code":-32042,"message":"m","Data":{"elicitations":[{"message":"Go"}]}}"#,
        r#"{"code":-32042,"message":"m","data":{"Elicitations":[{"message":"Go"}]}}"#,
        r#"{"code":-32042,"message":"m","data":{"elicitations":[],"ELICITATIONS":[{"message":"Go"}]}}"#,
        r#"{"code":-32042,"message":"m","DATA":{"x":1,"x":2,"elicitations":[{"message":"Go"}]}}"#,
    ] {
        assert!(named(RpcOutcome::error(&raw(error))).is_err(), "{error}");
        let outcome = RpcOutcome::error(&raw(error));
        assert!(unasking(Response { outcome, era: Era::Legacy }, false).is_err(), "{error}");
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
        let refused = named_response(Response { outcome, era: Era::Modern }, "evil", false);
        assert!(refused.is_err(), "{arrived}");
    }
    for error in [
        r#"{"code":-32042,"message":"m","data":{"elicitations":[{"message":"1","message":"2"}]}}"#,
        r#"{"code":-32042,"message":"m","data":{"elicitations":[],"elicitations":[{"message":"2"}]}}"#,
        r#"{"code":-32042,"message":"m","data":{},"data":{"elicitations":[{"message":"2"}]}}"#,
    ] {
        let answer = || Response { outcome: RpcOutcome::error(&raw(error)), era: Era::Legacy };
        assert!(named_response(answer(), "evil", false).is_err(), "{error}");
        assert!(unasking(answer(), false).is_err(), "{error}");
    }
    let (sender, mut answer) = oneshot::channel();
    let params = Some(raw(r#"{"message":"1","message":"2"}"#));
    let question = Question { id: None, method: methods::ELICIT.into(), params, answer: sender };
    assert!(named(Event::Question(question), "evil").is_none());
    assert!(answer.try_recv().is_err(), "the backend hears that nobody was asked");
}

#[test]
fn a_silent_backend_reads_of_no_capability_to_answer() {
    let told = |capabilities: &str| without_questions(&raw(capabilities)).map(|told| told.get().to_owned());
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
        let answer = unasking(Response { outcome, era: Era::Modern }, false);
        assert_eq!(answer.is_err(), fails, "{answer:?}");
    }
}

#[test]
fn other_events_stay_as_they_came() {
    let Some(Event::Notification(message)) = named(Event::Notification(raw(r#"{"method":"n"}"#)), "b") else {
        panic!("a notification")
    };
    assert_eq!(message.get(), r#"{"method":"n"}"#);
}

#[test]
fn questions_in_the_state_of_a_task_name_their_backend() {
    let question = r#"{"method":"elicitation/create","params":{"message":"Password?"}}"#;
    let named = r#"{"method":"elicitation/create","params":{"message":"The server evil asks: Password?","_meta":{"vmcp/server":"evil"}}}"#;
    let state = |question: &str| {
        format!(r#"{{"taskId":"1","status":"input_required","inputRequests":{{"a":{question}}}}}"#)
    };
    let response = |text: &str| Response { outcome: RpcOutcome::result(&raw(text)), era: Era::Modern };
    let answered = |text: &str| match named_response(response(text), "evil", true).map(|it| it.outcome) {
        Ok(RpcOutcome::Result(result)) => Some(result.get().to_owned()),
        _ => None,
    };
    assert_eq!(answered(&state(question)), Some(state(named)));
    assert!(unasking(response(&state(question)), true).is_err(), "a silent backend asks nothing");
    let created = state(question).replacen('{', r#"{"resultType":"task","#, 1);
    let answer = named_response(response(&created), "evil", false).unwrap().outcome;
    assert!(matches!(answer, RpcOutcome::Result(result) if result.get().contains("The server evil asks")));
    let quiet = r#"{"taskId":"1","status":"working"}"#;
    assert_eq!(answered(quiet).as_deref(), Some(quiet));
    assert!(unasking(response(quiet), true).is_ok());
    for hidden in [
        state(question).replace("inputRequests", "InputRequests"),
        state(question).replacen('{', r#"{"inputRequests":{},"#, 1),
        state(&question.replace("message", "Message")),
        state(r#"{"method":"elicitation/create","params":{"mode":"url","url":"javascript:alert(1)"}}"#),
    ] {
        assert_eq!(answered(&hidden), None, "{hidden}");
    }
}

#[test]
fn questions_in_a_changed_task_name_their_backend() {
    let changed = |method: &str, requests: &str, message: &str| {
        raw(&format!(
            r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"taskId":"1","{requests}":{{"a":{{"method":"elicitation/create","params":{{"message":"{message}"}}}}}}}}}}"#
        ))
    };
    for method in ["notifications/tasks", r"notifications\/tasks", r"notifications/\u0074asks"] {
        let event = Event::Notification(changed(method, "inputRequests", "?"));
        assert!(asks(&event), "{method}");
        let Some(Event::Notification(told)) = named(event, "evil") else { panic!("{method} is dropped") };
        assert!(told.get().contains("The server evil asks: ?"), "{}", told.get());
    }
    let event = Event::Notification(changed("notifications/tasks", "inputrequests", "?"));
    assert!(asks(&event) && named(event, "evil").is_none(), "a client may pass over letter case");
    let other = changed("notifications/message", "inputRequests", "?");
    let event = Event::Notification(other.clone());
    assert!(!asks(&event));
    assert!(matches!(named(event, "evil"), Some(Event::Notification(told)) if told.get() == other.get()));
}
