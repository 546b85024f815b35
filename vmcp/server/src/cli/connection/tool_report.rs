//! The answer of `GET /admin/tools`, as commands read it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// All tools of a server, hidden ones included.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::cli) struct ToolReport {
    pub(in crate::cli) tools: Vec<ReportedTool>,
}

/// One tool of the catalog.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::cli) struct ReportedTool {
    /// Name that clients use.
    pub(in crate::cli) name: String,
    /// Backend that offers it.
    pub(in crate::cli) backend: String,
    /// Name that the backend uses.
    pub(in crate::cli) original: String,
    pub(in crate::cli) title: Option<String>,
    pub(in crate::cli) description: String,
    /// Hash of the definition, which changes with it.
    pub(in crate::cli) hash: String,
    /// `false` if the configuration hides it from clients.
    pub(in crate::cli) listed: bool,
    /// Definition as clients would receive it.
    pub(in crate::cli) definition: Value,
}
