//! Metrics of tools: [`ToolMetricsRecorder`] observes each call and hands it to a thread that counts it in
//! `state.db`. [`book`] has the figures that requests read, [`report`] shows them to people and models,
//! [`history`] the sums of each day and single calls, [`usage`] the sums of days over all tools and of
//! searches (`search_days`); `by_principal` keeps the figures of each identity, in memory.
//!
//! The request path never waits: a call goes into a bounded queue, and is dropped and counted
//! (`vmcp_tool_metrics_dropped_total`) when the queue is full.

pub mod book;
pub(crate) mod by_principal;
pub mod history;
pub mod report;
pub(crate) mod search_days;
pub mod usage;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::SystemTime;

use tokio::sync::oneshot;
use vmcp_model::catalog::CatalogTool;
use vmcp_store::{CallFact, ToolMetrics};

use super::calls::{CallObserver, CallRecord, Outcome};
use super::metrics::Metrics;
pub use book::MetricsBook;
use book::SharedBook;
use history::{CallsReport, DaysReport, HistoryQuery};
use search_days::SearchDays;
use usage::UsageReport;

/// A backend and its own name of a tool: outlives catalogs and renames.
pub(crate) type ToolKey = (Arc<str>, Arc<str>);

/// Calls that wait for the writer, which takes them out 5 times a second: enough for 40,000 calls a second.
const QUEUE_CAPACITY: usize = 8192;

/// Observer that counts calls of tools. Dropped, it ends its thread, which writes what waits.
#[derive(Debug)]
pub struct ToolMetricsRecorder {
    queue: EntryQueue,
    /// Makes the writer look into the queue at once; its disconnection ends the writer.
    wake: Sender<()>,
    book: SharedBook,
    /// Days after which a call leaves the log.
    retention_days: Arc<AtomicU32>,
    search_days: Arc<SearchDays>,
    metrics: Arc<Metrics>,
}

/// The queue to the writer. Its memory grows with its entries: a bounded channel would take 0.7 MiB at once.
#[derive(Debug)]
struct EntryQueue {
    entries: Sender<Entry>,
    /// Entries that the writer has not taken out.
    waiting: Arc<AtomicUsize>,
}

impl EntryQueue {
    /// Appends an entry; returns false if [`QUEUE_CAPACITY`] entries wait, or if the writer has ended.
    fn push(&self, entry: Entry) -> bool {
        let has_room = self.waiting.fetch_add(1, Ordering::Relaxed) < QUEUE_CAPACITY;
        let is_queued = has_room && self.entries.send(entry).is_ok();
        if !is_queued {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        is_queued
    }
}

/// An entry of the queue.
enum Entry {
    Call(CountedCall),
    /// Forgets metrics: of one tool, of one backend, or of all. Answers with the number of tools.
    Reset(Filter, oneshot::Sender<usize>),
    /// Answers when everything before it is written.
    Flush(oneshot::Sender<()>),
    /// Answers with the sums of days.
    Days(HistoryQuery, oneshot::Sender<DaysReport>),
    /// Answers with logged calls.
    Calls(HistoryQuery, oneshot::Sender<CallsReport>),
    /// Answers with the sums of days over all tools, and of searches.
    Usage(HistoryQuery, oneshot::Sender<UsageReport>),
}

/// A call to be counted.
struct CountedCall {
    tool: Arc<CatalogTool>,
    fact: CallFact,
}

/// Backend and tool; without one of them, every one.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// The backend's name.
    pub backend: Option<String>,
    /// The tool's own name at its backend.
    pub tool: Option<String>,
}

impl Filter {
    /// True if the metrics are of a tool that is meant.
    pub(crate) fn admits(&self, metrics: &ToolMetrics) -> bool {
        let is = |wanted: Option<&str>, name: &str| wanted.is_none_or(|wanted| wanted == name);
        is(self.backend.as_deref(), &metrics.backend) && is(self.tool.as_deref(), &metrics.tool)
    }
}

impl ToolMetricsRecorder {
    /// Starts the writer, which opens `state.db` in `dir`, or counts in memory without one. Single calls
    /// leave the log after `retention_days`.
    pub fn start(
        dir: Option<PathBuf>,
        retention_days: u32,
        metrics: &Arc<Metrics>,
    ) -> Arc<ToolMetricsRecorder> {
        let (sender, entries) = mpsc::channel();
        let (wake, woken) = mpsc::channel();
        let waiting = Arc::<AtomicUsize>::default();
        let book = SharedBook::default();
        let retention_days = Arc::new(AtomicU32::new(retention_days));
        let search_days = Arc::<SearchDays>::default();
        let recorder = ToolMetricsRecorder {
            queue: EntryQueue { entries: sender, waiting: Arc::clone(&waiting) },
            wake,
            book: Arc::clone(&book),
            retention_days: Arc::clone(&retention_days),
            search_days: Arc::clone(&search_days),
            metrics: Arc::clone(metrics),
        };
        let dropped = metrics.tool_metrics_dropped.clone();
        let run = move || {
            let shared = writer::WriterParts { book, retention_days, search_days, waiting, dropped };
            writer::run(dir.as_deref(), &entries, &woken, &shared);
        };
        if let Err(error) = std::thread::Builder::new().name("tool-metrics".to_owned()).spawn(run) {
            tracing::error!(%error, "no thread for metrics of tools; calls are not counted");
        }
        Arc::new(recorder)
    }

