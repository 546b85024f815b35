//! Validated aggregation rules: the names of the tools of many backends in one list, and the tools that are
//! listed.

pub mod trusted_tools;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names that no backend may have, because their prefix would look like vmcp's own tools.
pub const RESERVED_NAMES: [&str; 2] = ["optim", "composite"];

/// Rules for the aggregation of all backends. The default prefixes every tool with `{workload}_` and lists
/// everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Aggregation {
    /// Conflict strategy: makes the resolved name, and decides when two backends want the same one.
    pub strategy: Strategy,
    /// Visibility of the tools of a backend without an entry in `per_backend`.
    pub default_visibility: Visibility,
    /// Hides every backend's tools, whatever the other rules say.
    pub exclude_all_tools: bool,
    /// Rules of single backends, by backend name.
    pub per_backend: BTreeMap<Arc<str>, ToolRules>,
    /// Backends of which only tools are listed that declare to change nothing (`backends[].readOnly`).
    pub read_only: BTreeSet<Arc<str>>,
    /// Tools whose calls the user has to confirm.
    pub confirm: Confirm,
    /// Consequence of a changed definition, where a backend's rules set no other.
    pub on_tool_change: OnToolChange,
    /// Longest resolved name of a tool or prompt.
    pub name_length: NameLength,
    /// Treatment of definitions for which a client or a model API refuses a whole list.
    pub faulty_definitions: FaultyDefinitions,
    /// Listed names of tools, by a second name that own tools take for them. A tool of that very name wins.
    pub aliases: BTreeMap<String, String>,
}

/// Longest resolved name of a tool or prompt, in bytes. Model APIs take at most 64, and clients put a prefix
/// such as `mcp__vmcp__` before the names that a server lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameLength(usize);

impl NameLength {
    /// The least: a hash of 8 digits leaves 23 characters of the name.
    pub const MIN: usize = 32;
    /// The most that model APIs take.
    pub const MAX: usize = 64;

    /// Returns a length between [`NameLength::MIN`] and [`NameLength::MAX`].
    pub fn new(bytes: usize) -> Option<NameLength> {
        (NameLength::MIN..=NameLength::MAX).contains(&bytes).then_some(NameLength(bytes))
    }

    /// Returns the length in bytes.
    pub fn bytes(self) -> usize {
        self.0
    }
}

impl Default for NameLength {
    fn default() -> NameLength {
        NameLength(50)
    }
}

/// Treatment of definitions for which a client or a model API refuses a whole list, with the tools of all
/// servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FaultyDefinitions {
    /// A fault is mended in lists where that does not change the meaning; a tool with any other fault is left
    /// out of lists, and find_tool and call_tool still know it. `vmcp backends -v` names both.
    #[default]
    Mend,
    /// Definitions are listed as their servers send them.
    PassThrough,
}

/// Tools whose calls the user has to confirm.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confirm {
    /// Patterns of listed names.
    pub tools: Vec<NamePattern>,
    /// True for all tools that declare to destroy something.
    pub destructive: bool,
}

impl Confirm {
    /// Returns true if a call of the tool waits for the user. `destructive` is its `destructiveHint`: one
    /// that declares nothing is not held back, since most tools do not.
    pub fn holds_back(&self, name: &str, destructive: Option<bool>) -> bool {
        self.tools.iter().any(|pattern| pattern.matches(name))
            || (self.destructive && destructive == Some(true))
    }
}

/// Consequence of a tool whose definition is another one than the one seen first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnToolChange {
    /// The new definition is served.
    Allow,
    /// The new definition is served, and a warning is logged.
    #[default]
    Warn,
    /// The tool is hidden and cannot be called until the new definition is approved: `vmcp tools diff`, then
    /// `vmcp tools approve`.
    Quarantine,
}

impl Aggregation {
    /// Returns the consequence of a changed definition of a backend's tool.
    pub fn on_tool_change(&self, backend: &str) -> OnToolChange {
        self.per_backend.get(backend).and_then(|rules| rules.on_tool_change).unwrap_or(self.on_tool_change)
    }

