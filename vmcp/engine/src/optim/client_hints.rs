//! Keys of `_meta` by which a definition tells a client how to treat the tool, as Claude Code documents them
//! for MCP servers. Other clients ignore them.

use serde_json::{Map, Value};

use super::names::OptimTool;

/// Keeps the tool in the model's context; without it, Claude Code lists names only, behind its own search.
const ALWAYS_LOAD: &str = "anthropic/alwaysLoad";
/// Characters of a result that reach the model; Claude Code writes a longer one to a file.
const MAX_RESULT: &str = "anthropic/maxResultSizeChars";
/// Value of [`MAX_RESULT`]: some 25,000 tokens, Claude Code's own limit for output of MCP tools. It takes at
/// most 500,000.
const MAX_RESULT_CHARS: u32 = 100_000;
/// Bytes of a description, or of all instructions, that Claude Code shows to the model; it cuts the rest.
#[cfg(test)]
pub(crate) const MAX_DESCRIPTION_BYTES: usize = 2048;

/// Returns the keys for one of vmcp's own tools. With `hides_tools`, the search is always in context: it is
/// the way to the unlisted tools.
pub(crate) fn of_tool(tool: OptimTool, hides_tools: bool) -> Map<String, Value> {
    let mut meta = Map::new();
    if hides_tools && matches!(tool, OptimTool::FindTool | OptimTool::CallTool) {
        meta.insert(ALWAYS_LOAD.to_owned(), true.into());
    }
    // These answer with results of other servers, whose size is not vmcp's to choose.
    if matches!(tool, OptimTool::CallTool | OptimTool::ReadMcpResource) {
        meta.insert(MAX_RESULT.to_owned(), MAX_RESULT_CHARS.into());
    }
    meta
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_documented_rule_of_claude_code_is_kept() {
        let (loaded, result) = (json!(true), json!(100_000));
        for (tool, hides_tools, always_load, max_result) in [
            (OptimTool::FindTool, true, Some(&loaded), None),
            (OptimTool::FindTool, false, None, None),
            (OptimTool::CallTool, true, Some(&loaded), Some(&result)),
            (OptimTool::CallTool, false, None, Some(&result)),
            (OptimTool::ReadMcpResource, true, None, Some(&result)),
            (OptimTool::ListTools, true, None, None),
        ] {
            let meta = of_tool(tool, hides_tools);
            assert_eq!((meta.get(ALWAYS_LOAD), meta.get(MAX_RESULT)), (always_load, max_result), "{tool:?}");
        }
    }
}
