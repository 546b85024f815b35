//! A waiting script as text: the state that a client carries sealed (`requestState`), or that the store of
//! runs keeps. The seal binds it to principal, profile and request; here it is bound to the form of this
//! version.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use vmcp_engine::random::random;
use vmcp_script::pool::{Called, WaitingScript};
use vmcp_script::protocol::Failure;
use vmcp_wire::sealed::request_state::MAX_STATE;

use super::asking_call::AskingCall;

/// Version of the form.
const VERSION: u32 = 1;
/// The answer to a state of another version.
const OTHER_VERSION: &str = "the script waits in a form of another version of this server; run it again";

/// A script that waits for answers.
pub(super) type Waiting = WaitingScript<AskingCall>;

#[derive(Serialize, Deserialize)]
struct State {
    version: u32,
    /// Random: equal scripts at equal places have different states, so that each counts once.
    id: String,
    /// The text of a script that a language model has written, for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    written: Option<String>,
    /// The reason for which a worker runs the script of a Job, for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start_failure: Option<String>,
    script: Waiting,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// The parts of a state that are for the answer.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ForAnswer {
    written: Option<String>,
    start_failure: Option<String>,
}

/// Writes the state; fails beyond the size that can be sealed. `written` is the text that a language model
/// has written, `start_failure` the reason for which a worker runs the script of a Job.
pub(super) fn write(
    script: Waiting,
    written: Option<&str>,
    start_failure: Option<&str>,
) -> Result<String, Failure> {
    let (id, written) = (hex::encode(random::<16>()), written.map(str::to_owned));
    let state =
        State { version: VERSION, id, written, start_failure: start_failure.map(str::to_owned), script };
    let text = serde_json::to_string(&state);
    let text = text.map_err(|error| Failure::new("SuspendError", error.to_string()))?;
    if text.len() > MAX_STATE {
        let error = format!(
            "a tool asks the user, and the script with its pictures and the results that it waits for takes {} \
             bytes meanwhile; the limit is {MAX_STATE}: make this call alone, and keep and draw less before it",
            text.len()
        );
        return Err(Failure::new("SuspendLimitError", error).with_limit(MAX_STATE));
    }
    Ok(text)
}

/// Reads the text that a language model has written.
pub(super) fn written(state: &str) -> Option<String> {
    for_answer(state).written
}

/// Reads the reason for which a worker runs the script of a Job.
pub(super) fn start_failure(state: &str) -> Option<String> {
    for_answer(state).start_failure
}

fn for_answer(state: &str) -> ForAnswer {
    serde_json::from_str(state).unwrap_or_default()
}

/// Reads the state; the error is for the model.
pub(super) fn read(state: &str) -> Result<Waiting, &'static str> {
    let version: Version = serde_json::from_str(state).map_err(|_| OTHER_VERSION)?;
    if version.version != VERSION {
        return Err(OTHER_VERSION);
    }
    let state: State = serde_json::from_str(state).map_err(|_| OTHER_VERSION)?;
    Ok(state.script)
}

/// Returns the questions of all calls; a key is `PLACE/KEY`, with the place of the call in the script's list
/// of awaited calls.
pub(super) fn questions(script: &Waiting) -> Map<String, Value> {
    let mut questions = Map::new();
    for (place, call) in asking(script) {
        for (key, question) in &call.questions {
            questions.insert(format!("{place}/{key}"), question.clone());
        }
    }
    questions
}

/// Gives the calls their answers; false if a question has none.
pub(super) fn answer(script: &mut Waiting, answers: &Map<String, Value>) -> bool {
    let mut all = true;
    for (place, called) in script.calls.iter_mut().enumerate() {
        let Called::Asks(call) = called else { continue };
        for key in call.questions.keys() {
            match answers.get(&format!("{place}/{key}")) {
                Some(answer) => _ = call.answers.insert(key.clone(), answer.clone()),
                None => all = false,
            }
        }
    }
    all
}

fn asking(script: &Waiting) -> impl Iterator<Item = (usize, &AskingCall)> {
    script.calls.iter().enumerate().filter_map(|(place, called)| match called {
        Called::Asks(call) => Some((place, call)),
        Called::Ended(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use vmcp_script::protocol::{CallEnd, SuspendedScript};

    use super::*;

    fn script(result: Value) -> Waiting {
        let call = |key: &str| AskingCall {
            tool: "fs_ask".to_owned(),
            definition: "d".to_owned(),
            arguments: Map::new(),
            questions: Map::from_iter([(key.to_owned(), json!({ "method": "elicitation/create" }))]),
            state: Some("s".to_owned()),
            is_confirmed: false,
            answers: Map::new(),
        };
        let script = SuspendedScript {
            engine: "e".to_owned(),
            state: "AA".to_owned(),
            namespaces: Vec::new(),
            functions: None,
            output: String::new(),
            is_output_over: false,
            pictures: Vec::new(),
            calls: 3,
        };
        let calls = vec![
            Called::Asks(call("name")),
            Called::Ended(CallEnd::Value(result)),
            Called::Asks(call("name")),
        ];
        Waiting { script, calls, made: 3, took: Duration::from_millis(1) }
    }

    #[test]
    fn each_question_has_its_own_key_and_answer() {
        let mut waiting = read(&write(script(json!(1)), None, None).unwrap()).unwrap();
        assert_eq!(questions(&waiting).keys().collect::<Vec<_>>(), ["0/name", "2/name"]);
        let answers = |json: Value| json.as_object().unwrap().clone();
        assert!(!answer(&mut waiting, &answers(json!({ "0/name": 1, "1/name": 2 }))));
        assert!(answer(&mut waiting, &answers(json!({ "0/name": 1, "2/name": 2 }))));
        let given: Vec<_> = asking(&waiting).map(|(_, call)| call.answers["name"].clone()).collect();
        assert_eq!(given, [1, 2]);
        let text = write(waiting, Some("1 + 1"), Some("no image")).unwrap();
        assert_eq!(written(&text).as_deref(), Some("1 + 1"));
        assert_eq!(start_failure(&text).as_deref(), Some("no image"));
        assert!(!text.contains("answers"), "answers are no part of the state");
    }

    #[test]
    fn a_state_is_of_this_version_counts_once_and_is_bounded() {
        let (one, other) =
            (write(script(json!(1)), None, None).unwrap(), write(script(json!(1)), None, None).unwrap());
        assert_ne!(one, other);
        assert_eq!((written(&one), start_failure(&one)), (None, None));
        let newer = one.replace(r#""version":1"#, r#""version":2"#);
        for refused in [newer.as_str(), "", "{}", r#"{"version":1}"#] {
            assert_eq!(read(refused).unwrap_err(), OTHER_VERSION);
        }
        let failure = write(script(json!("x".repeat(MAX_STATE))), None, None).unwrap_err();
        assert_eq!((failure.error_type.as_str(), failure.limit), ("SuspendLimitError", Some(262_144)));
    }
}
