//! `code.llm`: the language model that writes scripts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Language model that writes the script of a task. It sees the task, signatures of tools that the caller may
/// call, types and keys of `context`, and the text of the error of a script that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScriptModel {
    /// None: a call with `task` is refused.
    Off,
    /// The model of `optimizer.llm`; without one, `task` is not on offer.
    Configured,
    /// The model of `optimizer.llm`, else the client's own by sampling.
    Any,
}

impl ScriptModel {
    /// True if `execute_code` offers `task`. `has_model`: `optimizer.llm` is configured.
    pub fn is_offered(self, has_model: bool) -> bool {
        match self {
            ScriptModel::Off => false,
            ScriptModel::Configured => has_model,
            ScriptModel::Any => true,
        }
    }
}
