//! Composite tools: a run's steps as calls of the seam, its result and its questions as answers.
//!
//! A composite tool is a tool of the catalog's backend `composite`. It is routed, authorized, limited and
//! recorded as any other; in place of a request to a server, [`run()`] runs its steps. Each step goes through
//! the seam again, under the caller's identity. A run that asks answers as a server of the modern era does:
//! a modern client carries its state, sealed; a legacy client is asked on the way, and its run is kept
//! ([`OpenRun`]), so that another process can continue it.

mod open_run;
mod result;
mod steps;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;
use serde_json::{Map, Value};
use vmcp_backend::{CallError, Response};
use vmcp_engine::runs::kept::ClaimError;
use vmcp_engine::telemetry::calls::CallRecorder;
use vmcp_engine::telemetry::traces::{self, TraceSpan};
use vmcp_model::names::COMPOSITE;
use vmcp_wire::keys::{INPUT_RESPONSES, REQUEST_STATE};
use vmcp_wire::owned::OwnedParams;
use vmcp_workflow::CompositeTool;
use vmcp_workflow::run::{self, Begin};

pub(crate) use self::open_run::OpenRun;
use self::steps::Steps;
use crate::caller::{CallContext, Caller};

/// The answer to an answer that came twice.
const USED: &str = "this answer has been used: what follows it is not done twice; call the tool again";

/// True if a call of a composite tool goes on with a run, by the state of the run or by its id. The state has
/// the arguments of the run; those of the call are not read.
pub(crate) fn continues_run(caller: &Caller, params: &OwnedParams) -> bool {
    let has_state = caller.continues.as_deref() == Some(COMPOSITE) && params.get(REQUEST_STATE).is_some();
    has_state || open_run::named_run(params).is_some()
}

/// Runs a composite tool until it ends or asks. `continues`: the state in `params` is a run's, which vmcp has
/// written itself. `open` is the run of the request, over all its parts. A trait object: crates that poll a
/// call do not compile composite tools again.
pub(crate) fn run<'a>(
    context: CallContext<'a>,
    tool: &'a Arc<CompositeTool>,
    params: &'a OwnedParams,
    continues: bool,
    open: &'a mut Option<OpenRun>,
    recorder: &'a mut CallRecorder,
) -> BoxFuture<'a, Result<Response, CallError>> {
    Box::pin(run_part(context, tool, params, continues, open, recorder))
}

async fn run_part(
    context: CallContext<'_>,
    tool: &Arc<CompositeTool>,
    params: &OwnedParams,
    continues: bool,
    open: &mut Option<OpenRun>,
    recorder: &mut CallRecorder,
) -> Result<Response, CallError> {
    let invalid = |error: &dyn std::fmt::Display| CallError::InvalidRequest { reason: error.to_string() };
    let runs = context.engine.runs();
    // A legacy client was asked while its request waited: its answers come from this process.
    let is_same_request = open.is_some();
    let open = open.get_or_insert_with(|| OpenRun::new(context, tool));
    let state = params.get(REQUEST_STATE).filter(|_| continues);
    let begin = match state {
        Some(state) => {
            let state: String = serde_json::from_str(state).unwrap_or_default();
            let answers = object(params.get(INPUT_RESPONSES));
            // A repeat without an answer begins nothing; it is asked again.
            if !answers.is_empty() && !is_same_request {
                let is_new = runs.use_answer(&context.snapshot.config, &state).await;
                if !is_new.map_err(|error| CallError::unsent(error.to_string()))? {
                    return Err(invalid(&USED));
                }
            }
            Begin::Continued { state, answers }
        }
        None => open.begin(context, tool, params).await.map_err(|error| match error {
            ClaimError::Store(outage) => CallError::unsent(outage.to_string()),
            error => invalid(&error),
        })?,
    };
    if let Begin::New { id, .. } = &begin {
        // Noted at the begin, so that the record of a dropped call names its run, as those of its steps do.
        recorder.record().run = Some(Box::from(id.as_str()));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let span = TraceSpan::begin("composite.run", |open| open.text("name", tool.name.as_str()));
    let steps = Steps::new(context, span.clone(), params, open);
    let finished = traces::in_span(pin!(run::run(tool, &steps, &*open, begin, now)), &span).await;
    drop(steps);
    if let Ok(finished) = &finished {
        note(&span, tool, finished);
    }
    open.finish(finished.as_ref().ok().map(|finished| &finished.end)).await;
    Ok(result::response(tool, finished.map_err(|error| invalid(&error))?.end))
}

/// Logs the end of a run.
fn note(span: &TraceSpan, tool: &CompositeTool, finished: &run::Finished) {
    span.text("run", finished.id.as_str());
    let (run, name) = (finished.id.as_str(), tool.name.as_str());
    match &finished.end {
        run::End::Complete(_) => tracing::debug!(run, name, "a composite tool has completed"),
        run::End::Failed(error) => tracing::info!(run, name, error, "a composite tool has failed"),
        run::End::Unknown(error) => tracing::warn!(run, name, error, "a composite tool was cut off"),
        run::End::Asks { questions, .. } => {
            tracing::debug!(run, name, questions = questions.len(), "a composite tool asks its user");
        }
    }
}

/// Reads an object; nothing else counts.
fn object(json: Option<&str>) -> Map<String, Value> {
    json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