    /// Returns true if a changed definition of some backend waits for an approval.
    pub fn quarantines(&self) -> bool {
        let mut rules = self.per_backend.values();
        self.on_tool_change == OnToolChange::Quarantine
            || rules.any(|rules| rules.on_tool_change == Some(OnToolChange::Quarantine))
    }

    /// Returns true if clients may see and call the tool of `backend` whose name, after overrides, is `name`.
    ///
    /// A hidden tool stays in the catalog with `listed == false`: vmcp itself (workflows, scripts) may still
    /// route to it, but no client can list, find or call it.
    ///
    /// # Examples
    ///
    /// ```
    /// use vmcp_config::rules::{Aggregation, NamePattern, ToolRules};
    ///
    /// let mut rules = Aggregation::default();
    /// let reads = ToolRules { filter: vec![NamePattern::new("get_*")], ..ToolRules::default() };
    /// rules.per_backend.insert("github".into(), reads);
    /// assert!(rules.lists("github", "get_issue") && !rules.lists("github", "delete_repository"));
    /// assert!(rules.lists("time", "now"));
    /// ```
    ///
    /// [`Aggregation::read_only`] is asked besides, by whoever knows the tool's annotations.
    pub fn lists(&self, backend: &str, name: &str) -> bool {
        !self.exclude_all_tools
            && match self.per_backend.get(backend) {
                None => self.default_visibility == Visibility::Allow,
                Some(rules) => rules.lists(name),
            }
    }
}

/// Strategies that make resolved names of tools and prompts; URIs of resources never change.
///
/// Except under `Passthrough`, every resolved name fits `[A-Za-z][A-Za-z0-9_-]*` and has at most
/// [`NameLength`] bytes; a longer one is cut and ends in a hash. Names that come out equal get a hash suffix.
/// A hidden tool never takes a name from a listed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// Gives every name its backend's prefix, also a unique one.
    Prefix {
        /// The prefix of each backend.
        format: PrefixFormat,
    },
    /// Keeps a name bare while it is unique. On a clash, the backend that comes first in `order` keeps the
    /// bare name and the other listed backends lose the tool; a backend that is not in `order` falls back to
    /// the prefixed name.
    Priority {
        /// Backend names, most important first.
        order: Vec<Arc<str>>,
        /// The prefix for the fallback.
        format: PrefixFormat,
    },
    /// Keeps names bare; a clash that overrides or filters do not resolve is an error, and no rival gets the
    /// name.
    Manual,
    /// Keeps names exactly as the backend sent them, even if clients refuse them; meant for a single backend.
    /// Names that clash between backends fall back to the default prefix.
    Passthrough,
}

impl Default for Strategy {
    fn default() -> Self {
        Strategy::Prefix { format: PrefixFormat::default() }
    }
}

/// Prefix with a place for the backend's name: `{workload}_`, `{backend}__`, or a literal without a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixFormat(String);

impl PrefixFormat {
    /// Creates a format from any text; each `{workload}` and `{backend}` in it stands for the backend's name.
    pub fn new(format: impl Into<String>) -> PrefixFormat {
        PrefixFormat(format.into())
    }

    /// Returns the format as configured.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the prefix of one backend, before it is made legal.
    pub fn prefix(&self, backend: &str) -> String {
        self.0.replace("{workload}", backend).replace("{backend}", backend)
    }
}

impl Default for PrefixFormat {
    fn default() -> Self {
        PrefixFormat::new("{workload}_")
    }
}

/// Visibility of the tools of a backend without rules (`defaultToolVisibility`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Visibility {
    /// Lists them.
    #[default]
    Allow,
    /// Hides them: only backends with rules are listed.
    Deny,
}

