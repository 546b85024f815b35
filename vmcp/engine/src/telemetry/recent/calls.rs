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
    /// Bytes of parameters sent to the backend, or of the arguments of an own tool.
    pub bytes_in: u64,
    /// Bytes of the answer.
    pub bytes_out: u64,
}

/// Observer that keeps the latest calls.
#[derive(Debug, Default)]
pub struct RecentCalls(RecentEntries<Entry>);

/// A call of this process, or a kept one of a process before.
#[derive(Debug, Clone)]
enum Entry {
    Own(Arc<CallEntry>),
    Kept(Arc<RecentCall>),
}

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
        let wanted = |entry: &Entry| backend.is_none_or(|name| entry.backend() == Some(name));
        let batch = self.0.since(after, wanted);
        super::Batch { next: batch.next, entries: batch.entries.iter().map(Entry::shown).collect() }
    }

    /// Adds calls of a process before this one, oldest first. They lose their numbers, because no facts but
    /// these are left of them.
    pub fn restore(&self, calls: Vec<RecentCall>) {
        for call in calls {
            self.0.push(Entry::Kept(Arc::new(RecentCall { id: None, ..call })));
        }
    }

    /// Returns the calls of this process from number `after` on, each with its number, the oldest first.
    pub fn entries(&self, after: u64) -> super::Batch<(u64, Arc<CallEntry>)> {
        let super::Batch { next, entries } = self.0.since(after, |entry| entry.own().is_some());
        let own = entries.iter().filter_map(Entry::own);
        super::Batch { next, entries: own.map(|entry| (entry.number, Arc::clone(entry))).collect() }
    }

    /// Returns the calls that `wanted` names, each with the calls within it; the oldest first.
    pub fn traced(&self, wanted: &WantedCall) -> Vec<TracedCall> {
        let all = self.entries(0).entries;
        let all = || all.iter().map(|(_, entry)| entry);
        let chosen: Vec<_> = all().filter(|entry| wanted.is(entry)).collect();
        let is_chosen = |entry: &Arc<CallEntry>| chosen.iter().any(|one| one.number == entry.number);
        let within = |entry: &Arc<CallEntry>| chosen.iter().any(|outer| entry.is_within(outer));
        let shown = all().filter_map(|entry| match (is_chosen(entry), within(entry)) {
            (true, _) => Some(entry.traced(false)),
            (false, true) => Some(entry.traced(true)),
            (false, false) => None,
        });
        shown.collect()
    }
}

impl Entry {
    /// Returns a call of this process.
    fn own(&self) -> Option<&Arc<CallEntry>> {
        match self {
            Entry::Own(entry) => Some(entry),
            Entry::Kept(_) => None,
        }
    }

    fn backend(&self) -> Option<&str> {
        match self {
            Entry::Own(entry) => entry.record.backend.as_deref(),
            Entry::Kept(call) => call.backend.as_deref(),
        }
    }

    fn shown(&self) -> RecentCall {
        match self {
            Entry::Own(entry) => entry.shown(),
            Entry::Kept(call) => RecentCall::clone(call),
        }
    }
}

impl CallObserver for RecentCalls {
    fn observe(&self, record: &CallRecord) {
        // The span would live as long as the entry.
        let none = tracing::Span::none;
        let record = CallRecord { span: none(), exchange: none(), arguments: None, ..record.clone() };
        let at = SystemTime::now();
        self.0.push_numbered(|number| Entry::Own(Arc::new(CallEntry { number, at, record })));
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
