//! Filters and overrides of backends' tools, from MCPToolConfigs.

use std::collections::BTreeMap;

use vmcp_crds::VirtualMCPServer;
use vmcp_crds::lower::Backend;

use crate::shared_settings::mcp_tool_config;
use crate::virtual_mcp_server::dereference::{References, tool_configs_of};

/// Gives backends their MCPToolConfigs. A backend whose MCPToolConfig is missing or wrong is not called: it
/// would show tools that its filter hides. Returns the fault of each reference.
pub(super) fn add(
    server: &VirtualMCPServer,
    references: &References,
    backends: &mut [Backend],
    unusable: &mut BTreeMap<String, String>,
) -> Vec<ToolConfigProblem> {
    let configs = tool_configs_of(server, references);
    let mut problems = Vec::new();
    for backend in backends {
        let Some(name) = configs.get(&backend.name) else { continue };
        let problem = match references.tool_configs.get(name) {
            None => Some(ToolConfigProblem {
                reason: "ToolConfigRefNotFound",
                message: format!(
                    "there is no MCPToolConfig {name} in this namespace; create it, or correct the toolConfigRef of backend {}",
                    backend.name
                ),
            }),
            Some(config) => {
                backend.tool_config = Some(config.spec.clone());
                mcp_tool_config::validate(&config.spec).err().map(|message| ToolConfigProblem {
                    reason: "ToolConfigRefNotValid",
                    message: format!("MCPToolConfig {name}: {message}"),
                })
            }
        };
        if let Some(problem) = problem {
            backend.enabled = false;
            backend.tool_config = None;
            unusable.entry(backend.name.clone()).or_insert_with(|| problem.message.clone());
            problems.push(problem);
        }
    }
    problems
}

/// A reference to an MCPToolConfig that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolConfigProblem {
    /// The reason of the condition `ToolConfigRefsValidated`.
    pub reason: &'static str,
    /// The cause and the remedy.
    pub message: String,
}
