//! Signatures of tools in Python, for scripts.

use serde_json::Value;
use serde_json::value::RawValue;
use vmcp_config::sanitize;
use vmcp_json::object::Object;
use vmcp_model::catalog::CatalogTool;
use vmcp_script::stubs::{self, Tool};

use super::visible_schema::visible_schema;

/// Returns the signature of a tool, as a script calls it.
pub(in crate::own_tools) fn signature(tool: &CatalogTool) -> String {
    let listed = Object::parse(&tool.raw).unwrap_or_default();
    let schema = |raw: &RawValue| serde_json::from_str::<Value>(visible_schema(raw).get()).ok();
    let input = listed.get("inputSchema").and_then(schema);
    let output = listed.get("outputSchema").and_then(schema);
    stubs::stub(&Tool {
        server: &tool.backend,
        name: &tool.own_name,
        description: &sanitize::visible(&tool.description),
        input: input.as_ref(),
        output: output.as_ref(),
    })
}
