//! Signatures of tools in Python, for scripts.

use serde_json::Value;
use serde_json::value::RawValue;
use vmcp_config::sanitize;
use vmcp_json::object::Object;
use vmcp_model::catalog::CatalogTool;
use vmcp_script::stubs::{self, Tool};

use super::visible_schema::visible_schema;
use crate::caller::CallContext;
use crate::own_tools::arguments::dialect::Dialect;

/// Returns the signature of a tool, as a script of this caller calls it. A tool that declares no results has
/// the shape that was observed, with the keys that the caller may see.
pub(in crate::own_tools) fn signature(
    context: CallContext<'_>,
    tool: &CatalogTool,
    dialect: Dialect,
) -> String {
    let listed = Object::parse(&tool.raw).unwrap_or_default();
    let schema = |raw: &RawValue| serde_json::from_str::<Value>(visible_schema(raw).get()).ok();
    let input = listed.get("inputSchema").and_then(schema);
    let output = listed.get("outputSchema").and_then(schema);
    let observed = context.engine.shapes().line(tool, &context.caller.principal.key());
    let (server, name) = match dialect {
        Dialect::Python => (Some(&*tool.backend), tool.own_name.as_str()),
        Dialect::ToolHive => (None, tool.name.as_str()),
    };
    stubs::stub(&Tool {
        server,
        name,
        description: &sanitize::visible(&tool.description),
        input: input.as_ref(),
        output: output.as_ref(),
        observed: observed.as_deref(),
    })
}
