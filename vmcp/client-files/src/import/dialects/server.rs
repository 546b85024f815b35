//! One server of another client's file, in the keys that all dialects are turned into.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

/// Numbers from here on are milliseconds, as Claude and Gemini write time limits. Codex names its unit, and
/// files of Cline, Roo and Goose have seconds alone ([`Reading`](super::Reading)).
const FIRST_MILLISECONDS: f64 = 1_000.0;

/// One server of another client's file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::import) struct Server {
    pub(in crate::import) command: Option<String>,
    #[serde(deserialize_with = "lenient::words")]
    pub(in crate::import) args: Vec<String>,
    pub(in crate::import) env: BTreeMap<String, Value>,
    pub(in crate::import) cwd: Option<String>,
    #[serde(rename = "type", alias = "transport")]
    pub(in crate::import) kind: Option<String>,
    pub(in crate::import) url: Option<String>,
    #[serde(deserialize_with = "lenient::texts")]
    pub(in crate::import) headers: BTreeMap<String, String>,
    #[serde(deserialize_with = "lenient::boolean")]
    pub(in crate::import) disabled: bool,
    #[serde(deserialize_with = "lenient::number")]
    pub(in crate::import) timeout: Option<f64>,
    /// Time limit of a call, in seconds (Codex).
    #[serde(deserialize_with = "lenient::number")]
    pub(in crate::import) tool_timeout_sec: Option<f64>,
    /// Time limit of the start, in seconds (Codex).
    #[serde(deserialize_with = "lenient::number")]
    pub(in crate::import) startup_timeout_sec: Option<f64>,
    /// Time limit of the start, in milliseconds (Codex, opencode, Continue).
    #[serde(deserialize_with = "lenient::number", alias = "connectionTimeout")]
    pub(in crate::import) startup_timeout_ms: Option<f64>,
    /// The only tools that the client uses.
    #[serde(deserialize_with = "lenient::words")]
    pub(in crate::import) only: Vec<String>,
    /// Tools that the client does not use.
    #[serde(deserialize_with = "lenient::words")]
    pub(in crate::import) without: Vec<String>,
    #[serde(flatten)]
    pub(in crate::import) others: Map<String, Value>,
}

impl Server {
    /// Returns the texts in which a server may refer to variables.
    pub(in crate::import) fn texts(&self) -> impl Iterator<Item = &str> {
        let single = [&self.command, &self.cwd, &self.url].into_iter().flatten();
        let others = single.chain(&self.args).chain(self.headers.values()).map(String::as_str);
        others.chain(self.env.values().filter_map(Value::as_str))
    }

    /// Time limit of a call, in seconds.
    pub(in crate::import) fn timeout_seconds(&self) -> Option<f64> {
        let of_any_unit =
            |timeout: f64| if timeout < FIRST_MILLISECONDS { timeout } else { timeout / 1_000.0 };
        let timeout = self.tool_timeout_sec.or(self.timeout.map(of_any_unit));
        timeout.filter(|timeout| timeout.is_finite() && *timeout > 0.0)
    }

    /// Time limit of the start, in seconds.
    pub(in crate::import) fn start_seconds(&self) -> Option<f64> {
        let start = self.startup_timeout_sec.or(self.startup_timeout_ms.map(|start| start / 1_000.0));
        start.filter(|start| start.is_finite() && *start > 0.0)
    }
}

/// Readers of values as people write them: a number in an argument, a time limit in quotes.
mod lenient {
    use std::collections::BTreeMap;

    use serde::{Deserialize as _, Deserializer};
    use serde_json::Value;

    fn text(value: Value) -> Option<String> {
        match value {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        }
    }

    pub(super) fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::Array(words) => words.into_iter().filter_map(text).collect(),
            other => text(other).into_iter().collect(),
        })
    }

    pub(super) fn texts<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, String>, D::Error> {
        let values = BTreeMap::<String, Value>::deserialize(deserializer)?;
        Ok(values.into_iter().filter_map(|(name, value)| Some((name, text(value)?))).collect())
    }

    pub(super) fn boolean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::Bool(value) => value,
            Value::String(text) => text.trim().eq_ignore_ascii_case("true"),
            other => other.as_f64().is_some_and(|number| number != 0.0),
        })
    }

    pub(super) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_f64(),
        })
    }
}
