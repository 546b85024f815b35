//! `aggregation`: conflict resolution, filters and overrides, which make one list of the tools of many
//! backends. The validated form is [`crate::rules`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::nearest;
use crate::problems::{self, Report};
use crate::rules::{
    Aggregation, Annotations, Confirm, FaultyDefinitions, NameLength, NamePattern, OnToolChange,
    PrefixFormat, Strategy, ToolOverride, ToolRules, Visibility,
};

/// Most characters in a tool's name.
const MAX_TOOL_NAME: usize = 128;

/// Names and visibility of tools in the one list that clients see.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Aggregation")]
pub struct RawAggregation {
    /// Strategy for tools of the same name.
    pub conflict_resolution: RawStrategy,
    /// Settings of the strategy.
    pub conflict_resolution_config: RawStrategyConfig,
    /// Hide every backend's tools; the optimizer's tools remain.
    pub exclude_all_tools: bool,
    /// Visibility of the tools of a backend without an entry in `tools`.
    pub default_tool_visibility: RawVisibility,
    /// Tools whose calls the user has to confirm.
    pub confirm: RawConfirm,
    /// Consequence of a tool whose definition changes after it was first seen.
    pub on_tool_change: OnToolChange,
    /// Treatment of tools whose definition makes a client or a model API refuse the whole list, with the
    /// tools of all servers: an output schema that does not compile, an input schema with `anyOf` at its top,
    /// a property name with a space. Default: `Mend`, and `PassThrough` with the strategy `passthrough`.
    pub faulty_definitions: Option<FaultyDefinitions>,
    /// Second names of tools: `optim.call_tool` and the other own tools take each for the listed name beside
    /// it. They are not listed, policies know the listed name alone, and a tool that is called so wins.
    pub aliases: BTreeMap<String, String>,
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
            confirm: RawConfirm::default(),
            on_tool_change: OnToolChange::default(),
            faulty_definitions: None,
            aliases: BTreeMap::new(),
            tools: Vec::new(),
        }
    }
}

/// Tools whose calls the user has to confirm: the client is asked (elicitation) before anything is sent to
/// the backend. The call of a client that cannot ask its user is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Confirm")]
pub struct RawConfirm {
    /// Patterns of listed names; `*` stands for any characters.
    pub tools: Vec<String>,
    /// All tools that their server declares to destroy something (`destructiveHint: true`).
    pub destructive: bool,
}

/// Strategies for tools of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ConflictResolution")]
pub enum RawStrategy {
    /// Give every tool its backend's prefix.
    Prefix,
    /// Let the first backend in `priorityOrder` keep the name, and leave out the others' tools.
    Priority,
    /// Keep names; a clash that no override or filter resolves is an error, and no backend gets the name.
    Manual,
    /// Keep names exactly as the backend sent them, legal or not; meant for a single backend.
    Passthrough,
}

/// Settings of the strategy.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ConflictResolutionConfig")]
pub struct RawStrategyConfig {
    /// Prefix of a tool's name; `{workload}` (or `{backend}`) stands for the backend's name. Letters, digits,
    /// `_`, `-` and `.` are allowed besides.
    pub prefix_format: String,
    /// Backend names, most important first. Required with `priority`; without it, a warning says that the
    /// list is unused.
    pub priority_order: Vec<String>,
    /// Longest name of a tool or prompt, in characters; a longer one is cut and ends in a hash. Model APIs
    /// take at most 64 with the prefix that clients put before it, such as `mcp__vmcp__`. Strategy
    /// `passthrough` keeps names whole.
    #[schemars(range(min = 32, max = 64))]
    pub max_name_length: u32,
}

impl Default for RawStrategyConfig {
    fn default() -> Self {
        Self {
            prefix_format: PrefixFormat::default().as_str().to_owned(),
            priority_order: Vec::new(),
            max_name_length: u32::try_from(NameLength::default().bytes()).unwrap_or(u32::MAX),
        }
    }
}

