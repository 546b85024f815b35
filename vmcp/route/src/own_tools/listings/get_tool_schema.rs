//! The handler of get_tool_schema: the definition of one tool of the caller's view, served from the snapshot,
//! so that a server that is down is not asked.

use serde::Serialize;
use serde_json::value::RawValue;
use vmcp_backend::BackendState;
use vmcp_config::OptimTool;
use vmcp_json::object::Object;
use vmcp_model::catalog::CatalogTool;

use crate::answer::Answer;
use crate::caller::CallContext;
use crate::own_tools::arguments::own_arguments::{SERVER, TOOL};
use crate::own_tools::find_tool::visible_schema::visible_schema;
use crate::own_tools::own_answer;
use crate::own_tools::resolve::resolve;
use vmcp_engine::telemetry::calls::Origin;

/// Answers with one tool's definition.
pub(in crate::own_tools) fn run(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    own_answer::answer(context, Origin::Own(OptimTool::GetToolSchema), arguments, |arguments| {
        let limit = context.snapshot.config.optimizer.limits.tool_name_chars;
        let (name, server) = (arguments.required(&TOOL, limit)?, arguments.text(&SERVER, limit)?);
        let tool = resolve(context, &name, server.as_deref())?;
        Ok(definition(context, tool))
    })
}

/// Returns the definition of a tool.
pub(crate) fn definition(context: CallContext<'_>, tool: &CatalogTool) -> Answered {
    let listed = Object::parse(&tool.raw).unwrap_or_default();
    let status = context.snapshot.backends.get(&tool.backend).map(vmcp_backend::Backend::status);
    let answers = status.is_some_and(|status| status.state != BackendState::Failed && !status.cached);
    let field = |key| listed.get(key).map(ToOwned::to_owned);
    let schema = |key| listed.get(key).map(|schema| visible_schema(schema).into_owned());
    Answered {
        success: true,
        server: tool.backend.to_string(),
        tool: ToolDetails {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: schema("inputSchema"),
            output_schema: schema("outputSchema"),
            annotations: field("annotations"),
        },
        stale: !answers,
    }
}

/// The definition of a tool, as get_tool_schema answers it.
#[derive(Serialize)]
pub(crate) struct Answered {
    success: bool,
    server: String,
    tool: ToolDetails,
    /// True if the server does not answer at present: its definition is the last one known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stale: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolDetails {
    name: String,
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Box<RawValue>>,
}
