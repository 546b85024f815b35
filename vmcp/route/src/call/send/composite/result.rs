//! The end of a run as the answer of a tool.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use vmcp_backend::{Response, RpcOutcome};
use vmcp_model::names::COMPOSITE;
use vmcp_wire::era::Era;
use vmcp_wire::keys::{INPUT_REQUESTS, REQUEST_STATE};
use vmcp_workflow::CompositeTool;
use vmcp_workflow::run::End;

/// Returns the answer of a composite tool.
pub(super) fn response(tool: &CompositeTool, end: End) -> Response {
    match end {
        End::Complete(value) => {
            let text = match &value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let mut result = json!({ "content": [{ "type": "text", "text": text }] });
            if let (Some(result), true) = (result.as_object_mut(), value.is_object()) {
                result.insert("structuredContent".to_owned(), value);
            }
            own(&result)
        }
        End::Failed(error) | End::Unknown(error) => {
            let text = format!("{COMPOSITE}.{}: {error}", tool.name);
            own(&json!({ "content": [{ "type": "text", "text": text }], "isError": true }))
        }
        End::Asks { questions, state } => {
            let result = json!({
                "resultType": "input_required",
                INPUT_REQUESTS: questions,
                REQUEST_STATE: state,
            });
            Response { outcome: RpcOutcome::result(&raw(&result)), era: Era::Modern }
        }
    }
}

/// A result without keys that differ between the eras; translation adds the keys of a modern client.
fn own(result: &Value) -> Response {
    Response { outcome: RpcOutcome::result(&raw(result)), era: Era::Legacy }
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_default()
}
