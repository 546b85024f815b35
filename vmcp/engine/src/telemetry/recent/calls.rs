//! The latest calls. Neither arguments nor results are kept.

use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::RecentEntries;
use super::traced::{TracedCall, WantedCall};
use crate::telemetry::calls::{CallObserver, CallRecord};

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
    /// Bytes of parameters sent to the backend.
    pub bytes_in: u64,
    /// Bytes of the answer.
    pub bytes_out: u64,
}

/// Observer that keeps the latest calls.
#[derive(Debug, Default)]
pub struct RecentCalls(RecentEntries<Arc<CallEntry>>);

/// A call as it is kept, without its arguments and spans; its texts are written only when they are read.
#[derive(Debug)]
pub struct CallEntry {
    /// Number of the call in this process.
    pub number: u64,
    /// Time of its end.
    pub at: SystemTime,
    /// Its facts.
    pub record: CallRecord,
}

impl RecentCalls {
    /// Returns the number to go on behind, and the calls from number `after` on.
    pub fn since(&self, after: u64, backend: Option<&str>) -> super::Batch<RecentCall> {
        let wanted =
            |entry: &Arc<CallEntry>| backend.is_none_or(|name| entry.record.backend.as_deref() == Some(name));
        let batch = self.0.since(after, wanted);
        super::Batch { next: batch.next, entries: batch.entries.iter().map(|entry| entry.shown()).collect() }
    }

    /// Returns the calls from number `after` on, each with its number, the oldest first.
    pub fn entries(&self, after: u64) -> super::Batch<(u64, Arc<CallEntry>)> {
        let super::Batch { next, entries } = self.0.since(after, |_| true);
        let first = next - entries.len() as u64;
        super::Batch { next, entries: (first..).zip(entries).collect() }
    }
}

impl RecentCalls {
    /// Returns the calls that `wanted` names, each with the calls within it; the oldest first.
    pub fn traced(&self, wanted: &WantedCall) -> Vec<TracedCall> {
        let all = self.0.since(0, |_| true).entries;
        let chosen: Vec<_> = all.iter().filter(|entry| wanted.is(entry)).collect();
        let is_chosen = |entry: &Arc<CallEntry>| chosen.iter().any(|one| one.number == entry.number);
        let within = |entry: &Arc<CallEntry>| chosen.iter().any(|outer| entry.is_within(outer));
        let shown = all.iter().filter_map(|entry| match (is_chosen(entry), within(entry)) {
            (true, _) => Some(entry.traced(false)),
            (false, true) => Some(entry.traced(true)),
            (false, false) => None,
        });
        shown.collect()
    }
}

impl CallObserver for RecentCalls {
    fn observe(&self, record: &CallRecord) {
        // The span would live as long as the entry.
        let none = tracing::Span::none;
        let record = CallRecord { span: none(), exchange: none(), arguments: None, ..record.clone() };
        let at = SystemTime::now();
        self.0.push_numbered(|number| Arc::new(CallEntry { number, at, record }));
    }
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
