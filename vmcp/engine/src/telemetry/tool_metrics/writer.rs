//! The thread that counts calls: takes them out of the queue several times a second, commits them as one
//! transaction, and publishes the new aggregates.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use prometheus_client::metrics::counter::Counter;
use tokio::sync::oneshot;
use vmcp_store::{CallFact, StateStore, StoreError, ToolMetrics};

use super::book::{MetricsBook, SharedBook};
use super::search_days::SearchDays;
use super::{CountedCall, Entry, Filter};

/// Time between two commits: a crash loses no more than the calls of this time.
const COMMIT_INTERVAL: Duration = Duration::from_millis(200);
/// Time between two looks for calls that leave the log.
const PRUNE_INTERVAL: Duration = Duration::from_hours(1);
/// Calls that are kept while another process holds the database; further ones are dropped and counted.
const MAX_UNWRITTEN: usize = 65_536;

/// Parts that the writer shares with the recorder.
pub(super) struct WriterParts {
    /// The published figures.
    pub(super) book: SharedBook,
    /// Days after which a call leaves the log.
    pub(super) retention_days: Arc<AtomicU32>,
    /// Counts of searches that wait to be written.
    pub(super) search_days: Arc<SearchDays>,
    /// Entries of the queue.
    pub(super) waiting: Arc<AtomicUsize>,
    /// Counts calls that are not written.
    pub(super) dropped: Counter,
}

/// Runs until the recorder is dropped.
pub(super) fn run(dir: Option<&Path>, entries: &Receiver<Entry>, woken: &Receiver<()>, shared: &WriterParts) {
    let opened = StateStore::open_or_in_memory(
        dir,
        "metrics of tools are kept in memory only",
        "calls are not counted",
    );
    let Some(store) = opened else { return };
    let mut writer = Writer { store, shared, waiting: BTreeMap::new(), unwritten: 0 };
    writer.load();
    let mut prune_at = Instant::now();
    loop {
        let ends = woken.recv_timeout(COMMIT_INTERVAL) == Err(RecvTimeoutError::Disconnected);
        writer.take(entries);
        if Instant::now() >= prune_at {
            prune_at = Instant::now() + PRUNE_INTERVAL;
            writer.prune(shared.retention_days.load(Ordering::Relaxed));
        }
        if ends {
            return;
        }
    }
}

/// Calls of one tool that are not written yet, under backend and tool.
type Waiting = BTreeMap<(Arc<str>, String), Vec<CallFact>>;

struct Writer<'a> {
    store: StateStore,
    shared: &'a WriterParts,
    waiting: Waiting,
    /// Calls in `waiting`.
    unwritten: usize,
}

