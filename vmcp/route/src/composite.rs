//! Composite tools: a run's steps as calls of the seam, its result and its questions as answers.
//!
//! A composite tool is a tool of the catalog's backend [`COMPOSITE`]. It is routed, authorized, limited and
//! recorded as any other; in place of a request to a server, [`run()`] runs its steps. Each step goes through
//! the seam again, under the caller's identity. A run that asks answers as a server of the modern era does:
//! a modern client carries its state, sealed; a legacy client is asked on the way.

mod result;
mod steps;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use tracing::{Instrument as _, Span, info_span};
use vmcp_backend::{CallError, Response};
use vmcp_engine::engine::Snapshot;
use vmcp_engine::random::random;
use vmcp_model::catalog::CatalogTool;
use vmcp_model::names::COMPOSITE;
use vmcp_wire::keys::{INPUT_RESPONSES, REQUEST_STATE};
use vmcp_wire::owned::OwnedParams;
use vmcp_workflow::CompositeTool;
use vmcp_workflow::run::{self, Begin};

use self::steps::Steps;
use crate::caller::CallContext;

/// Returns the definition of a composite tool; `None` for a tool of a backend.
pub(crate) fn definition<'a>(snapshot: &'a Snapshot, tool: &CatalogTool) -> Option<&'a Arc<CompositeTool>> {
    if &*tool.backend != COMPOSITE {
        return None;
    }
    snapshot.config.composite_tools.iter().find(|composite| composite.name == tool.own_name)
}

/// Runs a composite tool until it ends or asks. `continues`: the state in `params` is a run's, which vmcp has
/// written itself.
pub(crate) async fn run(
    context: CallContext<'_>,
    tool: &Arc<CompositeTool>,
    params: &OwnedParams,
    continues: bool,
) -> Result<Response, CallError> {
    let state = params.get(REQUEST_STATE).filter(|_| continues);
    let begin = match state {
        Some(state) => {
            let state: String = serde_json::from_str(state).unwrap_or_default();
            let answers = object(params.get(INPUT_RESPONSES));
            // A repeat without an answer begins nothing; it is asked again.
            if !answers.is_empty() && !context.snapshot.used_states.take(&state) {
                let reason =
                    "this answer has been used: what follows it is not done twice; call the tool again";
                return Err(CallError::InvalidRequest { reason: reason.to_owned() });
            }
            Begin::Continued { state, answers }
        }
        None => Begin::New { id: hex::encode(random::<16>()), arguments: object(params.get("arguments")) },
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let span = info_span!("composite.run", name = %tool.name, run = tracing::field::Empty);
    let steps = Steps::new(context, span.clone());
    let finished = run::run(tool, &steps, begin, now).instrument(span.clone()).await;
    let finished = finished.map_err(|error| CallError::InvalidRequest { reason: error.to_string() })?;
    note(&span, tool, &finished);
    Ok(result::response(tool, finished.end))
}

/// Logs the end of a run.
fn note(span: &Span, tool: &CompositeTool, finished: &run::Finished) {
    span.record("run", finished.id.as_str());
    let (run, name) = (finished.id.as_str(), tool.name.as_str());
    match &finished.end {
        run::End::Complete(_) => tracing::debug!(run, name, "a composite tool has completed"),
        run::End::Failed(error) => tracing::info!(run, name, error, "a composite tool has failed"),
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
