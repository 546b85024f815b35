//! `aggregation`: names and visibility of tools (R022-29). The validated form is [`crate::rules`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::nearest;
use crate::problems::{self, Report};
use crate::rules::{
    Aggregation, Annotations, NamePattern, PrefixFormat, Strategy, ToolOverride, ToolRules, Visibility,
};

/// Characters in a tool's name.
const MAX_TOOL_NAME: usize = 128;

/// How the tools of many backends become one list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Aggregation")]
pub struct RawAggregation {
    /// How tools of the same name are told apart.
    pub conflict_resolution: RawStrategy,
    /// Settings of the strategy.
    pub conflict_resolution_config: RawStrategyConfig,
    /// Hide every backend tool; the optimizer's remain.
    pub exclude_all_tools: bool,
    /// Whether the tools of a backend without an entry in `tools` are listed.
    pub default_tool_visibility: RawVisibility,
    /// Filters and overrides, one entry a backend.
    pub tools: Vec<RawToolRules>,
}

impl Default for RawAggregation {
    fn default() -> Self {
        Self {
            conflict_resolution: RawStrategy::Prefix,
            conflict_resolution_config: RawStrategyConfig::default(),
            exclude_all_tools: false,
            default_tool_visibility: RawVisibility::Allow,
            tools: Vec::new(),
        }
    }
}

/// How tools of the same name are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ConflictResolution")]
pub enum RawStrategy {
    /// Every tool gets its backend's prefix.
    Prefix,
    /// The first backend in `priorityOrder` keeps the name.
    Priority,
    /// Names stay; a clash that no override resolves is an error.
    Manual,
    /// Names stay as the backend sent them; meant for a single backend.
    Passthrough,
}

/// Settings of the strategy.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ConflictResolutionConfig")]
pub struct RawStrategyConfig {
    /// The prefix; `{workload}` (or `{backend}`) stands for the backend's name.
    pub prefix_format: String,
    /// Backend names, most important first; with `priority`.
    pub priority_order: Vec<String>,
}

impl Default for RawStrategyConfig {
    fn default() -> Self {
        Self { prefix_format: PrefixFormat::default().as_str().to_owned(), priority_order: Vec::new() }
    }
}

/// Whether tools are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ToolVisibility")]
pub enum RawVisibility {
    /// Listed.
    Allow,
    /// Not listed.
    Deny,
}

/// Filters and overrides of one backend.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ToolRules")]
pub struct RawToolRules {
    /// Required. Name of the backend.
    #[schemars(required)]
    pub workload: Option<String>,
    /// Only these tools are listed, by their name after overrides; `*` stands for anything.
    pub filter: Option<Vec<String>>,
    /// These tools are not listed, whatever `filter` says; `*` stands for anything.
    pub exclude: Vec<String>,
    /// None of this backend's tools is listed.
    pub exclude_all: bool,
    /// Changes to single tools, by the backend's own name for them.
    pub overrides: BTreeMap<String, RawOverride>,
}

/// What to change in one tool; what is not given stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ToolOverride")]
pub struct RawOverride {
    /// The new name, before any prefix.
    pub name: Option<String>,
    /// The new description.
    pub description: Option<String>,
    /// Annotations to set; the backend's others stay.
    pub annotations: RawAnnotations,
}

/// Annotations to set.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ToolAnnotations")]
pub struct RawAnnotations {
    /// Title for people.
    pub title: Option<String>,
    /// The tool does not change its environment.
    pub read_only_hint: Option<bool>,
    /// The tool may destroy something.
    pub destructive_hint: Option<bool>,
    /// Calling it again with the same arguments changes nothing more.
    pub idempotent_hint: Option<bool>,
    /// The tool reaches beyond a closed domain.
    pub open_world_hint: Option<bool>,
}

/// Reports `name` at `path` when no backend has it.
pub(crate) fn check_backend(name: &str, path: &str, backends: &BTreeSet<&str>, report: &mut Report) {
    if !backends.contains(name) {
        let shown = report.shown(path, name);
        let remedy = if backends.is_empty() {
            "add it to `backends`, or remove it here".to_owned()
        } else {
            nearest::suggest(name, backends.iter().copied(), "backends are ")
        };
        report.problem(path, format!("no backend is named {shown}"), remedy);
    }
}

impl RawAggregation {
    pub(crate) fn validate(&self, backends: &BTreeSet<&str>, report: &mut Report) -> Aggregation {
        let mut per_backend = BTreeMap::new();
        for (index, rules) in self.tools.iter().enumerate() {
            let path = problems::item("aggregation.tools", index);
            let at = problems::key(&path, "workload");
            let Some(workload) = &rules.workload else {
                report.problem(&at, "missing", "name the backend that this entry is about");
                continue;
            };
            check_backend(workload, &at, backends, report);
            let validated = rules.validate(&path, report);
            if per_backend.insert(Arc::from(workload.as_str()), validated).is_some() {
                let message = format!("a second entry for `{workload}`");
                report.problem(&at, message, "put all rules of a backend into one entry");
            }
        }
        Aggregation {
            strategy: self.validate_strategy(backends, report),
            default_visibility: match self.default_tool_visibility {
                RawVisibility::Allow => Visibility::Allow,
                RawVisibility::Deny => Visibility::Deny,
            },
            exclude_all_tools: self.exclude_all_tools,
            per_backend,
        }
    }

