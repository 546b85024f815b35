//! A call that has ended: [`CallEntry`] as it is kept, [`RecentCall`] as lists show it.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::telemetry::calls::CallRecord;

/// One call that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecentCall {
    /// Number of the call in this process, for `vmcp trace`; `None` from a server of an older version.
    #[serde(default)]
    pub id: Option<u64>,
    /// Time of its end, RFC 3339.
    pub at: String,
    /// Tool of vmcp through which it came, such as `optim.call_tool`.
    pub via: Option<String>,
    /// MCP method.
    pub method: String,
    /// Backend, if it reached one.
    pub backend: Option<String>,
    /// Tool, prompt, URI or task.
    pub item: Option<String>,
    /// `ok`, or the kind of the failure.
    pub outcome: String,
    /// Milliseconds from the request to the end of the answer.
    pub took_ms: f64,
    /// Bytes of parameters sent to the backend, or of the arguments of an own tool.
    pub bytes_in: u64,
    /// Bytes of the answer.
    pub bytes_out: u64,
}

/// A call as it is kept, without its spans; its texts are written only when they are read.
#[derive(Debug)]
pub struct CallEntry {
    /// Number of the call in this process.
    pub number: u64,
    /// Time of its end.
    pub at: SystemTime,
    /// Its facts.
    pub record: CallRecord,
}

impl CallEntry {
    pub(super) fn shown(&self) -> RecentCall {
        let CallEntry { number, at, record } = self;
        let tool = record.tool.as_ref().map(|tool| tool.name.as_str());
        RecentCall {
            id: Some(*number),
            at: humantime::format_rfc3339_millis(*at).to_string(),
            via: record.origin.own_tool().map(str::to_owned),
            method: record.method.clone().into_owned(),
            backend: record.backend.as_deref().map(str::to_owned),
            item: tool.or(record.subject.as_deref()).map(str::to_owned),
            outcome: record.outcome.label().to_owned(),
            took_ms: record.took.as_secs_f64() * 1e3,
            bytes_in: record.bytes_in,
            bytes_out: record.bytes_out,
        }
    }
}
