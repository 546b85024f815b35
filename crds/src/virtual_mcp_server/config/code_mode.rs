//! `spec.config.codeMode`: scripts, as ToolHive writes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fields::yaml_block::Block;

/// Code mode as ToolHive writes it: scripts in Starlark that call tools, by the tool `execute_tool_script`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct CodeMode {
    /// `true`: `execute_tool_script` is listed beside the tools of the backends, also while the optimizer
    /// is off. `execute_code`, with scripts in Python, is in `spec.optimizer.tools`.
    pub enabled: bool,
    /// Calls that `parallel` makes at the same time; further ones wait. Default: 10. `spec.config.code` has
    /// it as `maxParallel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub parallel_max_concurrency: Option<u32>,
    /// Time limit of one call of a script; beyond it, the call fails. Default: 30s. `spec.config.code` has
    /// it as `callTimeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "vmcp_config::raw::RawDuration", extend("x-range" = "100ms to 1h"))]
    pub tool_call_timeout: Option<String>,
    /// Fields that are accepted and not followed yet, as written.
    #[serde(flatten)]
    #[schemars(skip)]
    pub pending: Block,
}