    fn validate_strategy(&self, backends: &BTreeSet<&str>, report: &mut Report) -> Strategy {
        let RawStrategyConfig { prefix_format, priority_order } = &self.conflict_resolution_config;
        let path = "aggregation.conflictResolutionConfig.priorityOrder";
        let mut seen = BTreeSet::new();
        for (index, name) in priority_order.iter().enumerate() {
            let at = problems::item(path, index);
            check_backend(name, &at, backends, report);
            if !seen.insert(name) {
                report.problem(&at, format!("`{name}` is in the list already"), "name each backend once");
            }
        }
        if self.conflict_resolution == RawStrategy::Priority && priority_order.is_empty() {
            report.problem(
                path,
                "strategy `priority` needs an order",
                "list backend names, most important first",
            );
        }
        if self.conflict_resolution != RawStrategy::Priority && !priority_order.is_empty() {
            report.warn(
                path,
                "only strategy `priority` uses it",
                "set `conflictResolution: priority`, or remove it",
            );
        }
        let format = validate_prefix(prefix_format, report);
        match self.conflict_resolution {
            RawStrategy::Prefix => Strategy::Prefix { format },
            RawStrategy::Priority => Strategy::Priority {
                order: priority_order.iter().map(|name| name.as_str().into()).collect(),
                format,
            },
            RawStrategy::Manual => Strategy::Manual,
            RawStrategy::Passthrough => Strategy::Passthrough,
        }
    }
}

/// A prefix that differs from backend to backend and leaves a legal name.
fn validate_prefix(format: &str, report: &mut Report) -> PrefixFormat {
    let path = "aggregation.conflictResolutionConfig.prefixFormat";
    let literal = format.replace("{workload}", "").replace("{backend}", "");
    let shown = report.shown(path, format);
    if literal.len() == format.len() {
        let remedy = "write for instance `{workload}_`, or choose the strategy `passthrough`";
        report.problem(path, format!("{shown} has no place for the backend's name"), remedy);
    } else if !literal.chars().all(is_name_char) {
        let remedy = "use `{workload}`, letters, digits, `_`, `-` and `.`";
        report.problem(path, format!("{shown} does not give legal tool names"), remedy);
    }
    PrefixFormat::new(format)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

impl RawToolRules {
    fn validate(&self, path: &str, report: &mut Report) -> ToolRules {
        if self.filter.as_ref().is_some_and(Vec::is_empty) {
            let at = problems::key(path, "filter");
            report.problem(&at, "an empty filter", "remove it to list every tool, or set `excludeAll: true`");
        }
        let mut renamed = HashMap::new();
        let mut overrides = BTreeMap::new();
        for (tool, change) in &self.overrides {
            let at = problems::key(&problems::key(path, "overrides"), tool);
            if let Some(name) = &change.name
                && let Some(other) = renamed.insert(name, tool)
            {
                let message = format!("`{other}` is renamed to `{name}` too");
                report.problem(&problems::key(&at, "name"), message, "give each tool a name of its own");
            }
            overrides.insert(tool.clone(), change.validate(&at, report));
        }
        let patterns = |names: &[String]| names.iter().map(|name| NamePattern::new(name.as_str())).collect();
        ToolRules {
            filter: patterns(self.filter.as_deref().unwrap_or_default()),
            exclude: patterns(&self.exclude),
            exclude_all: self.exclude_all,
            overrides,
        }
    }
}

impl RawOverride {
    fn validate(&self, path: &str, report: &mut Report) -> ToolOverride {
        let at = problems::key(path, "name");
        if let Some(name) = &self.name
            && (name.is_empty() || name.len() > MAX_TOOL_NAME || !name.chars().all(is_name_char))
        {
            let shown = report.shown(&at, name);
            let remedy = format!("use letters, digits, `_`, `-` and `.`, at most {MAX_TOOL_NAME}");
            report.problem(&at, format!("{shown} is not a tool name"), remedy);
        }
        let RawAnnotations { title, read_only_hint, destructive_hint, idempotent_hint, open_world_hint } =
            self.annotations.clone();
        ToolOverride {
            name: self.name.clone(),
            description: self.description.clone(),
            annotations: Annotations {
                title,
                read_only_hint,
                destructive_hint,
                idempotent_hint,
                open_world_hint,
            },
        }
    }
}
