//! The configuration of a virtual MCP server, from the text of `vmcp.yaml` to validated settings; pure,
//! without I/O.
//!
//! The way of a text through [`load`]:
//!
//! 1. `document` parses YAML into nodes that know their line, within bounds on size, depth and aliases.
//! 2. `checker` compares the nodes with the generated JSON schema, replaces `${…}` references (`references`)
//!    and suggests the nearest known key for an unknown one.
//! 3. [`raw`] holds what is left: the keys as written, one type a section.
//! 4. `sections` validate the raw types into [`Config`]; `values` are the types that they share.
//!
//! No step stops at the first mistake: each reports all of its own to `problems`, by path and line, with the
//! remedy, and [`load`] fails with the whole list. Nothing after `load` sees a raw type.
//!
//! Further rooms: [`edit`] changes single backends in a text, with the parser's own lines; `writing` renders
//! schema, reference page, starter file and the configuration in force; [`rules`] are the validated rules for
//! tools; [`status`] is the report that a running server gives about itself; [`sanitize`] cleans text of
//! backends; [`addresses`] tells inner addresses from public ones.

pub mod addresses;
mod checker;
mod document;
mod problems;
pub mod raw;
mod references;
pub mod rules;
pub mod sanitize;
mod sections;
pub mod status;
mod values;
mod writing;

use serde::{Deserialize, Serialize};

use self::checker::Checker;
pub use self::document::MAX_BYTES;
pub use self::problems::nearest::nearest;
pub use self::problems::{Problem, Problems};
use self::raw::RawConfig;
pub use self::references::secret_signs;
pub use self::references::{
    Environment, Files, MAX_FILE_BYTES, ReferenceSources, StoredSecrets, is_variable_name,
};
pub use self::rules::{Aggregation, RESERVED_NAMES};
pub use self::sections::audit::{AUDIT_EVENT_TYPES, Audit, OtlpTarget, SyslogTarget};
pub use self::sections::backend::known_secrets::KnownSecrets;
pub use self::sections::backend::outgoing_auth::{
    AwsKeys, AwsRoles, AwsSts, ClientCredentials, Credentials, OAuthClient, OnBehalfOf, TokenEndpoint,
    TokenExchange, UpstreamInject, Xaa,
};
pub use self::sections::backend::{
    Backend, Codex, Isolation, MAX_BACKEND_NAME, MAX_BACKENDS, ProtocolEra, Transport, is_backend_name,
    normalize_name,
};
use self::sections::config::effective::{EffectiveConfig, WrittenSettings};
pub use self::sections::config::effective::{EffectiveSetting, SettingSource};
pub use self::sections::config::{Config, SETTINGS_AT_START};
pub use self::sections::incoming_auth::IncomingAuth;
pub use self::sections::incoming_auth::api_keys::ApiKey;
pub use self::sections::incoming_auth::auth_server::{AuthServer, Upstream, UpstreamKind, UserInfo};
pub use self::sections::incoming_auth::authz::{Authz, OnPolicyError, ResourceIds};
pub use self::sections::incoming_auth::decision_point::{DecisionPoint, OnDecisionFailure};
pub use self::sections::incoming_auth::introspection::{IntrospectedTokens, Introspection};
pub use self::sections::incoming_auth::oidc::{OidcIssuer, is_scope};
pub use self::sections::incoming_auth::source_naming::{
    API_KEYS, CLIENT_CERTIFICATES, IdentitySource, IdentitySources, SourceGroups, SourceNaming,
};
pub use self::sections::incoming_auth::token_binding::TokenBinding;
pub use self::sections::incoming_auth::tool_scopes::ToolScopes;
pub use self::sections::incoming_auth::webhooks::{
    MAX_WEBHOOKS, SentClaims, Webhook, WebhookFailurePolicy, Webhooks,
};
pub use self::sections::operational::{CircuitBreaker, LogLevel, Operational};
pub use self::sections::optimizer::admin::{Admin, ServerRule, ServerSource};
pub use self::sections::optimizer::code::Code;
pub use self::sections::optimizer::code::job::CodeJob;
pub use self::sections::optimizer::code::script_model::ScriptModel;
pub use self::sections::optimizer::contextual::{ContextSource, Contextual, NoContext};
pub use self::sections::optimizer::discovery::{ConfiguredTags, ContextSigns, Discovery, MetricsMode};
pub use self::sections::optimizer::embeddings::{EmbeddingProvider, Embeddings, LOCAL_MODELS, OnUnavailable};
pub use self::sections::optimizer::large_results::{DatasetModel, LargeResults};
pub use self::sections::optimizer::learning::query_log::QueryLog;
pub use self::sections::optimizer::learning::{Learning, LearningMode};
pub use self::sections::optimizer::limits::Limits;
pub use self::sections::optimizer::llm::Llm;
pub use self::sections::optimizer::llm::recommend_tools::{RankingMode, RecommendTools};
pub use self::sections::optimizer::optim_tool::OptimTool;
pub use self::sections::optimizer::rerank::Rerank;
pub use self::sections::optimizer::search::Search;
pub use self::sections::optimizer::session_hooks::SessionHooks;
pub use self::sections::optimizer::session_hooks::webhooks::{SESSION_EVENTS, SessionWebhook};
pub use self::sections::optimizer::{AutoRetryFallback, Exposure, Optimizer, ToolNameStyle};
pub use self::sections::profiles::Profile;
pub use self::sections::proxy::Proxy;
pub use self::sections::rate_limiting::session_storage::RedisStore;
pub use self::sections::rate_limiting::{RateLimit, RateLimiting, TokenBucket};
pub use self::sections::server::Server;
pub use self::sections::server::console::ConsoleAccess;
pub use self::sections::server::console_sign_in::ConsoleSignIn;
pub use self::sections::server::registry::ServedRegistry;
pub use self::sections::server::tls::Tls;
use self::sections::telemetry::otel_variables;
pub use self::sections::telemetry::{OtlpProtocol, SignalExport, Telemetry, TraceUrl};
pub use self::values::duration::{
    PATTERN as DURATION_PATTERN, RANGE as RANGE_KEY, format as format_duration, parse as parse_duration,
};
pub use self::values::headers::{Headers, is_reserved_header, is_token_char};
pub use self::values::redaction::{is_secret_setting, without_secrets};
pub use self::values::secret::{MASK, Secret};
pub use self::writing::backend_entry::BackendEntry;
pub use self::writing::checked_schema::checked_schema;
pub use self::writing::edit;
pub use self::writing::schema::json_schema;
pub use self::writing::schema_table::{SchemaTable, range_of_rule};
pub use self::writing::settings_page::reference_markdown;
pub use self::writing::starter::{PRESET_GOBBY, STARTER};

