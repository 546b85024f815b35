//! [`Dialect`]: the two languages of scripts.

/// The language of a script, with the form of its arguments and results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::own_tools) enum Dialect {
    /// Python, of execute_code.
    Python,
    /// ToolHive's Starlark, of execute_tool_script.
    ToolHive,
}
