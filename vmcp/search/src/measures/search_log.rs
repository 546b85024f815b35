//! Measures of searches in use, from a log: what each search found, and what its client called afterwards.
//!
//! [`figures`] has the measures; [`wanted`] the searches that led nowhere, grouped by likeness;
//! [`suggestions`] what an operator can do for a tool.

pub mod figures;
pub mod missing_words;
pub mod suggestions;
pub mod tool_uses;
pub mod wanted;

use std::fmt;

use serde::Serialize;

/// A tool, by its backend and its own name there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct LoggedTool {
    /// The backend's name.
    pub server: String,
    /// The tool's own name.
    pub tool: String,
}

impl fmt::Display for LoggedTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server, self.tool)
    }
}

/// One search, and the calls that followed it.
#[derive(Clone, Debug, Default)]
pub struct LoggedSearch {
    /// Time of the search, in milliseconds since the Unix epoch.
    pub at: i64,
    /// Digest of the identity that searched; `None` of a client without one.
    pub client: Option<String>,
    /// Description of the task.
    pub query: String,
    /// Keywords; empty without any.
    pub keywords: String,
    /// Tools found, best first.
    pub found: Vec<LoggedTool>,
    /// Calls that followed.
    pub calls: Vec<LoggedCall>,
}

/// A call that followed a search.
#[derive(Clone, Debug)]
pub struct LoggedCall {
    /// The tool that was called.
    pub tool: LoggedTool,
    /// Rank of the tool in the search, from 1; `None`: the search did not find it.
    pub rank: Option<usize>,
}

/// The end of a search, by the calls that followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchOutcome {
    /// A tool that the search found was called.
    FoundAndCalled,
    /// Another tool was called, and none that the search found.
    OtherTool,
    /// Tools were found, and none was called.
    NothingCalled,
    /// The search found no tool.
    NoResult,
}

impl LoggedSearch {
    /// Returns the end of the search.
    pub fn outcome(&self) -> SearchOutcome {
        if self.found.is_empty() {
            SearchOutcome::NoResult
        } else if self.calls.iter().any(|call| call.rank.is_some()) {
            SearchOutcome::FoundAndCalled
        } else if self.calls.is_empty() {
            SearchOutcome::NothingCalled
        } else {
            SearchOutcome::OtherTool
        }
    }

    /// Returns the words of the search: description and keywords.
    pub fn text(&self) -> String {
        [self.query.trim(), self.keywords.trim()].join(" ").trim().to_owned()
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A tool of the server `s`.
    pub(crate) fn tool(name: &str) -> LoggedTool {
        LoggedTool { server: "s".to_owned(), tool: name.to_owned() }
    }

    /// A search that found the tools `found`, after which the tools `called` were called.
    pub(crate) fn search(query: &str, found: &[&str], called: &[&str]) -> LoggedSearch {
        let call = |name: &&str| LoggedCall {
            tool: tool(name),
            rank: found.iter().position(|found| found == name).map(|at| at + 1),
        };
        LoggedSearch {
            query: query.to_owned(),
            found: found.iter().map(|name| tool(name)).collect(),
            calls: called.iter().map(call).collect(),
            ..LoggedSearch::default()
        }
    }
}
