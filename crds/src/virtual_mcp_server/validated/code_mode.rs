//! Code mode as ToolHive writes it, in the terms of `vmcp.yaml`.

use serde_json::{Value, json};
use vmcp_config::OptimTool;

use super::ValidOptimizer;
use crate::fields::yaml_block::Block;
use crate::problem::Problem;
use crate::virtual_mcp_server::config::Config;
use crate::virtual_mcp_server::config::code_mode::CodeMode;

/// Time limit of a script unless `spec.config.code` is given, as in ToolHive.
const TIMEOUT: &str = "1m";
/// Time limit of a call of a script unless the resource has one, as in ToolHive.
const CALL_TIMEOUT: &str = "30s";

/// Returns the block `code` of `vmcp.yaml`.
pub(super) fn code(config: &Config, problems: &mut Vec<Problem>) -> Block {
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
pub(super) fn offer(
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
