//! `optimizer.largeResults`: results kept at the server, and references in their place.

use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::Report;
use crate::values::duration::{self, MAX_DURATION, RawDuration};

/// Range of the time that a result is kept, from 1 s to 24 h.
const TTL: RangeInclusive<Duration> = Duration::from_secs(1)..=MAX_DURATION;

/// Validated settings of large results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeResults {
    /// False: every result reaches the client as it came.
    pub enabled: bool,
    /// Tokens above which a result is kept.
    pub threshold: u32,
    /// Time that a result is kept.
    pub ttl: Duration,
    /// Most bytes of one principal.
    pub max_bytes_per_principal: u64,
    /// Most bytes of all principals.
    pub max_bytes: u64,
    /// Use of a language model that writes queries.
    pub llm: DatasetModel,
    /// Rows whose values a language model sees that writes a query.
    pub preview_rows: usize,
}

/// Use of a language model that writes a query for `process_large_dataset`. The model sees the operation,
/// names of its parameters, and names and types of columns with the keys of nested objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DatasetModel {
    /// None: a call with `engine: llm` is refused.
    Off,
    /// For a call with `engine: llm`: the model of `optimizer.llm`, else the client's own by sampling.
    Asked,
    /// As `asked`. The model of `optimizer.llm` also reads words that a call without `engine` leaves to the
    /// server, if the server's grammar does not understand them.
    Auto,
}

/// Keep large results of call_tool, and answer with a reference, the shape and the beginning. Adds the tools
/// `read_result`, `search_result` and `process_large_dataset`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "LargeResults")]
pub struct RawLargeResults {
    /// Keep them. `false`: every result reaches the client as it came.
    pub enabled: bool,
    /// Tokens above which a result is kept; a token is four characters. The default is below the 10,000 at
    /// which some clients warn.
    #[schemars(range(min = 250, max = 1_000_000))]
    pub threshold: u32,
    /// Time that a result is kept; later its reference is unknown.
    #[schemars(extend("x-range" = duration::words(&TTL)))]
    pub ttl: RawDuration,
    /// Most bytes of the results of one principal. Beyond it the least recently used one goes; a result that
    /// is larger by itself reaches the client as it came.
    #[schemars(range(min = 65_536, max = 17_179_869_184_u64))]
    pub max_bytes_per_principal: u64,
    /// Most bytes of all results: in files or the Redis of `sessionStorage` with `server.sessionKeys`, else
    /// in memory. Beyond it the least recently used one goes.
    #[schemars(range(min = 65_536, max = 1_099_511_627_776_u64))]
    pub max_bytes: u64,
    /// Use of a language model that writes a query for `process_large_dataset`.
    pub llm: DatasetModel,
    /// Rows whose values a language model sees when it writes a query for `process_large_dataset`. 0: it sees
    /// names and types of columns, and keys of nested objects, alone.
    #[schemars(range(max = 10))]
    pub preview_rows: u32,
}

impl Default for RawLargeResults {
    fn default() -> Self {
        Self {
            enabled: false,
            threshold: 8_000,
            ttl: "1h".into(),
            max_bytes_per_principal: 64 << 20,
            max_bytes: 256 << 20,
            llm: DatasetModel::Asked,
            preview_rows: 0,
        }
    }
}

impl RawLargeResults {
    pub(crate) fn validate(&self, report: &mut Report) -> LargeResults {
        if self.max_bytes < self.max_bytes_per_principal {
            report.problem(
                "optimizer.largeResults.maxBytes",
                format!(
                    "{} is less than maxBytesPerPrincipal ({})",
                    self.max_bytes, self.max_bytes_per_principal
                ),
                "raise it, or lower `maxBytesPerPrincipal`",
            );
        }
        LargeResults {
            enabled: self.enabled,
            threshold: self.threshold,
            ttl: self.ttl.validate("optimizer.largeResults.ttl", &TTL, report),
            max_bytes_per_principal: self.max_bytes_per_principal,
            max_bytes: self.max_bytes,
            llm: self.llm,
            preview_rows: self.preview_rows as usize,
        }
    }
}
