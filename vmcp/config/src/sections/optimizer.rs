//! `optimizer`: find_tool, call_tool and the other tools of vmcp's own, in place of hundreds of definitions,
//! and the exposure of tools in `tools/list`.

pub(crate) mod admin;
pub(crate) mod code;
pub(crate) mod contextual;
pub(crate) mod discovery;
pub(crate) mod embeddings;
pub(crate) mod large_results;
pub(crate) mod learning;
pub(crate) mod limits;
pub(crate) mod llm;
pub(crate) mod optim_tool;
pub(crate) mod rerank;
pub(crate) mod search;
pub(crate) mod session_hooks;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::{self, Report};
use admin::{Admin, RawAdmin};
use contextual::{Contextual, RawContextual};
use discovery::Discovery;
use embeddings::{Embeddings, RawEmbeddings};
use large_results::{LargeResults, RawLargeResults};
use learning::query_log::QueryLog;
use learning::{Learning, RawLearning};
use limits::Limits;
use llm::recommend_tools::RecommendTools;
use llm::{Llm, RawLlm};
use optim_tool::OptimTool;
use rerank::{RawRerank, Rerank};
use search::{RawSearch, Search};
use session_hooks::{RawSessionHooks, SessionHooks};

/// Validated settings of the optimizer.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimizer {
    /// False: no `optim.*` tools, no embeddings, no database. The default is on in this file and off in the
    /// Kubernetes resource.
    pub enabled: bool,
    /// Tools of vmcp's own that are listed and may be called.
    pub tools: Vec<OptimTool>,
    /// Servers that the tools for servers may change.
    pub admin: Admin,
    /// Tools that `tools/list` shows.
    pub exposure: Exposure,
    /// Most tokens that the whole list may cost under [`Exposure::Auto`]; above, only the optimizer's tools
    /// and `pinned_tools` are listed.
    pub auto_token_budget: u32,
    /// Resolved names of tools that are listed under every exposure.
    pub pinned_tools: Vec<String>,
    /// Spelling of the optimizer's tools in `tools/list`.
    pub tool_name_style: ToolNameStyle,
    /// Accepts bare `find_tool` and `call_tool` in a call while no backend's tool has that name.
    pub legacy_aliases: bool,
    /// Longest result of a tool, in tokens; a longer one is cut, with a notice. `None`: none is cut.
    pub max_tool_response_tokens: Option<u32>,
    /// References in place of large results.
    pub large_results: LargeResults,
    /// Serves vmcp's own state as resources.
    pub own_resources: bool,
    /// Most alternatives that the answer to a failed call names; 0: none.
    pub max_fallbacks: usize,
    /// Calls of the first alternative in place of a failed call.
    pub auto_retry_fallback: AutoRetryFallback,
    /// Ranking of tools in a search.
    pub search: Search,
    /// Folder of the database; `None`: the user's cache folder.
    pub storage_dir: Option<PathBuf>,
    /// Folder of the files that belong to this configuration alone, such as metrics and learned uses. The
    /// reader of a file without `storage.dir` sets it; `None`: the folder of the database.
    pub state_dir: Option<PathBuf>,
    /// Embedding provider.
    pub embeddings: Embeddings,
    /// The list under [`Exposure::Contextual`].
    pub contextual: Contextual,
    /// Learning from the use of tools.
    pub learning: Learning,
    /// The log of searches.
    pub query_log: QueryLog,
    /// Days after which a single call leaves the log of calls; the sums of its day stay.
    pub metrics_retention_days: u32,
    /// The language model that ranks tools; `None`: the search alone does.
    pub llm: Option<Llm>,
    /// Recommendations of `recommend_tools`.
    pub recommend_tools: RecommendTools,
    /// `GET /tools`.
    pub discovery: Discovery,
    /// Sessions of coding agents.
    pub session_hooks: SessionHooks,
    /// The cross-encoder that re-ranks the first hits; `None`: the search's own order stays.
    pub rerank: Option<Rerank>,
    /// Upper bounds on the input of clients.
    pub limits: Limits,
}

