//! Frame of the handlers that answer from the snapshot alone: starts and settles the record, and turns a
//! mistake in the arguments into a result that a model reads.

use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::answer::Answer;
use crate::answer::tool_result::{self, ErrorType};
use crate::call::UNRECORDED;
use crate::caller::CallContext;
use crate::own_tools::arguments::input::InputError;
use crate::own_tools::arguments::own_arguments::OwnArguments;
use vmcp_engine::optim::names::OptimTool;
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

/// Answers a call with the result of `work` for its arguments.
pub(in crate::own_tools) fn answer<T: Serialize>(
    context: CallContext<'_>,
    origin: Origin,
    arguments: &RawValue,
    work: impl FnOnce(&OwnArguments<'_>) -> Result<T, Refusal>,
) -> Answer {
    let recorder = context.start_own_record(origin, arguments);
    let done = OwnArguments::parse(arguments).map_err(Refusal::from).and_then(|arguments| work(&arguments));
    settled(recorder, arguments, done, |_, json| tool_result::structured(json))
}

/// As [`answer`], for work that waits.
pub(in crate::own_tools) async fn answer_later<T: Serialize>(
    context: CallContext<'_>,
    origin: Origin,
    arguments: &RawValue,
    work: impl AsyncFnOnce(&OwnArguments<'_>) -> Result<T, Refusal>,
) -> Answer {
    answer_as(context, origin, arguments, work, |_, json| tool_result::structured(json)).await
}

/// As [`answer_later`]. `result` makes the result of an answer and its JSON.
pub(in crate::own_tools) async fn answer_as<T: Serialize>(
    context: CallContext<'_>,
    origin: Origin,
    arguments: &RawValue,
    work: impl AsyncFnOnce(&OwnArguments<'_>) -> Result<T, Refusal>,
    result: impl FnOnce(&T, &RawValue) -> Box<RawValue>,
) -> Answer {
    let recorder = context.start_own_record(origin, arguments);
    if begins_on_record(origin) && !recorder.begins().await {
        recorder.settle(Outcome::ToolError);
        return Answer::own(tool_result::error(UNRECORDED));
    }
    let done = match OwnArguments::parse(arguments) {
        Ok(arguments) => work(&arguments).await,
        Err(error) => Err(Refusal::from(error)),
    };
    settled(recorder, arguments, done, result)
}

/// True for an own tool that changes servers, definitions or sessions, or hands out results of backends: with
/// `audit.failClosed` its begin is on record before. Calls of backends by other own tools have a begin of
/// their own.
fn begins_on_record(origin: Origin) -> bool {
    let Origin::Own(tool) = origin else { return false };
    let hands_out =
        matches!(tool, OptimTool::ReadResult | OptimTool::SearchResult | OptimTool::ProcessLargeDataset);
    let changes =
        matches!(tool, OptimTool::RefreshTools | OptimTool::RegenerateEmbeddings | OptimTool::CallHook);
    hands_out || changes || tool.is_of_admin()
}

/// Ends a call with a text for the model, and with the data of the text.
pub(in crate::own_tools) fn told<T: Serialize>(
    recorder: CallRecorder,
    done: Result<T, Refusal>,
    text: impl FnOnce(&T) -> String,
) -> Answer {
    let (result, outcome) = match done {
        Ok(done) => (tool_result::told(&text(&done), &to_raw_value(&done).unwrap_or_default()), Outcome::Ok),
        Err(refusal) => (refused(refusal), Outcome::ToolError),
    };
    recorder.settle(outcome);
    Answer::own(result)
}

fn settled<T: Serialize>(
    mut recorder: CallRecorder,
    arguments: &RawValue,
    done: Result<T, Refusal>,
    result: impl FnOnce(&T, &RawValue) -> Box<RawValue>,
) -> Answer {
    let done = done.and_then(|answer| Ok((written(&answer)?, answer)));
    let (result, outcome) = match done {
        Ok((json, answer)) => (result(&answer, &json), Outcome::Ok),
        Err(refusal) => (refused(refusal), Outcome::ToolError),
    };
    recorder.record().bytes_in = arguments.get().len() as u64;
    recorder.record().bytes_out = result.get().len() as u64;
    recorder.settle(outcome);
    Answer::own(result)
}

/// Writes an answer as JSON; an answer that cannot be written is a failure, not `null`.
fn written(answer: &impl Serialize) -> Result<Box<RawValue>, Refusal> {
    to_raw_value(answer).map_err(|error| {
        let error = format!("the answer cannot be written as JSON: {error}");
        Refusal::json(&json!({"success": false, "error": error, "error_type": ErrorType::BackendError}))
    })
}

/// Makes the result of a refusal.
pub(in crate::own_tools) fn refused(refusal: Refusal) -> Box<RawValue> {
    match refusal {
        Refusal::Input(error) => tool_result::error(&error.to_string()),
        Refusal::Failure(json) => tool_result::failure(&json),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn an_answer_that_cannot_be_written_is_a_failure() {
        let Err(Refusal::Failure(failure)) = written(&HashMap::from([(vec![1_u8], 1)])) else {
            panic!("a key is a list");
        };
        assert!(failure.get().contains("cannot be written as JSON: key must be a string"), "{failure}");
    }
}