/// Result of [`load`]: a configuration without mistakes.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Findings that are allowed but probably not meant, in the order of their lines. A file without
    /// backends has at least one.
    pub warnings: Vec<Problem>,
}

/// Reads and validates a text whose `${…}` references name environment variables only. `source_name` stands
/// for the file in messages, and `variables` returns the value of a variable.
///
/// Fails with every mistake in the text, each with line, path and remedy.
///
/// # Examples
///
/// ```
/// let text = "backends: [{ name: github, url: 'https://example.com/mcp', headers: { Authorization: 'Bearer ${TOKEN}' } }]";
/// let loaded = vmcp_config::load(text, "vmcp.yaml", &|name| (name == "TOKEN").then(|| "t0ken".to_owned()))?;
/// assert_eq!(&*loaded.config.backends[0].name, "github");
///
/// let problems = vmcp_config::load("proxy: { toolTimeut: 60s }", "vmcp.yaml", &|_| None).unwrap_err();
/// let expected = "vmcp.yaml:1: proxy.toolTimeut: unknown key; did you mean `toolTimeout`?";
/// assert_eq!(problems.to_string(), expected);
/// # Ok::<(), vmcp_config::Problems>(())
/// ```
pub fn load(text: &str, source_name: &str, variables: Environment<'_>) -> Result<Loaded, Problems> {
    load_with_files(text, source_name, variables, &|_| Err("no files are read here".to_owned()))
}