/// Tools that `tools/list` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Exposure {
    /// All tools while they cost no more than `autoTokenBudget`, else as MetaOnly.
    Auto,
    /// All tools, and the optimizer's.
    All,
    /// The optimizer's tools and `pinnedTools`.
    MetaOnly,
    /// All tools, until a client says with `set_context` what it is busy with; then, when enough was learned
    /// about such tasks, those that fit.
    Contextual,
}

/// Calls of the first alternative in place of a call of call_tool that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AutoRetryFallback {
    /// None: the answer names the alternatives, and the model decides.
    Off,
    /// One, if the alternative only reads by its own word (`readOnlyHint`), the failed call cannot have
    /// changed anything, and the arguments fit. The result says so.
    SafeOnly,
}

/// Spelling of the optimizer's tools in `tools/list`. Calls may use either spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolNameStyle {
    /// `optim_find_tool`, which every model API accepts; `optim.find_tool` for clients proven to take dots
    /// (the Inspector).
    Auto,
    /// `optim.find_tool`.
    Dotted,
    /// `optim_find_tool`.
    Underscore,
}

/// find_tool and call_tool in place of hundreds of tool definitions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Optimizer")]
pub struct RawOptimizer {
    /// Offer the optimizer's tools. `false`: no `optim.*` tools, no embeddings, no database.
    pub enabled: bool,
    /// Tools of vmcp's own that clients get: listed, and callable. Each costs tokens in every conversation:
    /// the default two about 700, each further one about 100. `exposure: Contextual`, here or in a profile,
    /// adds `set_context` and `search_available_tools`; `largeResults` adds `read_result`, `search_result`
    /// and `process_large_dataset`.
    pub tools: Vec<OptimTool>,
    /// Servers that the tools for servers may add, enable, disable and remove.
    pub admin: RawAdmin,
    /// Tools that `tools/list` shows.
    pub exposure: Exposure,
    /// Most tokens that the whole list may cost under `exposure: Auto`; above, only the optimizer's tools and
    /// `pinnedTools` are listed.
    #[schemars(range(max = 100_000_000))]
    pub auto_token_budget: u32,
    /// Names of tools, as listed, that are listed under every exposure.
    pub pinned_tools: Vec<String>,
    /// Spelling of the optimizer's tools in `tools/list`. Calls may use either spelling.
    pub tool_name_style: ToolNameStyle,
    /// Accept bare `find_tool` and `call_tool` in a call while no backend's tool has that name.
    pub legacy_aliases: bool,
    /// Longest result of a tool, in tokens; a longer one is cut, with a notice. Without it, none is cut.
    #[schemars(range(min = 100, max = 100_000))]
    pub max_tool_response_tokens: Option<u32>,
    /// References in place of large results of call_tool. Off by default.
    pub large_results: RawLargeResults,
    /// Serve vmcp's own state as resources: `vmcp://config`, `vmcp://status`, `vmcp://servers/NAME`,
    /// `vmcp://tools/NAME`, `gobby://config` and `gobby://daemon/status`. A client reads them if it may call
    /// `list_mcp_servers`, or `get_tool_schema` for tools. Off by default.
    pub own_resources: bool,
    /// Most alternatives that the answer to a failed call of call_tool names. `0`: none.
    #[schemars(range(max = 10))]
    pub max_fallbacks: usize,
    /// Call the first alternative in place of a call of call_tool that failed.
    pub auto_retry_fallback: AutoRetryFallback,
    /// Ranking of tools in a search.
    pub search: RawSearch,
    /// Database of vectors and of the definitions' hashes.
    pub storage: RawStorage,
    /// Embedding provider: source of the vectors for search by meaning.
    pub embeddings: RawEmbeddings,
    /// The list under `exposure: Contextual`.
    pub contextual: RawContextual,
    /// Learning from the use of tools.
    pub learning: RawLearning,
    /// Log of searches and of the calls that followed them. Off by default.
    pub query_log: QueryLog,
    /// Days after which a single call leaves the log of calls, which `vmcp metrics --calls` reads. The sums
    /// of each day stay for good.
    #[schemars(range(min = 1, max = 365))]
    pub metrics_retention_days: u32,
    /// The language model that ranks tools for `recommend_tools` and `search_tools`, and writes queries for
    /// `process_large_dataset` as `largeResults.llm` says.
    pub llm: Option<RawLlm>,
    /// Recommendations of `recommend_tools`.
    pub recommend_tools: RecommendTools,
    /// `GET /tools`: tools by topic over plain HTTP. Off by default.
    pub discovery: Discovery,
    /// Sessions of coding agents, reported by their hooks. Off by default.
    pub session_hooks: RawSessionHooks,
    /// The cross-encoder that orders the first hits of a search anew.
    pub rerank: Option<RawRerank>,
    /// Upper bounds on the input of clients.
    pub limits: Limits,
}

