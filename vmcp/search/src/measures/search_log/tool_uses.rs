//! [`ToolUses`]: finds and calls of each tool.

use std::collections::{BTreeMap, BTreeSet};

use super::{LoggedSearch, LoggedTool};

/// Rank up to which a tool counts as well found: models mostly read the first three.
pub(super) const WELL_FOUND: usize = 3;

/// Finds and calls of one tool.
#[derive(Clone, Debug, Default)]
pub struct ToolUses<'a> {
    /// Searches that found it.
    pub found: usize,
    /// Searches that found it among the first three.
    pub found_well: usize,
    /// Searches after which it was called.
    pub called: usize,
    /// Searches after which it was called, and that found it behind the first three or not at all.
    pub badly_found: Vec<&'a LoggedSearch>,
}

/// Returns the uses of each tool that a search found, or that was called after one.
pub fn tool_uses(searches: &[LoggedSearch]) -> BTreeMap<&LoggedTool, ToolUses<'_>> {
    let mut uses: BTreeMap<&LoggedTool, ToolUses<'_>> = BTreeMap::new();
    for search in searches {
        for (at, tool) in search.found.iter().enumerate() {
            let tool = uses.entry(tool).or_default();
            tool.found += 1;
            tool.found_well += usize::from(at < WELL_FOUND);
        }
        let called: BTreeSet<_> = search.calls.iter().map(|call| (&call.tool, call.rank)).collect();
        for (tool, rank) in called {
            let tool = uses.entry(tool).or_default();
            tool.called += 1;
            if rank.is_none_or(|rank| rank > WELL_FOUND) {
                tool.badly_found.push(search);
            }
        }
    }
    uses
}
