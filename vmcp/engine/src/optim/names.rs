//! Names of vmcp's own tools: how they are listed, and which called names mean them.
//!
//! Names under `optim.` are reserved; a backend's tool never gets one. Bare names such as `find_tool` are
//! accepted while no backend's tool has them.
//!
//! ```
//! use vmcp_engine::optim::names::{NameStyle, OptimTool, OwnName, own_name};
//!
//! assert_eq!(NameStyle::Underscore.listed(OptimTool::FindTool), "optim_find_tool");
//! assert_eq!(own_name("optim.find_tool"), Some(OwnName::Reserved(OptimTool::FindTool)));
//! assert_eq!(own_name("call_tool"), Some(OwnName::Bare(OptimTool::CallTool)));
//! assert_eq!(own_name("github_create_issue"), None);
//! ```

pub use vmcp_config::OptimTool;

/// Style of the listed names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameStyle {
    /// `optim.find_tool`, for clients that pass no name to a model.
    Dotted,
    /// `optim_find_tool`, which every model API accepts as a function's name.
    Underscore,
}

impl NameStyle {
    /// Returns the listed name of an own tool.
    pub fn listed(self, tool: OptimTool) -> String {
        match self {
            // Clients of ToolHive look for this name.
            _ if tool == OptimTool::ExecuteToolScript => tool.bare().to_owned(),
            NameStyle::Dotted => tool.dotted().to_owned(),
            NameStyle::Underscore => format!("optim_{}", tool.bare()),
        }
    }
}

/// Meaning of a called name among the own tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnName {
    /// An own tool, by a reserved name.
    Reserved(OptimTool),
    /// An own tool by its bare name, which counts only while no backend's tool has that name.
    Bare(OptimTool),
    /// A name under `optim.` without a tool; it is never a backend's.
    Unknown,
}

/// Looks a name up among the own tools; returns `None` if it can only be a backend's.
pub fn own_name(name: &str) -> Option<OwnName> {
    let tool = |bare: &str| OptimTool::ALL.into_iter().find(|tool| tool.bare() == bare);
    if name == OptimTool::ExecuteToolScript.bare() {
        return Some(OwnName::Reserved(OptimTool::ExecuteToolScript));
    }
    if let Some(bare) = name.strip_prefix("optim.") {
        return Some(tool(bare).map_or(OwnName::Unknown, OwnName::Reserved));
    }
    if let Some(found) = name.strip_prefix("optim_").and_then(tool) {
        return Some(OwnName::Reserved(found));
    }
    tool(name).map(OwnName::Bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_understood() {
        assert_eq!(own_name("optim.find_tool"), Some(OwnName::Reserved(OptimTool::FindTool)));
        assert_eq!(own_name("optim_call_tool"), Some(OwnName::Reserved(OptimTool::CallTool)));
        assert_eq!(own_name("find_tool"), Some(OwnName::Bare(OptimTool::FindTool)));
        assert_eq!(own_name("optim_list_tools"), Some(OwnName::Reserved(OptimTool::ListTools)));
        assert_eq!(own_name("optim.list_tools"), Some(OwnName::Reserved(OptimTool::ListTools)));
        for name in ["execute_tool_script", "optim_execute_tool_script", "optim.execute_tool_script"] {
            assert_eq!(own_name(name), Some(OwnName::Reserved(OptimTool::ExecuteToolScript)));
        }
        assert_eq!(NameStyle::Dotted.listed(OptimTool::ExecuteToolScript), "execute_tool_script");
        assert_eq!(own_name("optim.other"), Some(OwnName::Unknown));
        assert_eq!(own_name("optim_other"), None, "a backend called `optim` may have it");
        assert_eq!(own_name("jira_find_tool"), None);
    }
}
