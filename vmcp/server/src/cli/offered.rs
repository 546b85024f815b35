//! What `/admin/tools` answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
