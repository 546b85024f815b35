//! The configuration of a virtual MCP server, from the text of `vmcp.yaml` to validated settings; pure, without I/O.
//!
//! The way of a text through [`load`]:
//!
//! 1. `document` parses YAML into nodes that know their line, within bounds on size, depth and aliases.
//! 2. `checker` compares the nodes with the generated JSON schema, replaces `${…}` references (`references`) and
//!    suggests the nearest known key for an unknown one.
//! 3. [`raw`] holds what is left: the keys as written, one type a section.
//! 4. `sections` validate the raw types into [`Config`]; `values` are the types that they share.
//!
//! No step stops at the first mistake: each reports all of its own to `problems`, by path and line, with the remedy, and
//! [`load`] fails with the whole list. Nothing after `load` sees a raw type.
//!
//! Besides: [`import`] converts other clients' files, `writing` renders schema, reference page, starter file and the
//! configuration in force, [`rules`] are the validated rules for tools, [`status`] is the report that a running server
//! gives about itself, and [`sanitize`] cleans text that backends wrote.

mod checker;
mod document;
pub mod import;
mod problems;
pub mod raw;
mod references;
pub mod rules;
pub mod sanitize;
mod sections;
pub mod status;
mod values;
mod writing;

use serde::Deserialize as _;

use self::checker::Checker;
pub use self::document::MAX_BYTES;
pub use self::problems::{Problem, Problems};
use self::raw::RawConfig;
use self::references::ReferenceSources;
pub use self::references::{Environment, Files, MAX_FILE_BYTES};
pub use self::rules::Aggregation;
pub use self::sections::backend::{
    Backend, MAX_BACKEND_NAME, MAX_BACKENDS, Transport, is_backend_name, normalize_name,
};
pub use self::sections::embeddings::{EmbeddingProvider, Embeddings, LOCAL_MODEL, OnUnavailable};
pub use self::sections::incoming_auth::IncomingAuth;
pub use self::sections::limits::Limits;
pub use self::sections::operational::{CircuitBreaker, LogLevel, Operational};
pub use self::sections::optimizer::{Exposure, Optimizer, ToolNameStyle};
pub use self::sections::proxy::Proxy;
pub use self::sections::search::Search;
pub use self::sections::server::Server;
pub use self::sections::telemetry::Telemetry;
pub use self::values::duration::{
    PATTERN as DURATION_PATTERN, RANGE as RANGE_KEY, format as format_duration, parse as parse_duration,
};
pub use self::values::headers::Headers;
pub use self::values::secret::{MASK, Secret};
pub use self::writing::schema::json_schema;
pub use self::writing::schema_table::{SchemaTable, range_of_rule};
pub use self::writing::settings_page::reference_markdown;
pub use self::writing::starter::STARTER;

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
    effective_yaml: String,
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
    let config = read(text, ReferenceSources { variables, files }, &mut report).map(|raw| {
        let effective_yaml = writing::effective::render(&raw, &report.references);
        raw.validate(effective_yaml, &mut report)
    });
    let warnings = report.finish(source_name)?;
    match config {
        Some(config) => Ok(Loaded { config, warnings }),
        // Not reached: whoever gives no value reports why.
        None => Err(Problems { source_name: source_name.to_owned(), list: Vec::new() }),
    }
}

fn read(text: &str, sources: ReferenceSources<'_>, report: &mut problems::Report) -> Option<RawConfig> {
    let mut document = document::parse(text, report)?;
    document::translate_legacy_keys(&mut document);
    let root = writing::schema::shared();
    let value = match document.content {
        document::Content::Null => serde_json::Value::Object(serde_json::Map::new()),
        _ => Checker { root, sources, report }.check(document, root, "")?,
    };
    RawConfig::deserialize(value)
        .map_err(|error| report.problem("", error.to_string(), "correct this value"))
        .ok()
}

impl Config {
    /// The configuration in force as YAML of the file's shape: defaults filled in, secrets masked.
    pub fn effective_yaml(&self) -> &str {
        &self.effective_yaml
    }
}
