//! The repository's own rules, checked as tests: openings of comments, spelling, kinds of sentences, links,
//! contents, tables and figures of pages, the size of folders. CONTRIBUTING.md gives each rule its reason.
//!
//! `cargo run -p vmcp-tidy -- [PATH …]` prints the findings below the given paths, one a line, and
//! `--sentences [PATH …]` the places of sentences that are counted.

mod comments;
mod exposition;
mod layout;
mod pages;
mod repository;
mod security;
mod sentences;
mod signs;
mod silent_skips;
mod skip;
mod spelling;

use std::fmt;

pub use exposition::metrics_table;
pub use repository::{Repository, RepositoryError};
pub use security::security_tests;
pub use sentences::counted_sentences;
pub use skip::skipped;

/// One broken rule, at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Path relative to the repository's root.
    pub path: String,
    /// Line, counted from 1; 0 for a finding about the whole file or folder.
    pub line: usize,
    /// The broken rule and the remedy.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A check over the whole repository.
pub type Check = fn(&Repository) -> Vec<Finding>;

/// Every check, with the name of the rule.
pub const CHECKS: [(&str, Check); 14] = [
    ("comments", signs::comments),
    ("requirement codes", signs::codes),
    ("spelling", spelling::american),
    ("sentences", sentences::keep_below_ceilings),
    ("links", pages::lead_somewhere),
    ("contents", pages::list_every_heading),
    ("ARCHITECTURE", pages::is_of_the_tree),
    ("figures", pages::name_their_source),
    ("layout", layout::folders),
    ("top level", layout::top_level),
    ("libraries", layout::libraries),
    ("silent skips", silent_skips::none),
    ("examples", silent_skips::unrun_examples),
    ("security", security::findings_have_tests),
];
