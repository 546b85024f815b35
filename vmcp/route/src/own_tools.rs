//! Own tools of vmcp: find_tool searches all other tools, call_tool calls any of them, the others report.
//! Here are their arguments and handlers; the engine lists them. Each call leaves one record: call_tool
//! leaves the record of the tool that it called.

pub(crate) mod administration;
pub(super) mod arguments;
mod call_tool;
mod fallback;
mod find_tool;
pub(crate) mod large_results;
pub(crate) mod listings;
mod own_answer;
mod read_mcp_resource;
mod resolve;
mod set_context;
mod unavailable;

use futures::future::BoxFuture;
use vmcp_json::text::empty_object;
use vmcp_wire::owned::OwnedParams;

use super::answer::Answer;
use super::call;
use super::caller::CallContext;
use vmcp_engine::optim::names::OptimTool;

pub use administration::call_hook::{execute_hook, may_use_hooks};
pub(super) use fallback::call_failure::failed_call;
pub use listings::{listed_servers, tools_by_model};

/// True if the policies allow the caller an own tool. A plain HTTP path that shows the same as the tool asks
/// this; `arguments` are the arguments that the tool would have.
pub fn may_use(context: CallContext<'_>, tool: OptimTool, arguments: Option<&str>) -> bool {
    call::authorize_own(context, tool, arguments).is_ok()
}

/// Runs an own tool. `params` are those of `tools/call`. A trait object: calls of backends do not carry the
/// state of an own tool, and crates that poll a call do not compile all own tools again.
pub(super) fn run<'a>(
    context: CallContext<'a>,
    tool: OptimTool,
    params: &'a OwnedParams,
) -> BoxFuture<'a, Answer> {
    Box::pin(handle(context, tool, params))
}

async fn handle(context: CallContext<'_>, tool: OptimTool, params: &OwnedParams) -> Answer {
    let given = params.get("arguments").filter(|arguments| *arguments != "null");
    let arguments = given.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(empty_object());
    match tool {
        OptimTool::FindTool => find_tool::run(context, arguments).await,
        OptimTool::CallTool => call_tool::run(context, params, arguments).await,
        OptimTool::ListTools => listings::list_tools::run(context, arguments).await,
        OptimTool::GetToolSchema => listings::get_tool_schema::run(context, arguments),
        OptimTool::ListMcpServers => listings::list_mcp_servers::run(context, arguments),
        OptimTool::GetToolAlternatives => listings::get_tool_alternatives::run(context, arguments),
        OptimTool::ReadMcpResource => read_mcp_resource::run(context, arguments).await,
        OptimTool::GetToolMetrics => listings::tool_metrics::get(context, arguments).await,
        OptimTool::SearchTools => listings::search_tools::run(context, arguments).await,
        OptimTool::RecommendTools => listings::recommend_tools::run(context, arguments).await,
        OptimTool::SetContext => set_context::run(context, arguments).await,
        OptimTool::SearchAvailableTools => listings::search_available_tools::run(context, arguments).await,
        OptimTool::ResetToolMetrics => listings::tool_metrics::reset(context, arguments).await,
        OptimTool::RefreshTools => administration::catalog_upkeep::refresh_tools(context, arguments).await,
        OptimTool::RegenerateEmbeddings => {
            administration::catalog_upkeep::regenerate_embeddings(context, arguments).await
        }
        OptimTool::ReadResult => large_results::read_result::run(context, arguments).await,
        OptimTool::SearchResult => large_results::search_result::run(context, arguments).await,
        OptimTool::ProcessLargeDataset => {
            Box::pin(large_results::process_large_dataset::run(context, arguments)).await
        }
        OptimTool::ExecuteCode | OptimTool::ExecuteToolScript => {
            call_tool::execute_code::run(context, tool, params, arguments).await
        }
        OptimTool::AddMcpServer
        | OptimTool::RemoveMcpServer
        | OptimTool::EnableMcpServer
        | OptimTool::DisableMcpServer
        | OptimTool::SearchRegistry
        | OptimTool::InstallServer => administration::servers::run(context, tool, arguments).await,
        OptimTool::CallHook => administration::call_hook::run(context, arguments).await,
    }
}

#[cfg(test)]
mod tests;