/// Visibility of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ToolVisibility")]
pub enum RawVisibility {
    /// List them.
    Allow,
    /// Do not list them.
    Deny,
}

/// Filters and overrides of one backend.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ToolRules")]
pub struct RawToolRules {
    /// Required. Name of the backend. Two entries of one backend are a mistake.
    #[schemars(required)]
    pub workload: Option<String>,
    /// List only these tools, by their name after overrides; `*` stands for any characters. An empty list is
    /// a mistake.
    pub filter: Option<Vec<String>>,
    /// Hide these tools, by their name after overrides, whatever `filter` says; `*` stands for any
    /// characters.
    pub exclude: Vec<String>,
    /// Hide all tools of this backend.
    pub exclude_all: bool,
    /// Changes to single tools, by the backend's own name for them.
    pub overrides: BTreeMap<String, RawOverride>,
    /// Consequence of a tool of this backend whose definition changes. Default: that of all backends.
    pub on_tool_change: Option<OnToolChange>,
}

/// Changes to one tool; a key that is not given stays as the backend sent it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ToolOverride")]
pub struct RawOverride {
    /// New name, before any prefix: letters, digits, `_`, `-` and `.`, at most 128.
    pub name: Option<String>,
    /// New description.
    pub description: Option<String>,
    /// Annotations to set; the backend's others stay.
    pub annotations: RawAnnotations,
}

/// Annotations to set.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ToolAnnotations")]
pub struct RawAnnotations {
    /// Title shown to people.
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

/// Reports a problem at `path` if no backend has this `name`.
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
            read_only: BTreeSet::new(),
            confirm: Confirm {
                tools: self.confirm.tools.iter().map(|pattern| NamePattern::new(pattern.as_str())).collect(),
                destructive: self.confirm.destructive,
            },
            on_tool_change: self.on_tool_change,
            name_length: self.validate_name_length(report),
            faulty_definitions: self.faulty_definitions.unwrap_or(match self.conflict_resolution {
                RawStrategy::Passthrough => FaultyDefinitions::PassThrough,
                RawStrategy::Prefix | RawStrategy::Priority | RawStrategy::Manual => FaultyDefinitions::Mend,
            }),
            aliases: self.validate_aliases(report),
        }
    }

    fn validate_aliases(&self, report: &mut Report) -> BTreeMap<String, String> {
        for (alias, tool) in &self.aliases {
            let at = problems::key("aggregation.aliases", alias);
            if alias.is_empty() || alias.len() > NameLength::MAX || !alias.chars().all(is_name_char) {
                let remedy = format!("use 1 to {} letters, digits, `_`, `-` and `.`", NameLength::MAX);
                report.problem(&at, "not a legal name of a tool", remedy);
            }
            if tool.is_empty() || tool.len() > MAX_TOOL_NAME {
                report.problem(&at, "no name of a tool", "write the name under which the tool is listed");
            } else if self.aliases.contains_key(tool) {
                let shown = report.shown(&at, tool);
                report.problem(&at, format!("{shown} is an alias itself"), "write the tool's listed name");
            }
        }
        self.aliases.clone()
    }

    fn validate_name_length(&self, report: &mut Report) -> NameLength {
        let bytes = self.conflict_resolution_config.max_name_length;
        NameLength::new(bytes as usize).unwrap_or_else(|| {
            let path = "aggregation.conflictResolutionConfig.maxNameLength";
            let remedy = format!("choose a number from {} to {}", NameLength::MIN, NameLength::MAX);
            report.problem(path, format!("{bytes} characters are out of range"), remedy);
            NameLength::default()
        })
    }

    fn validate_strategy(&self, backends: &BTreeSet<&str>, report: &mut Report) -> Strategy {
        let RawStrategyConfig { prefix_format, priority_order, max_name_length: _ } =
            &self.conflict_resolution_config;
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

/// Reports a prefix that is the same for every backend, or that would make illegal names.
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
            on_tool_change: self.on_tool_change,
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
