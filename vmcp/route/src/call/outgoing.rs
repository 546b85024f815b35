//! Parameters of a request as its backend wants them: arguments repeated as headers, no request for a task
//! where the backend takes none. The backend's own name for the subject is written in its place when the
//! request is sent; all other bytes stay.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use vmcp_backend::CallError;
use vmcp_wire::headers::build_param_headers;
use vmcp_wire::lists::tasks::TASK;
use vmcp_wire::meta::{META, PROGRESS_TOKEN};
use vmcp_wire::owned::OwnedParams;

use super::task_calls;
use crate::caller::CallContext;
use crate::router::BackendTarget;
use vmcp_engine::access::policy::Item;

/// Prefixes of keys in `_meta` that are about one request: of the protocol, and of vmcp.
const META_OF_A_REQUEST: [&str; 2] = ["io.modelcontextprotocol/", "vmcp/"];

/// Returns the client's own `_meta` as JSON, for the calls of a step or of a script; `None` if it is empty.
pub(crate) fn own_meta(params: &OwnedParams) -> Option<String> {
    // Values stay as written: as a `Value`, a long number would lose digits.
    let mut meta: BTreeMap<String, &RawValue> = serde_json::from_str(params.get(META)?).ok()?;
    let is_of_request =
        |key: &str| key == PROGRESS_TOKEN || META_OF_A_REQUEST.iter().any(|prefix| key.starts_with(prefix));
    meta.retain(|key, _| !is_of_request(key));
    if meta.is_empty() {
        return None;
    }
    serde_json::to_string(&meta).ok()
}

/// The parameters of one request to a backend.
pub(super) struct Outgoing {
    pub(super) params: OwnedParams,
    /// Arguments that are repeated as HTTP headers (`x-mcp-header`).
    pub(super) param_headers: Vec<(String, String)>,
    /// True if the call asks for a task by the rules of 2025-11-25.
    pub(super) as_task: bool,
}

impl Outgoing {
    /// Makes the parameters for `target` of the client's. `is_read`: a webhook reads the result, so that the
    /// call becomes no task.
    pub(super) fn new(
        context: CallContext<'_>,
        target: &BackendTarget<'_>,
        params: &OwnedParams,
        is_read: bool,
    ) -> Result<Outgoing, CallError> {
        let mut outgoing = Outgoing { params: params.clone(), param_headers: Vec::new(), as_task: false };
        if let Item::Tool(tool) = target.item {
            let asks = params.get(TASK).is_some();
            outgoing.as_task = asks && !is_read && task_calls::may_ask(context, target.backend);
            if asks && !outgoing.as_task {
                let without = params.with(&[(TASK, None)]);
                outgoing.params =
                    without.map_err(|error| CallError::InvalidRequest { reason: error.to_string() })?;
            }
            if !tool.definition.param_headers.is_empty() {
                let arguments = params.get("arguments");
                outgoing.param_headers = build_param_headers(&tool.definition.param_headers, arguments);
            }
        }
        Ok(outgoing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_clients_own_metadata_stay_as_written() {
        let meta = |meta: &str| own_meta(&OwnedParams::from_text(format!(r#"{{"_meta":{meta}}}"#)).unwrap());
        let mixed = r#"{"vmcp/run":"r1","a/n":12345678901234567890123,"progressToken":7,"a/x":{"b": 1.50}}"#;
        assert_eq!(meta(mixed).as_deref(), Some(r#"{"a/n":12345678901234567890123,"a/x":{"b": 1.50}}"#));
        assert_eq!(meta(r#"{"progressToken":7,"io.modelcontextprotocol/logLevel":"debug"}"#), None);
        assert_eq!(meta("null"), None);
    }
}