impl Default for RawOptimizer {
    fn default() -> Self {
        Self {
            enabled: true,
            tools: optim_tool::default_tools(),
            admin: RawAdmin::default(),
            exposure: Exposure::Auto,
            auto_token_budget: 10_000,
            pinned_tools: Vec::new(),
            tool_name_style: ToolNameStyle::Auto,
            legacy_aliases: true,
            max_tool_response_tokens: None,
            large_results: RawLargeResults::default(),
            own_resources: false,
            max_fallbacks: 3,
            auto_retry_fallback: AutoRetryFallback::Off,
            search: RawSearch::default(),
            storage: RawStorage::default(),
            embeddings: RawEmbeddings::default(),
            contextual: RawContextual::default(),
            learning: RawLearning::default(),
            query_log: QueryLog::default(),
            metrics_retention_days: 7,
            llm: None,
            recommend_tools: RecommendTools::default(),
            discovery: Discovery::default(),
            session_hooks: RawSessionHooks::default(),
            rerank: None,
            limits: Limits::default(),
        }
    }
}

/// Database of vectors and of the definitions' hashes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Storage")]
pub struct RawStorage {
    /// Kind of the database; `sqlite` is the only one so far.
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

/// Kinds of databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StorageType {
    /// SQLite: one file, no server.
    Sqlite,
}

impl RawOptimizer {
    /// `has_contextual`: lists that fit a context are served, to all clients or to those of a profile.
    pub(crate) fn validate(&self, has_contextual: bool, report: &mut Report) -> Optimizer {
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
        self.discovery.validate(self.llm.is_some(), &self.tools, report);
        Optimizer {
            enabled: self.enabled,
            tools: optim_tool::validate(&self.tools, has_contextual, self.large_results.enabled, report),
            admin: self.admin.validate(report),
            exposure: self.exposure,
            auto_token_budget: self.auto_token_budget,
            pinned_tools: self.pinned_tools.clone(),
            tool_name_style: self.tool_name_style,
            legacy_aliases: self.legacy_aliases,
            max_tool_response_tokens: self.max_tool_response_tokens,
            large_results: self.large_results.validate(report),
            own_resources: self.own_resources,
            max_fallbacks: self.max_fallbacks,
            auto_retry_fallback: self.auto_retry_fallback,
            search: self.search.validate(report),
            storage_dir,
            state_dir: None,
            embeddings: self.embeddings.validate(report),
            contextual: self.contextual.validate(report),
            learning: self.learning.validate(has_contextual, report),
            query_log: self.query_log.clone(),
            metrics_retention_days: self.metrics_retention_days,
            llm: self.llm.as_ref().and_then(|llm| llm.validate(report)),
            recommend_tools: self.recommend_tools.clone(),
            discovery: self.discovery.clone(),
            session_hooks: self.session_hooks.validate(report),
            rerank: self.rerank.as_ref().and_then(|rerank| rerank.validate(report)),
            limits: self.limits.clone(),
        }
    }
}
