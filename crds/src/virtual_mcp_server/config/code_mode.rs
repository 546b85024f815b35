//! `spec.config.codeMode`: scripts, as ToolHive writes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vmcp_config::OptimTool;

use super::super::validated::ValidOptimizer;
use super::Config;
use crate::fields::yaml_block::Block;
use crate::problem::Problem;

/// Time limit of a script unless `spec.config.code` is given, as in ToolHive.
const TIMEOUT: &str = "1m";
/// Time limit of a call of a script unless the resource has one, as in ToolHive.
const CALL_TIMEOUT: &str = "30s";

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

/// Returns the block `code` of `vmcp.yaml`.
pub(in super::super) fn code(config: &Config, problems: &mut Vec<Problem>) -> Block {
    let Some(CodeMode { enabled, parallel_max_concurrency: parallel, tool_call_timeout: timeout, .. }) =
        &config.code_mode
    else {
        return config.code.clone();
    };
    if !config.code.is_empty() {
        for (name, is_given) in
            [("parallelMaxConcurrency", parallel.is_some()), ("toolCallTimeout", timeout.is_some())]
        {
            if is_given {
                let path = format!("spec.config.codeMode.{name}");
                let remedy = "keep `spec.config.code`, which can say all of it";
                problems.push(Problem::new(path, "`spec.config.code` is given too", remedy));
            }
        }
        return config.code.clone();
    }
    let mut code = Block::new();
    if *enabled {
        code.insert("timeout".to_owned(), TIMEOUT.into());
        code.insert("callTimeout".to_owned(), timeout.as_deref().unwrap_or(CALL_TIMEOUT).into());
        code.extend(parallel.map(|most| ("maxParallel".to_owned(), most.into())));
    }
    code
}

/// Adds `execute_tool_script` to the tools of the optimizer. Without an optimizer, it is the only tool of
/// vmcp's own, and nothing is embedded.
pub(in super::super) fn offer(
    code_mode: Option<&CodeMode>,
    optimizer: Option<ValidOptimizer>,
) -> Option<ValidOptimizer> {
    if !code_mode.is_some_and(|mode| mode.enabled) {
        return optimizer;
    }
    let tool = Value::from(OptimTool::ExecuteToolScript.bare());
    let Some(mut optimizer) = optimizer else {
        let mut settings = Block::new();
        settings.insert("tools".to_owned(), json!([tool]));
        settings.insert("exposure".to_owned(), "All".into());
        return Some(ValidOptimizer::without_search(settings));
    };
    let default = || json!([OptimTool::FindTool.bare(), OptimTool::CallTool.bare()]);
    let tools = optimizer.settings.entry("tools").or_insert_with(default);
    if let Value::Array(tools) = tools
        && !tools.contains(&tool)
    {
        tools.push(tool);
    }
    Some(optimizer)
}
