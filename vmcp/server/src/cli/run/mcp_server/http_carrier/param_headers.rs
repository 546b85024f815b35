//! [`ParamHeaders`]: arguments of tools that a modern client repeats as `Mcp-Param-*` headers, learned from
//! the lists that pass by.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_model::definition::Tool;
use vmcp_wire::headers::{ParamHeader, build_param_headers};
use vmcp_wire::owned::OwnedRequest;

/// Key of a schema that asks for a header.
const ANNOTATION: &str = "x-mcp-header";
/// Tools whose headers are kept; of a server with more, the latest lists count.
const MAX_TOOLS: usize = 10_000;

/// Annotated arguments by tool.
#[derive(Debug, Default)]
pub(super) struct ParamHeaders(Mutex<HashMap<String, Vec<ParamHeader>>>);

impl ParamHeaders {
    /// Reads the result of `tools/list`.
    pub(super) fn learn(&self, result: &RawValue) {
        // Parsing thousands of definitions is worth it only where one has the annotation.
        if !result.get().contains(ANNOTATION) {
            return;
        }
        let Ok(object) = Object::parse(result) else { return };
        let listed: Vec<Box<RawValue>> =
            object.text("tools").and_then(|tools| serde_json::from_str(tools).ok()).unwrap_or_default();
        let mut known = self.0.lock();
        if known.len() > MAX_TOOLS {
            known.clear();
        }
        let annotated = listed.into_iter().filter(|tool| tool.get().contains(ANNOTATION));
        known.extend(
            annotated.filter_map(|tool| Tool::parse(tool).ok()).map(|tool| (tool.name, tool.param_headers)),
        );
    }

    /// Returns the headers of a call.
    pub(super) fn of_call(&self, request: &OwnedRequest) -> Vec<(String, String)> {
        let known = self.0.lock();
        let annotations = request.subject().and_then(|tool| known.get(&*tool));
        let arguments = request.params().get("arguments");
        annotations.map(|annotations| build_param_headers(annotations, arguments)).unwrap_or_default()
    }
}
