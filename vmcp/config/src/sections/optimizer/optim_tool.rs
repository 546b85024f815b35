//! `optimizer.tools`: the tools of vmcp's own that clients get.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::{self, Report};

/// A tool of vmcp's own, listed as `optim_NAME`; `execute_tool_script` by that name alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OptimTool {
    /// Searches the tools of all servers.
    FindTool,
    /// Calls a tool of a server.
    CallTool,
    /// Lists tools by server, each with its first sentence.
    ListTools,
    /// Returns the schema of one tool.
    GetToolSchema,
    /// Lists the servers and their states.
    ListMcpServers,
    /// Reads a resource of a server.
    ReadMcpResource,
    /// Returns the tools most like another one, the most reliable first.
    GetToolAlternatives,
    /// Returns calls, success rate and latency of tools.
    GetToolMetrics,
    /// Returns names and scores of the tools that fit a task.
    SearchTools,
    /// Recommends one to three tools for a task, with reasons.
    RecommendTools,
    /// Says what the client is busy with, so that the list and the searches fit it.
    SetContext,
    /// Lists the tools whose names or descriptions contain a text.
    SearchAvailableTools,
    /// Forgets the metrics of tools. For operators' clients: any client that sees it may call it.
    ResetToolMetrics,
    /// Lists the tools of servers again, and counts what changed. For operators' clients, too.
    RefreshTools,
    /// Embeds tools anew. For operators' clients, too.
    RegenerateEmbeddings,
    /// Reads a part of a large result.
    ReadResult,
    /// Finds parts of a large result by their words.
    SearchResult,
    /// Filters, sorts, groups and counts the rows of a large result, or of given data.
    ProcessLargeDataset,
    /// Runs a script in Python that calls tools (code mode).
    ExecuteCode,
    /// Runs a script in Starlark that calls tools, as ToolHive's code mode does.
    ExecuteToolScript,
    /// Adds a server, within `optimizer.admin`.
    AddMcpServer,
    /// Removes a server, within `optimizer.admin`.
    RemoveMcpServer,
    /// Switches a server on, within `optimizer.admin`.
    EnableMcpServer,
    /// Switches a server off, within `optimizer.admin`.
    DisableMcpServer,
    /// Searches servers in the registry of `optimizer.admin.registry`.
    SearchRegistry,
    /// Adds a server of that registry, with its version pinned, within `optimizer.admin`.
    InstallServer,
    /// Reports a hook of the client's session: its start, prompts, end.
    CallHook,
}

impl OptimTool {
    /// All of them.
    pub const ALL: [OptimTool; 27] = [
        OptimTool::FindTool,
        OptimTool::CallTool,
        OptimTool::ListTools,
        OptimTool::GetToolSchema,
        OptimTool::ListMcpServers,
        OptimTool::ReadMcpResource,
        OptimTool::GetToolAlternatives,
        OptimTool::GetToolMetrics,
        OptimTool::SearchTools,
        OptimTool::RecommendTools,
        OptimTool::SetContext,
        OptimTool::SearchAvailableTools,
        OptimTool::ResetToolMetrics,
        OptimTool::RefreshTools,
        OptimTool::RegenerateEmbeddings,
        OptimTool::ReadResult,
        OptimTool::SearchResult,
        OptimTool::ProcessLargeDataset,
        OptimTool::ExecuteCode,
        OptimTool::ExecuteToolScript,
        OptimTool::AddMcpServer,
        OptimTool::RemoveMcpServer,
        OptimTool::EnableMcpServer,
        OptimTool::DisableMcpServer,
        OptimTool::SearchRegistry,
        OptimTool::InstallServer,
        OptimTool::CallHook,
    ];

    /// The tools that work on large results.
    pub const OF_RESULTS: [OptimTool; 3] =
        [OptimTool::ReadResult, OptimTool::SearchResult, OptimTool::ProcessLargeDataset];

    /// The tools that `proxy.enabled: false` takes away.
    pub const OF_PROXY: [OptimTool; 5] = [
        OptimTool::CallTool,
        OptimTool::ListTools,
        OptimTool::GetToolSchema,
        OptimTool::ListMcpServers,
        OptimTool::ReadMcpResource,
    ];

    /// The tools that run scripts.
    pub const OF_SCRIPTS: [OptimTool; 2] = [OptimTool::ExecuteCode, OptimTool::ExecuteToolScript];

    /// The tools that change servers.
    pub const OF_SERVERS: [OptimTool; 5] = [
        OptimTool::AddMcpServer,
        OptimTool::RemoveMcpServer,
        OptimTool::EnableMcpServer,
        OptimTool::DisableMcpServer,
        OptimTool::InstallServer,
    ];

    /// The tools that change servers, and find them in a registry. With identities, only a policy about the
    /// action `admin` permits them.
    pub const OF_ADMIN: [OptimTool; 6] = [
        OptimTool::AddMcpServer,
        OptimTool::RemoveMcpServer,
        OptimTool::EnableMcpServer,
        OptimTool::DisableMcpServer,
        OptimTool::SearchRegistry,
        OptimTool::InstallServer,
    ];

    /// True for a tool of [`OptimTool::OF_ADMIN`].
    pub fn is_of_admin(self) -> bool {
        OptimTool::OF_ADMIN.contains(&self)
    }

    /// True for the dotted name of a tool of [`OptimTool::OF_ADMIN`].
    pub fn names_admin(dotted: &str) -> bool {
        OptimTool::OF_ADMIN.iter().any(|tool| tool.dotted() == dotted)
    }

