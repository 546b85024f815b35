//! `optimizer.limits`: how large a client's input may be (R022-37).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// The file's form is already valid once its ranges hold, so that one type serves both.
/// Bounds on what clients send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Characters in the description of a search.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub description_chars: usize,
    /// Characters in the keywords of a search.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub keywords_chars: usize,
    /// Words in the keywords of a search.
    #[schemars(range(min = 1, max = 10_000))]
    pub keywords_terms: usize,
    /// Characters in the name of a tool to call.
    #[schemars(range(min = 1, max = 1024))]
    pub tool_name_chars: usize,
    /// Bytes in the arguments of a tool call.
    #[schemars(range(min = 1, max = 1_073_741_824))]
    pub parameters_bytes: usize,
    /// Levels of nesting in the arguments of a tool call.
    #[schemars(range(min = 1, max = 127))]
    pub parameters_depth: usize,
    /// Bytes in the body of a request; a longer one is answered with 413.
    #[schemars(range(min = 1024, max = 1_073_741_824))]
    pub body_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            description_chars: 2000,
            keywords_chars: 500,
            keywords_terms: 50,
            tool_name_chars: 128,
            parameters_bytes: 1 << 20,
            parameters_depth: 64,
            body_bytes: 4 << 20,
        }
    }
}
