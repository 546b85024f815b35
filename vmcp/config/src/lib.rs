//! `vmcp.yaml`: text → document → checked against the schema → raw types → validated [`Config`].
//!
//! Every step reports all it finds, by path and line, with the remedy; [`load`] fails with the whole list. Raw and
//! validated configuration are different types, and nothing downstream reads the raw one.

mod aggregation;
mod backend;
mod check;
mod document;
mod duration;
mod effective;
mod embeddings;
mod env;
mod headers;
mod hints;
mod http_url;
pub mod import;
mod incoming_auth;
mod limits;
mod nearest;
mod operational;
mod optimizer;
mod problems;
mod proxy;
pub mod raw;
mod reference;
pub mod rules;
pub mod sanitize;
mod scalar;
mod schema;
mod search;
mod secret;
mod seed_names;
mod server;
pub mod status;
mod telemetry;
mod template;

use serde::Deserialize as _;

pub use self::backend::{
    Backend, MAX_BACKEND_NAME, MAX_BACKENDS, Transport, is_backend_name, normalize_name,
};
use self::check::Checker;
pub use self::document::MAX_BYTES;
pub use self::duration::{
    PATTERN as DURATION_PATTERN, RANGE as RANGE_KEY, format as format_duration, parse as parse_duration,
};
pub use self::embeddings::{EmbeddingProvider, Embeddings, LOCAL_MODEL, OnUnavailable};
use self::env::Outside;
pub use self::env::{Environment, Files, MAX_FILE_BYTES};
pub use self::headers::Headers;
pub use self::incoming_auth::IncomingAuth;
pub use self::limits::Limits;
pub use self::operational::{CircuitBreaker, LogLevel, Operational};
pub use self::optimizer::{Exposure, Optimizer, ToolNameStyle};
pub use self::problems::{Problem, Problems};
pub use self::proxy::Proxy;
use self::raw::RawConfig;
pub use self::reference::reference_markdown;
pub use self::schema::json_schema;
pub use self::search::Search;
pub use self::secret::{MASK, Secret};
pub use self::server::Server;
pub use self::telemetry::Telemetry;
pub use self::template::STARTER;
pub use crate::rules::Aggregation;

/// The validated configuration. Two that are equal behave alike; compare the parts to see what a reload changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The MCP servers behind this one, in the order of the file.
    pub backends: Vec<Backend>,
    /// How the tools of many backends become one list.
    pub aggregation: Aggregation,
    /// find_tool, call_tool and what `tools/list` shows.
    pub optimizer: Optimizer,
    /// Connections to backends.
    pub proxy: Proxy,
    /// Traces and metrics.
    pub telemetry: Telemetry,
    /// Who may call.
    pub incoming_auth: IncomingAuth,
    /// Logging and failure handling.
    pub operational: Operational,
    /// The listening sockets.
    pub server: Server,
    effective: String,
}

/// A configuration without mistakes.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What is probably not meant; never empty when there are no backends.
    pub warnings: Vec<Problem>,
}

/// Reads and validates a text that refers to no file. `source_name` is how messages call it; `variables` gives the
/// environment.
pub fn load(text: &str, source_name: &str, variables: Environment<'_>) -> Result<Loaded, Problems> {
    load_with_files(text, source_name, variables, &|_| Err("no files are read here".to_owned()))
}

/// Reads and validates a text that may refer to files, which `files` gives.
pub fn load_with_files(
    text: &str,
    source_name: &str,
    variables: Environment<'_>,
    files: Files<'_>,
) -> Result<Loaded, Problems> {
    let mut report = problems::Report::default();
    let config = read(text, Outside { variables, files }, &mut report).map(|raw| raw.lower(&mut report));
    let warnings = report.finish(source_name)?;
    match config {
        Some(config) => Ok(Loaded { config, warnings }),
        // Not reached: whoever gives no value reports why.
        None => Err(Problems { source_name: source_name.to_owned(), list: Vec::new() }),
    }
}

fn read(text: &str, outside: Outside<'_>, report: &mut problems::Report) -> Option<RawConfig> {
    let mut document = document::parse(text, report)?;
    seed_names::translate(&mut document);
    let root = schema::shared();
    let value = match document.content {
        document::Content::Null => serde_json::Value::Object(serde_json::Map::new()),
        _ => Checker { root, outside, report }.check(document, root, "")?,
    };
    RawConfig::deserialize(value)
        .map_err(|error| report.problem("", error.to_string(), "correct this value"))
        .ok()
}

impl Config {
    /// The configuration in force as YAML of the file's shape: defaults filled in, secrets masked.
    pub fn effective_yaml(&self) -> &str {
        &self.effective
    }
}