/// Reads and validates a text that may also refer to files by `${file:/path}`; `files` returns their content.
///
/// # Examples
///
/// ```
/// let text = "server: { adminTokens: ['${file:/run/secrets/token}'] }";
/// let files = |path: &str| Ok((path == "/run/secrets/token").then(|| "sixteen-characters\n".to_owned()));
/// let loaded = vmcp_config::load_with_files(text, "vmcp.yaml", &|_| None, &files)?;
/// // The line break at the end of the file is not part of the value.
/// assert_eq!(loaded.config.server.admin_tokens[0].expose(), "sixteen-characters");
/// assert!(loaded.config.effective_yaml().contains("***"));
/// # Ok::<(), vmcp_config::Problems>(())
/// ```
pub fn load_with_files(
    text: &str,
    source_name: &str,
    variables: Environment<'_>,
    files: Files<'_>,
) -> Result<Loaded, Problems> {
    let secrets = &|_: &str| Err("no stored secrets are read here".to_owned());
    let sources = ReferenceSources { variables, settings: &|_| None, files, secrets };
    load_from(text, source_name, sources, &|_| Vec::new())
}

/// Finding of a [`FurtherCheck`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Finding {
    /// Mistake of one value; the message goes on behind the name of the value: `is no private key in PEM`.
    Value(Problem),
    /// Mistake.
    Mistake(Problem),
    /// Setting that is valid, but probably not meant.
    Warning(Problem),
}

/// Check by a crate that knows more than this one, such as the syntax of keys or policies.
pub type FurtherCheck<'a> = &'a dyn Fn(&Config) -> Vec<Finding>;

/// Reads and validates a text that may refer to everything in `sources`. A backend whose reference has no
/// value, or a wrong value, is switched off, with a warning; see [`Config::unavailable`]. `check` adds
/// mistakes.
///
/// # Examples
///
/// ```
/// let text = "backends: [{ name: a, url: 'https://a.example/mcp', headers: { X: '${TOKEN}' } }]";
/// let loaded = vmcp_config::load(text, "vmcp.yaml", &|_| None)?;
/// assert!(!loaded.config.backends[0].enabled);
/// assert!(loaded.config.unavailable["a"].contains("`TOKEN` is not set"));
/// # Ok::<(), vmcp_config::Problems>(())
/// ```
pub fn load_from(
    text: &str,
    source_name: &str,
    sources: ReferenceSources<'_>,
    check: FurtherCheck<'_>,
) -> Result<Loaded, Problems> {
    let mut report = problems::Report::default();
    let config = read(text, sources, &mut report).map(|(raw, written)| {
        let resolved = report.secrets.values().flatten().cloned();
        let effective = EffectiveConfig::new(&raw, &written, &report.references, resolved);
        raw.validate(effective, &mut report)
    });
    for finding in config.iter().flat_map(check) {
        match finding {
            Finding::Value(Problem { path, message, remedy, .. }) => {
                report.problem(&path, format!("{} {message}", report.named(&path)), remedy);
            }
            Finding::Mistake(Problem { path, message, remedy, .. }) => report.problem(&path, message, remedy),
            Finding::Warning(Problem { path, message, remedy, .. }) => report.warn(&path, message, remedy),
        }
    }
    let warnings = report.finish(source_name)?;
    match config {
        Some(config) => Ok(Loaded { config, warnings }),
        // Not reached: every step that returns no value has reported a problem.
        None => Err(Problems { source_name: source_name.to_owned(), list: Vec::new() }),
    }
}

fn read(
    text: &str,
    sources: ReferenceSources<'_>,
    report: &mut problems::Report,
) -> Option<(RawConfig, WrittenSettings)> {
    let mut document = document::parse(text, report)?;
    document::translate_legacy_keys(&mut document);
    let root = writing::checked_schema::root();
    let mut value = match document.content {
        document::Content::Null => serde_json::Value::Object(serde_json::Map::new()),
        _ => Checker { text, sources, report }.check(document, root, "")?,
    };
    let written = WrittenSettings::of_file(&value, &report.lines);
    otel_variables::fill(&mut value, sources.settings, report);
    let written = written.completed(&value);
    let raw = RawConfig::deserialize(value)
        .map_err(|error| report.problem("", error.to_string(), "correct this value"))
        .ok()?;
    Some((raw, written))
}
