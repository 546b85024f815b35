//! Frame of the handlers that answer from the snapshot alone: starts and settles the record, and turns a
//! mistake in the arguments into a result that a model reads.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::answer::Answer;
use crate::caller::CallContext;
use crate::own_tools::arguments::input::InputError;
use crate::own_tools::arguments::own_arguments::OwnArguments;
use crate::own_tools::tool_result;
use vmcp_engine::telemetry::calls::{CallRecorder, Origin, Outcome};

/// The failure that a handler answers with.
pub(in crate::own_tools) enum Refusal {
    /// A mistake in the arguments.
    Input(InputError),
    /// A JSON object with `success: false`.
    Failure(Box<RawValue>),
}

impl From<InputError> for Refusal {
    fn from(error: InputError) -> Refusal {
        Refusal::Input(error)
    }
}

impl Refusal {
    /// Makes a failure of a JSON object.
    pub(in crate::own_tools) fn json(failure: &impl Serialize) -> Refusal {
        Refusal::Failure(to_raw_value(failure).unwrap_or_default())
    }
}

/// Answers a call with what `work` makes of its arguments.
pub(in crate::own_tools) fn answer<T: Serialize>(
    context: CallContext<'_>,
    origin: Origin,
    arguments: &RawValue,
    work: impl FnOnce(&OwnArguments<'_>) -> Result<T, Refusal>,
) -> Answer {
    let recorder = context.start_own_record(origin, arguments);
    let done = OwnArguments::parse(arguments).map_err(Refusal::from).and_then(|arguments| work(&arguments));
    settled(recorder, done)
}

/// As [`answer`], for work that waits.
pub(in crate::own_tools) async fn answer_later<T: Serialize>(
    context: CallContext<'_>,
    origin: Origin,
    arguments: &RawValue,
    work: impl AsyncFnOnce(&OwnArguments<'_>) -> Result<T, Refusal>,
) -> Answer {
    let recorder = context.start_own_record(origin, arguments);
    let done = match OwnArguments::parse(arguments) {
        Ok(arguments) => work(&arguments).await,
        Err(error) => Err(Refusal::from(error)),
    };
    settled(recorder, done)
}

fn settled(recorder: CallRecorder, done: Result<impl Serialize, Refusal>) -> Answer {
    let (result, outcome) = match done {
        Ok(answer) => (tool_result::structured(&to_raw_value(&answer).unwrap_or_default()), Outcome::Ok),
        Err(refusal) => (refused(refusal), Outcome::ToolError),
    };
    recorder.settle(outcome);
    Answer::own(result)
}

/// Makes the result of a refusal.
pub(in crate::own_tools) fn refused(refusal: Refusal) -> Box<RawValue> {
    match refusal {
        Refusal::Input(error) => tool_result::error(&error.to_string()),
        Refusal::Failure(json) => tool_result::failure(&json),
    }
}
