//! A script over rows: a `python:` operation of process_large_dataset. It takes the way of execute_code, to
//! the same workers and Jobs, with the same places; it calls no tool, so that the operation only reads.

use std::time::Duration;

use serde_json::{Map, Value};
use vmcp_script::protocol::Finished;

use super::call_arguments::CodeArguments;
use super::{PartEnd, ScriptPart, report, run_part, unless_cancelled};
use crate::caller::CallContext;
use crate::own_tools::arguments::dialect::Dialect;

/// A script over rows that has ended.
pub(in crate::own_tools) struct RanOverRows {
    /// Its end, and what it printed and drew.
    pub(in crate::own_tools) finished: Finished,
    /// Time limit that it had.
    pub(in crate::own_tools) timeout: Duration,
    /// For the answer: another engine than the configured one ran it.
    pub(in crate::own_tools) warning: Option<String>,
}

/// Runs a script whose `CONTEXT` has the rows. The error is for the model.
pub(in crate::own_tools) async fn run(
    context: CallContext<'_>,
    code: String,
    rows: Value,
    timeout: Duration,
) -> Result<RanOverRows, String> {
    let timeout = timeout.min(context.snapshot.config.code.max_timeout);
    let arguments = CodeArguments {
        code,
        task: None,
        context: Some(rows),
        context_with_values: None,
        data: Map::new(),
        timeout,
        dialect: Dialect::Python,
        is_over_rows: true,
        start_failure: None,
    };
    let part = run_part(context, None, &arguments, ScriptPart::New);
    match unless_cancelled(context.caller, Box::pin(part)).await?? {
        PartEnd::Ended { ran, start_failure, .. } => {
            let warning = start_failure.as_deref().map(report::warning);
            Ok(RanOverRows { finished: ran.finished, timeout, warning })
        }
        PartEnd::Waits { .. } | PartEnd::AsksAgain(..) => {
            Err("a script over rows cannot wait for the user".to_owned())
        }
    }
}