    /// True for the dotted name of a tool of [`OptimTool::OF_SCRIPTS`].
    pub fn names_scripts(dotted: &str) -> bool {
        OptimTool::OF_SCRIPTS.iter().any(|tool| tool.dotted() == dotted)
    }

    /// Returns the name without a prefix, as it is written in the file.
    pub fn bare(self) -> &'static str {
        match self {
            OptimTool::FindTool => "find_tool",
            OptimTool::CallTool => "call_tool",
            OptimTool::ListTools => "list_tools",
            OptimTool::GetToolSchema => "get_tool_schema",
            OptimTool::ListMcpServers => "list_mcp_servers",
            OptimTool::ReadMcpResource => "read_mcp_resource",
            OptimTool::GetToolAlternatives => "get_tool_alternatives",
            OptimTool::GetToolMetrics => "get_tool_metrics",
            OptimTool::SearchTools => "search_tools",
            OptimTool::RecommendTools => "recommend_tools",
            OptimTool::SetContext => "set_context",
            OptimTool::SearchAvailableTools => "search_available_tools",
            OptimTool::ResetToolMetrics => "reset_tool_metrics",
            OptimTool::RefreshTools => "refresh_tools",
            OptimTool::RegenerateEmbeddings => "regenerate_embeddings",
            OptimTool::ReadResult => "read_result",
            OptimTool::SearchResult => "search_result",
            OptimTool::ProcessLargeDataset => "process_large_dataset",
            OptimTool::ExecuteCode => "execute_code",
            OptimTool::ExecuteToolScript => "execute_tool_script",
            OptimTool::AddMcpServer => "add_mcp_server",
            OptimTool::RemoveMcpServer => "remove_mcp_server",
            OptimTool::EnableMcpServer => "enable_mcp_server",
            OptimTool::DisableMcpServer => "disable_mcp_server",
            OptimTool::SearchRegistry => "search_registry",
            OptimTool::InstallServer => "install_server",
            OptimTool::CallHook => "call_hook",
        }
    }

    /// Returns the dotted name, for records and logs.
    pub fn dotted(self) -> &'static str {
        match self {
            OptimTool::FindTool => "optim.find_tool",
            OptimTool::CallTool => "optim.call_tool",
            OptimTool::ListTools => "optim.list_tools",
            OptimTool::GetToolSchema => "optim.get_tool_schema",
            OptimTool::ListMcpServers => "optim.list_mcp_servers",
            OptimTool::ReadMcpResource => "optim.read_mcp_resource",
            OptimTool::GetToolAlternatives => "optim.get_tool_alternatives",
            OptimTool::GetToolMetrics => "optim.get_tool_metrics",
            OptimTool::SearchTools => "optim.search_tools",
            OptimTool::RecommendTools => "optim.recommend_tools",
            OptimTool::SetContext => "optim.set_context",
            OptimTool::SearchAvailableTools => "optim.search_available_tools",
            OptimTool::ResetToolMetrics => "optim.reset_tool_metrics",
            OptimTool::RefreshTools => "optim.refresh_tools",
            OptimTool::RegenerateEmbeddings => "optim.regenerate_embeddings",
            OptimTool::ReadResult => "optim.read_result",
            OptimTool::SearchResult => "optim.search_result",
            OptimTool::ProcessLargeDataset => "optim.process_large_dataset",
            OptimTool::ExecuteCode => "optim.execute_code",
            OptimTool::ExecuteToolScript => "optim.execute_tool_script",
            OptimTool::AddMcpServer => "optim.add_mcp_server",
            OptimTool::RemoveMcpServer => "optim.remove_mcp_server",
            OptimTool::EnableMcpServer => "optim.enable_mcp_server",
            OptimTool::DisableMcpServer => "optim.disable_mcp_server",
            OptimTool::SearchRegistry => "optim.search_registry",
            OptimTool::InstallServer => "optim.install_server",
            OptimTool::CallHook => "optim.call_hook",
        }
    }
}

/// The tools that are on offer when nothing else is configured.
pub(crate) fn default_tools() -> Vec<OptimTool> {
    vec![OptimTool::FindTool, OptimTool::CallTool]
}

/// Checks the list of tools, and adds those that contextual lists and large results need.
pub(crate) fn validate(
    tools: &[OptimTool],
    has_contextual: bool,
    has_large_results: bool,
    report: &mut Report,
) -> Vec<OptimTool> {
    if tools.is_empty() {
        let remedy = "name at least one tool, or set `optimizer.enabled: false`";
        report.problem("optimizer.tools", "empty", remedy);
    }
    for (index, tool) in tools.iter().enumerate() {
        if tools.iter().take(index).any(|before| before == tool) {
            let path = problems::item("optimizer.tools", index);
            report.problem(&path, format!("{} is named twice", tool.bare()), "remove one of them");
        }
        if !has_large_results && OptimTool::OF_RESULTS.contains(tool) {
            let path = problems::item("optimizer.tools", index);
            let message = format!("{} works on large results, which are off", tool.bare());
            report.problem(&path, message, "set `optimizer.largeResults.enabled: true`, or remove it");
        }
    }
    let contextual = [OptimTool::SetContext, OptimTool::SearchAvailableTools];
    let contextual = contextual.iter().filter(|_| has_contextual);
    let of_results = OptimTool::OF_RESULTS.iter().filter(|_| has_large_results);
    let missing = contextual.chain(of_results).filter(|tool| !tools.contains(tool));
    tools.iter().chain(missing).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_file_are_the_names_that_are_called() {
        for tool in OptimTool::ALL {
            assert_eq!(serde_json::to_value(tool).unwrap(), tool.bare());
            assert_eq!(tool.dotted().strip_prefix("optim."), Some(tool.bare()));
        }
    }
}
