//! `optimizer`: find_tool, call_tool and what `tools/list` shows (R022-07, -19…22, -45, -46; ).

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::{self, Report};
use crate::sections::embeddings::{Embeddings, RawEmbeddings};
use crate::sections::limits::Limits;
use crate::sections::search::{RawSearch, Search};

/// The optimizer.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimizer {
    /// Off: no `optim.*` tools, no embeddings, no database. On by default in this file; off by default in the
    /// Kubernetes resource (R022-19).
    pub enabled: bool,
    /// What `tools/list` shows.
    pub exposure: Exposure,
    /// With [`Exposure::Auto`]: tokens that the whole list may cost before only the optimizer's tools are listed.
    pub auto_token_budget: u32,
    /// Resolved names of tools that are always listed.
    pub pinned_tools: Vec<String>,
    /// How the optimizer's tools are spelled when listed.
    pub tool_name_style: ToolNameStyle,
    /// Bare `find_tool` and `call_tool` are accepted on call while no backend's tool has that name (R022-45).
    pub legacy_aliases: bool,
    /// Cut longer results of tools, with a notice (R022-46). `None`: never.
    pub max_tool_response_tokens: Option<u32>,
    /// Ranking.
    pub search: Search,
    /// Folder of the database; `None`: the user's cache folder.
    pub storage_dir: Option<PathBuf>,
    /// Where vectors come from.
    pub embeddings: Embeddings,
    /// How large a client's input may be.
    pub limits: Limits,
}

/// What `tools/list` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Exposure {
    /// Everything while it costs no more than `autoTokenBudget`, else as MetaOnly.
    Auto,
    /// Everything, and the optimizer's tools.
    All,
    /// The optimizer's tools and `pinnedTools`.
    MetaOnly,
}

/// How the optimizer's tools are spelled when listed. Calls may use either spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolNameStyle {
    /// `optim_find_tool` for clients that are known to refuse dots, `optim.find_tool` for all others.
    Auto,
    /// `optim.find_tool`.
    Dotted,
    /// `optim_find_tool`.
    Underscore,
}

/// The optimizer: find_tool and call_tool in place of hundreds of tool definitions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Optimizer")]
pub struct RawOptimizer {
    /// `false`: no `optim.*` tools, no embeddings, no database.
    pub enabled: bool,
    /// What `tools/list` shows.
    pub exposure: Exposure,
    /// With `exposure: Auto`: tokens that the whole list may cost before only the optimizer's tools are listed.
    #[schemars(range(max = 100_000_000))]
    pub auto_token_budget: u32,
    /// Names of tools, as listed, that are always listed.
    pub pinned_tools: Vec<String>,
    /// How the optimizer's tools are spelled when listed. Calls may use either spelling.
    pub tool_name_style: ToolNameStyle,
    /// Accept bare `find_tool` and `call_tool` on call, while no backend's tool has that name.
    pub legacy_aliases: bool,
    /// Cut results of tools that are longer than this many tokens, with a notice. Without it, none is cut.
    #[schemars(range(min = 100, max = 100_000))]
    pub max_tool_response_tokens: Option<u32>,
    /// Ranking.
    pub search: RawSearch,
    /// Where vectors and hashes are kept.
    pub storage: RawStorage,
    /// Where vectors come from.
    pub embeddings: RawEmbeddings,
    /// How large a client's input may be.
    pub limits: Limits,
}

impl Default for RawOptimizer {
    fn default() -> Self {
        Self {
            enabled: true,
            exposure: Exposure::Auto,
            auto_token_budget: 10_000,
            pinned_tools: Vec::new(),
            tool_name_style: ToolNameStyle::Auto,
            legacy_aliases: true,
            max_tool_response_tokens: None,
            search: RawSearch::default(),
            storage: RawStorage::default(),
            embeddings: RawEmbeddings::default(),
            limits: Limits::default(),
        }
    }
}

/// Where vectors and hashes are kept.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Storage")]
pub struct RawStorage {
    /// Only `sqlite` so far.
    #[serde(rename = "type")]
    pub kind: StorageType,
    /// Folder of the database. Default: the user's cache folder.
    pub dir: Option<String>,
}

impl Default for RawStorage {
    fn default() -> Self {
        Self { kind: StorageType::Sqlite, dir: None }
    }
}

// R022-21.
/// Kinds of storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StorageType {
    /// A file.
    Sqlite,
}

impl RawOptimizer {
    pub(crate) fn validate(&self, report: &mut Report) -> Optimizer {
        for (index, name) in self.pinned_tools.iter().enumerate() {
            if name.trim().is_empty() {
                let path = problems::item("optimizer.pinnedTools", index);
                report.problem(&path, "empty", "name a tool as it is listed, such as `github_create_issue`");
            }
        }
        let storage_dir = self.storage.dir.as_ref().map(PathBuf::from);
        if storage_dir.as_ref().is_some_and(|dir| dir.as_os_str().is_empty()) {
            report.problem("optimizer.storage.dir", "empty", "name a folder, or remove it");
        }
        Optimizer {
            enabled: self.enabled,
            exposure: self.exposure,
            auto_token_budget: self.auto_token_budget,
            pinned_tools: self.pinned_tools.clone(),
            tool_name_style: self.tool_name_style,
            legacy_aliases: self.legacy_aliases,
            max_tool_response_tokens: self.max_tool_response_tokens,
            search: self.search.validate(report),
            storage_dir,
            embeddings: self.embeddings.validate(report),
            limits: self.limits.clone(),
        }
    }
}
