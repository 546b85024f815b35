//! Metrics of calls: [`Metrics`] observes the record of each call.

use std::sync::Arc;

use vmcp_wire::era::Revision;
use vmcp_wire::methods;

use super::{CallObserver, CallRecord, Origin, Outcome};
use crate::metrics::{ClientOperation, Metrics, OTHER, code_label, method_label};
use crate::telemetry::traces;

impl CallObserver for Metrics {
    fn observe(&self, record: &CallRecord) {
        let (requests, errors, duration) = match record.origin {
            Origin::FindTool => (&self.find_tool_requests, &self.find_tool_errors, &self.find_tool_duration),
            Origin::CallTool => (&self.call_tool_requests, &self.call_tool_errors, &self.call_tool_duration),
            Origin::Client
            | Origin::Own(_)
            | Origin::Fallback
            | Origin::Step
            | Origin::Script
            | Origin::Internal => {
                return count_backend(self, record);
            }
        };
        requests.inc();
        duration.observe(record.took.as_secs_f64());
        if record.outcome != Outcome::Ok {
            errors.inc();
        }
        count_backend(self, record);
    }
}

/// Counts a call to a backend.
fn count_backend(metrics: &Metrics, record: &CallRecord) {
    if let Some(backend) = &record.backend {
        metrics.count_call(backend, record.outcome.label(), record.backend_took);
    }
    count_client_operation(metrics, record);
}

/// Counts a call that reached its backend.
fn count_client_operation(metrics: &Metrics, record: &CallRecord) {
    let (Some(backend), Some(network)) = (&record.backend, &record.network) else { return };
    let prompt = record.subject.as_deref().filter(|_| record.method == methods::PROMPTS_GET);
    let tool = record.tool.as_ref().map(|tool| metrics.tool_name(&tool.definition.name));
    let operation = ClientOperation {
        mcp_method_name: method_label(&record.method),
        gen_ai_tool_name: tool.unwrap_or_default(),
        // A prompt whose backend was asked is one of the catalog.
        gen_ai_prompt_name: prompt.map(|name| metrics.prompt_name(name)).unwrap_or_default(),
        error_type: error_type(record).unwrap_or_default(),
        mcp_protocol_version: record.revision.map_or("", Revision::as_str),
        network: Arc::clone(network),
        backend: Arc::clone(backend),
    };
    metrics.count_client_operation(&operation, record.backend_took, traces::exemplar(&record.exchange));
}

/// Returns `error.type` of a call at its backend; `None` for a success.
pub(super) fn error_type(record: &CallRecord) -> Option<&'static str> {
    match record.outcome {
        Outcome::Ok => None,
        Outcome::RpcError => Some(record.error_code.map_or(OTHER, code_label)),
        outcome => Some(outcome.label()),
    }
}