    /// Returns the figures as last written; a call is in them within a second.
    pub fn book(&self) -> Arc<MetricsBook> {
        self.book.load_full()
    }

    /// Waits until everything that was observed before is counted.
    pub async fn flush(&self) {
        let (answer, answered) = oneshot::channel();
        self.send(Entry::Flush(answer));
        // Without a writer there is nothing to wait for.
        let _ = answered.await;
    }

    /// Changes the days after which single calls leave the log, which is looked at once an hour.
    pub(crate) fn keep_calls(&self, retention_days: u32) {
        self.retention_days.store(retention_days, Ordering::Relaxed);
    }

    /// Returns the sums of days, with everything that was observed before; `None` if the database cannot be
    /// read now.
    pub async fn days(&self, wanted: HistoryQuery) -> Option<DaysReport> {
        let (answer, answered) = oneshot::channel();
        self.send(Entry::Days(wanted, answer));
        answered.await.ok()
    }

    /// Returns single calls likewise.
    pub async fn calls(&self, wanted: HistoryQuery) -> Option<CallsReport> {
        let (answer, answered) = oneshot::channel();
        self.send(Entry::Calls(wanted, answer));
        answered.await.ok()
    }

    /// Returns the sums of days over all tools, and of searches, likewise.
    pub async fn usage(&self, wanted: HistoryQuery) -> Option<UsageReport> {
        let (answer, answered) = oneshot::channel();
        self.send(Entry::Usage(wanted, answer));
        answered.await.ok()
    }

    /// Returns the counts of searches that the writer adds to the sums of days.
    pub(crate) fn search_days(&self) -> &Arc<SearchDays> {
        &self.search_days
    }

    /// Forgets metrics; returns the number of tools that had some.
    pub async fn reset(&self, filter: Filter) -> usize {
        let (answer, answered) = oneshot::channel();
        self.send(Entry::Reset(filter, answer));
        answered.await.unwrap_or_default()
    }

    fn send(&self, entry: Entry) {
        if !self.queue.push(entry) {
            self.metrics.tool_metrics_dropped.inc();
        }
        let _ = self.wake.send(());
    }
}

impl CallObserver for ToolMetricsRecorder {
    fn observe(&self, record: &CallRecord) {
        let (Some(tool), Some(succeeded)) = (&record.tool, verdict(record)) else { return };
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let fact = CallFact {
            at: i64::try_from(at.as_millis()).unwrap_or(i64::MAX),
            succeeded,
            latency_ms: record.backend_took.as_secs_f64() * 1e3,
            outcome: record.outcome.label(),
            error: record.error.clone(),
        };
        let call = CountedCall { tool: Arc::clone(tool), fact };
        // No wake: one for each call would cost more than the call's own bookkeeping.
        if !self.queue.push(Entry::Call(call)) {
            self.metrics.tool_metrics_dropped.inc();
        }
    }
}

/// Returns true for a success of the tool, false for a failure; `None` if the call says nothing about the
/// tool: it was refused here, cancelled, or has no result yet.
pub(crate) fn verdict(record: &CallRecord) -> Option<bool> {
    match record.outcome {
        _ if record.requests == 0 || record.pending => None,
        Outcome::Ok => Some(true),
        Outcome::ToolError
        | Outcome::RpcError
        | Outcome::Failed("timeout" | "unavailable" | "protocol" | "too_large") => Some(false),
        Outcome::Failed(_) | Outcome::Denied | Outcome::Cancelled => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_refuses_entries_until_one_is_taken_out() {
        let (sender, entries) = mpsc::channel();
        let queue = EntryQueue { entries: sender, waiting: Arc::default() };
        let flush = || Entry::Flush(oneshot::channel().0);
        assert!((0..QUEUE_CAPACITY).all(|_| queue.push(flush())));
        assert!(!queue.push(flush()));
        entries.recv().unwrap();
        queue.waiting.fetch_sub(1, Ordering::Relaxed);
        assert!(queue.push(flush()));
        queue.waiting.store(0, Ordering::Relaxed);
        drop(entries);
        assert!(!queue.push(flush()), "the writer has ended");
    }
}