impl Writer<'_> {
    /// Publishes what the database has.
    fn load(&self) {
        match self.store.all_tool_metrics() {
            Ok(all) => self.publish(all),
            Err(error) => tracing::warn!(%error, "metrics of tools could not be read"),
        }
    }

    /// Empties the queue in order, and commits its calls.
    fn take(&mut self, entries: &Receiver<Entry>) {
        for entry in entries.try_iter() {
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            match entry {
                Entry::Call(call) => self.count(call),
                Entry::Flush(answer) => {
                    self.commit();
                    // The caller may have gone.
                    let _ = answer.send(());
                }
                Entry::Reset(filter, answer) => self.reset(&filter, answer),
                Entry::Days(wanted, answer) => {
                    self.commit();
                    reply(answer, self.or_in_memory(|store| wanted.days(store)));
                }
                Entry::Calls(wanted, answer) => {
                    self.commit();
                    reply(answer, self.or_in_memory(|store| wanted.calls(store)));
                }
                Entry::Usage(wanted, answer) => {
                    self.commit();
                    reply(answer, self.or_in_memory(|store| wanted.usage(store)));
                }
            }
        }
        self.commit();
    }

    fn count(&mut self, call: CountedCall) {
        if self.unwritten >= MAX_UNWRITTEN {
            self.shared.dropped.inc();
            return;
        }
        self.unwritten += 1;
        let key = (Arc::clone(&call.tool.backend), call.tool.definition.name.clone());
        self.waiting.entry(key).or_default().push(call.fact);
    }

    fn commit(&mut self) {
        self.commit_calls();
        self.commit_searches();
    }

    /// Adds the counts of searches to the sums of their days.
    fn commit_searches(&mut self) {
        let days = self.shared.search_days.take();
        if days.is_empty() {
            return;
        }
        if let Err(error) = self.or_in_memory(|store| store.add_search_days(&days)) {
            tracing::warn!(%error, "sums of searches are written later");
            for day in days {
                self.shared.search_days.add(day);
            }
        }
    }

    fn commit_calls(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut self.waiting);
        let calls: Vec<_> = waiting
            .iter()
            .map(|((backend, tool), calls)| (&**backend, tool.as_str(), calls.as_slice()))
            .collect();
        match self.or_in_memory(|store| store.record_calls(&calls)) {
            Ok(counted) => {
                self.publish(counted);
                self.unwritten = 0;
            }
            Err(error) => {
                tracing::warn!(%error, "metrics of tools are written later");
                self.waiting = waiting;
            }
        }
    }

    fn reset(&mut self, filter: &Filter, answer: oneshot::Sender<usize>) {
        self.commit();
        let (backend, tool) = (filter.backend.as_deref(), filter.tool.as_deref());
        if let Err(error) = self.or_in_memory(|store| store.reset_tool_metrics(backend, tool)) {
            tracing::warn!(%error, "metrics of tools could not be reset");
            return;
        }
        let mut book = MetricsBook::clone(&self.shared.book.load());
        let forgotten = book.forget(filter);
        self.shared.book.store(Arc::new(book));
        let _ = answer.send(forgotten);
    }

    /// Deletes single calls of this age; their sums stay.
    fn prune(&mut self, retention_days: u32) {
        let before = SystemTime::now() - Duration::from_hours(24 * u64::from(retention_days));
        let before = before.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        let before = i64::try_from(before).unwrap_or(i64::MAX);
        if let Err(error) = self.or_in_memory(|store| store.prune_calls(before)) {
            tracing::warn!(%error, "old calls could not be deleted from the log");
        }
    }

    fn publish(&self, changed: Vec<ToolMetrics>) {
        let mut book = MetricsBook::clone(&self.shared.book.load());
        for metrics in changed {
            book.put(metrics);
        }
        self.shared.book.store(Arc::new(book));
    }

    /// Runs `work` on the database. When the file fails, the figures go on in memory; while another process
    /// holds it, the error is returned.
    fn or_in_memory<T>(
        &mut self,
        work: impl Fn(&StateStore) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match work(&self.store) {
            Err(error) if !matches!(error, StoreError::Busy) && self.store.path().is_some() => {
                tracing::warn!(%error, "metrics of tools are kept in memory only");
                let memory = StateStore::in_memory()?;
                memory.put_tool_metrics(self.shared.book.load().all().map(AsRef::as_ref))?;
                self.store = memory;
                work(&self.store)
            }
            done => done,
        }
    }
}

/// Answers a question about the history. Dropping the sender tells the asker that the answer is missing.
fn reply<T>(answer: oneshot::Sender<T>, read: Result<T, StoreError>) {
    match read {
        // The asker may have gone.
        Ok(report) => drop(answer.send(report)),
        Err(error) => tracing::warn!(%error, "the history of calls could not be read"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use vmcp_store::CallHistory;

    use super::*;

    #[test]
    fn calls_leave_the_log_after_the_configured_days_and_stay_in_the_sums() {
        for (retention, expected) in [(7, vec![6]), (30, vec![6, 8])] {
            assert_eq!(days_in_the_log_after(retention), expected, "{retention} days");
        }
    }

    /// Returns the ages of the calls that stay, of two that ended six and eight days ago.
    fn days_in_the_log_after(retention: u32) -> Vec<i64> {
        let folder = tempfile::tempdir().unwrap();
        let store = StateStore::open(folder.path()).unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        let now = i64::try_from(now).unwrap();
        let day = 24 * 60 * 60 * 1000;
        let before_days = |days: i64| CallFact {
            at: now - days * day,
            succeeded: true,
            latency_ms: 1.0,
            outcome: "ok",
            error: None,
        };
        let calls = [before_days(8), before_days(6)];
        store.record_calls(&[("s", "t", &calls[..])]).unwrap();
        let (wake, woken) = mpsc::channel();
        let (_queue, entries) = mpsc::channel();
        // The writer looks once, and ends.
        drop(wake);
        let search_days = Arc::<SearchDays>::default();
        search_days.add(vmcp_store::SearchDay { day: now, searches: 4, ..vmcp_store::SearchDay::default() });
        let shared = WriterParts {
            book: SharedBook::default(),
            retention_days: Arc::new(AtomicU32::new(retention)),
            search_days,
            waiting: Arc::default(),
            dropped: Counter::default(),
        };
        run(Some(folder.path()), &entries, &woken, &shared);
        assert_eq!(store.search_days(0, 9).unwrap()[0].searches, 4, "written at the end");
        assert_eq!(store.tool_metrics("s", "t").unwrap().unwrap().call_count, 2);
        let all = CallHistory { limit: 9, ..CallHistory::default() };
        assert_eq!(store.daily_metrics(all).unwrap().len(), 2);
        store.logged_calls(all).unwrap().into_iter().map(|call| (now - call.at) / day).collect()
    }
}
