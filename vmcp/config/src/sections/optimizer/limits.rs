//! `optimizer.limits`: upper bounds on the input of clients; each protects memory and the time of a search.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// Raw and validated form in one type: the ranges of the schema are the only rules.
/// Upper bounds on the input of clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Most characters in the description of a search; a longer one is a client error.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub description_chars: usize,
    /// Most characters in the keywords of a search; more are a client error.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub keywords_chars: usize,
    /// Most words in the keywords of a search; more are a client error.
    #[schemars(range(min = 1, max = 10_000))]
    pub keywords_terms: usize,
    /// Most characters in the name of a tool to call; a longer one is a client error.
    #[schemars(range(min = 1, max = 1024))]
    pub tool_name_chars: usize,
    /// Most bytes in the arguments of a tool call by call_tool; more are a client error.
    #[schemars(range(min = 1, max = 1_073_741_824))]
    pub parameters_bytes: usize,
    /// Most levels of nesting in the arguments of a tool call by call_tool; more are a client error.
    #[schemars(range(min = 1, max = 127))]
    pub parameters_depth: usize,
    /// Most bytes in the body of a request; a longer one is answered with 413.
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