/// Rules for the tools of one backend.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolRules {
    /// Allow-list, compared with the name after overrides. Empty: no restriction.
    pub filter: Vec<NamePattern>,
    /// Deny-list, compared with the name after overrides; it wins over `filter`.
    pub exclude: Vec<NamePattern>,
    /// Hides every tool of this backend.
    pub exclude_all: bool,
    /// Changes to single tools, by the backend's name for them.
    pub overrides: BTreeMap<String, ToolOverride>,
    /// Consequence of a changed definition; `None`: that of all backends.
    pub on_tool_change: Option<OnToolChange>,
}

impl ToolRules {
    fn lists(&self, name: &str) -> bool {
        !self.exclude_all
            && (self.filter.is_empty() || self.filter.iter().any(|pattern| pattern.matches(name)))
            && !self.exclude.iter().any(|pattern| pattern.matches(name))
    }
}

/// Changes to one tool; a field that is `None` stays as the backend sent it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolOverride {
    /// The new name, before the strategy is applied.
    pub name: Option<String>,
    /// The new description.
    pub description: Option<String>,
    /// Annotations to set one by one; the backend's others stay.
    pub annotations: Annotations,
}

/// Behavior hints of a tool, and the shape of an override of them. A missing key is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// Title for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tool does not change its environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// The tool may destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Calling it again with the same arguments changes nothing more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// The tool reaches beyond a closed domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

/// Tool name in which `*` stands for any run of characters, also an empty one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern(String);

impl NamePattern {
    /// Creates a pattern from any text; only `*` is special.
    pub fn new(pattern: impl Into<String>) -> NamePattern {
        NamePattern(pattern.into())
    }

    /// Returns the pattern as configured.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if the whole name fits the pattern. Linear in the length of the name.
    pub fn matches(&self, name: &str) -> bool {
        let Some((head, rest)) = self.0.split_once('*') else { return self.0 == name };
        let Some(mut name) = name.strip_prefix(head) else { return false };
        let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
        // Greedy: the earliest place for each piece leaves the most room for the next.
        for piece in middle.split('*') {
            match name.find(piece) {
                Some(at) => name = name.get(at + piece.len()..).unwrap_or_default(),
                None => return false,
            }
        }
        name.ends_with(tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let fits = |pattern: &str, name: &str| NamePattern::new(pattern).matches(name);
        assert!(fits("search", "search") && !fits("search", "search_all") && !fits("search", "Search"));
        assert!(fits("*", "") && fits("*", "anything") && fits("**", "x"));
        assert!(fits("get_*", "get_") && fits("get_*", "get_issue") && !fits("get_*", "forget_it"));
        assert!(fits("*_issue", "get_issue") && !fits("*_issue", "get_issues"));
        assert!(fits("a*b*c", "abc") && fits("a*b*c", "a-b-b-c") && !fits("a*b*c", "acb"));
        assert!(!fits("ab*ba", "aba"), "head and tail may not overlap");
    }

    #[test]
    fn visibility() {
        let rules = |filter: &[&str], exclude: &[&str]| ToolRules {
            filter: filter.iter().copied().map(NamePattern::new).collect(),
            exclude: exclude.iter().copied().map(NamePattern::new).collect(),
            ..ToolRules::default()
        };
        let mut all = Aggregation::default();
        assert!(all.lists("any", "tool"));
        all.per_backend.insert("a".into(), rules(&["get_*"], &["get_secret"]));
        all.per_backend.insert("b".into(), ToolRules { exclude_all: true, ..ToolRules::default() });
        assert!(all.lists("a", "get_issue") && !all.lists("a", "get_secret") && !all.lists("a", "put"));
        assert!(!all.lists("b", "x") && all.lists("c", "x"));
        all.default_visibility = Visibility::Deny;
        assert!(all.lists("a", "get_issue") && !all.lists("c", "x"));
        all.exclude_all_tools = true;
        assert!(!all.lists("a", "get_issue"));
    }

    #[test]
    fn prefix_formats() {
        assert_eq!(PrefixFormat::default().prefix("github"), "github_");
        assert_eq!(PrefixFormat::new("{backend}__").prefix("github"), "github__");
        assert_eq!(PrefixFormat::new("lit.").prefix("github"), "lit.");
    }
}
