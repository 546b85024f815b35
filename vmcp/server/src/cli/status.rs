//! What the admin port answers, as far as the command line reads it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `/admin/status`.
#[derive(Debug, Deserialize)]
pub(super) struct Status {
    /// `vmcp`.
    pub(super) name: String,
    pub(super) version: String,
    pub(super) refused_configuration: Option<Refused>,
    pub(super) backends: Vec<Backend>,
    pub(super) embeddings: Embeddings,
    pub(super) issues: Vec<String>,
}

/// An edit of the configuration that is not in force.
#[derive(Debug, Deserialize)]
pub(super) struct Refused {
    pub(super) message: String,
}

/// One backend.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Backend {
    pub(super) name: String,
    pub(super) transport: String,
    pub(super) state: String,
    pub(super) revision: Option<String>,
    pub(super) last_error: Option<String>,
    pub(super) tools: usize,
    pub(super) resources: usize,
    pub(super) prompts: usize,
    pub(super) rejected: usize,
    /// Everything else, for programs.
    #[serde(flatten)]
    pub(super) rest: serde_json::Map<String, Value>,
}

/// How embedding is doing.
#[derive(Debug, Deserialize)]
pub(super) struct Embeddings {
    pub(super) provider: String,
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) hint: Option<String>,
    pub(super) wanted: usize,
    pub(super) embedded: usize,
}

/// `/admin/tools`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Tools {
    pub(super) tools: Vec<Tool>,
}

/// One tool.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) backend: String,
    pub(super) original: String,
    pub(super) title: Option<String>,
    pub(super) description: String,
    pub(super) hash: String,
    pub(super) listed: bool,
    pub(super) definition: Value,
}
