//! The names of our own tools: how they are listed, and what is understood (design.md "Names", R022-18, R022-45).

/// The tool that searches, without a prefix.
pub const FIND_TOOL: &str = "find_tool";
/// The tool that calls, without a prefix.
pub const CALL_TOOL: &str = "call_tool";

/// How our names are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameStyle {
    /// `optim.find_tool`.
    Dotted,
    /// `optim_find_tool`, for clients that refuse a server over a dotted name.
    Underscore,
}

impl NameStyle {
    /// The listed name of one of our tools.
    pub fn listed(self, bare: &str) -> String {
        match self {
            NameStyle::Dotted => format!("optim.{bare}"),
            NameStyle::Underscore => format!("optim_{bare}"),
        }
    }
}

/// One of our tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptimTool {
    /// Searches.
    Find,
    /// Calls another tool.
    Call,
}

impl OptimTool {
    /// The name without a prefix.
    pub fn bare(self) -> &'static str {
        match self {
            OptimTool::Find => FIND_TOOL,
            OptimTool::Call => CALL_TOOL,
        }
    }
}

/// What a called name means among our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnName {
    /// One of our tools, under a reserved name.
    Reserved(OptimTool),
    /// One of our tools by its bare name, which holds only while no backend tool has that name.
    Bare(OptimTool),
    /// A name under `optim.` that means nothing; it is never a backend's.
    Unknown,
}

/// Looks a name up among ours; `None` when it can only be a backend's.
pub fn own_name(name: &str) -> Option<OwnName> {
    let tool = |bare: &str| match bare {
        FIND_TOOL => Some(OptimTool::Find),
        CALL_TOOL => Some(OptimTool::Call),
        _ => None,
    };
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
        assert_eq!(own_name("optim.find_tool"), Some(OwnName::Reserved(OptimTool::Find)));
        assert_eq!(own_name("optim_call_tool"), Some(OwnName::Reserved(OptimTool::Call)));
        assert_eq!(own_name("find_tool"), Some(OwnName::Bare(OptimTool::Find)));
        assert_eq!(own_name("optim.other"), Some(OwnName::Unknown));
        assert_eq!(own_name("optim_other"), None, "a backend called `optim` may have it");
        assert_eq!(own_name("jira_find_tool"), None);
    }
}
