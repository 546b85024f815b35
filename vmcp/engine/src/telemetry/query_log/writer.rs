//! The thread of the query log: takes entries out of the queue several times a second, and commits their rows
//! as one transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::oneshot;
use vmcp_store::{SearchBatch, SearchCall, SearchLogBounds, StateStore, StoredSearch, UnsearchedCalls};

use super::reading::{self, LogReading};
use super::sequels::{MAX_TOOLS, SequelBook, SequelKey, Sessions};
use super::windows::{OpenSearch, Windows};
use super::{Called, Entry, QUEUE_CAPACITY, SearchCounts, Searched, Settings};
use crate::random::now_ms;
use crate::telemetry::tool_metrics::ToolKey;

/// Time between the first entry of a batch and its commit.
const COMMIT_INTERVAL: Duration = Duration::from_millis(200);
/// Time between two looks for searches that get no more calls, and for rows that have to go.
const UPKEEP_INTERVAL: Duration = Duration::from_mins(1);
/// Searches after which the bounds of the log are applied, whatever the time.
const MAX_UNPRUNED: usize = 256;
/// Milliseconds of a day.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Runs until the log is dropped.
pub(super) fn run(
    dir: Option<&Path>,
    entries: &Receiver<Entry>,
    woken: &Receiver<()>,
    settings: &ArcSwap<Settings>,
    book: &ArcSwap<SequelBook>,
    counts: &SearchCounts,
) {
    let opened =
        StateStore::open_or_in_memory(dir, "the query log is kept in memory only", "searches are not logged");
    let Some(store) = opened else { return };
    let mut writer = LogWriter {
        store,
        settings,
        book,
        counts,
        windows: Windows::default(),
        sessions: Sessions::default(),
        unpruned: 0,
    };
    writer.load();
    writer.prune();
    let mut upkeep_at = Instant::now() + UPKEEP_INTERVAL;
    loop {
        match entries.recv_timeout(UPKEEP_INTERVAL) {
            Ok(first) => {
                // Further entries of a burst join the same transaction; a request that waits cuts this short.
                let is_asked = matches!(first, Entry::Flush(_) | Entry::Read(..));
                if !is_asked {
                    let _ = woken.recv_timeout(COMMIT_INTERVAL);
                }
                writer.take(std::iter::once(first).chain(entries.try_iter().take(QUEUE_CAPACITY)));
                // Wake-ups of requests that this batch answered would cut the next one short. A request that
                // came since then waits for at most one interval.
                while woken.try_recv().is_ok() {}
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if Instant::now() >= upkeep_at {
            upkeep_at = Instant::now() + UPKEEP_INTERVAL;
            writer.expire();
            writer.prune();
        }
    }
}

struct LogWriter<'a> {
    store: StateStore,
    settings: &'a ArcSwap<Settings>,
    book: &'a ArcSwap<SequelBook>,
    counts: &'a SearchCounts,
    windows: Windows,
    sessions: Sessions,
    /// Searches that were logged since the bounds were applied.
    unpruned: usize,
}

/// Rows and counts that a batch of entries adds.
#[derive(Default)]
struct Batch {
    log: SearchBatch,
    /// Calls without a search before them, by tool.
    unsearched: BTreeMap<ToolKey, (i64, u64)>,
    /// The changed book, and what changed in it.
    book: Option<SequelBook>,
    changed: BTreeSet<SequelKey>,
}

impl LogWriter<'_> {
    /// Publishes the counts that the database has.
    fn load(&self) {
        match self.store.all_sequels(MAX_TOOLS) {
            Ok(rows) => self.book.store(Arc::new(rows.into_iter().collect())),
            Err(error) => tracing::warn!(%error, "the tools that follow a tool could not be read"),
        }
    }

    /// Takes entries in, in their order.
    fn take(&mut self, entries: impl Iterator<Item = Entry>) {
        let settings = self.settings.load_full();
        let mut batch = Batch::default();
        for entry in entries {
            match entry {
                Entry::Search(search) => self.search(search, &mut batch),
                Entry::Call(call) => self.call(&call, &settings, &mut batch),
                Entry::Read(since, limit, answer) => {
                    self.commit(std::mem::take(&mut batch));
                    self.read(since, limit, answer);
                }
                Entry::Flush(answer) => {
                    self.commit(std::mem::take(&mut batch));
                    // The caller may have gone.
                    let _ = answer.send(());
                }
            }
        }
        self.commit(batch);
    }

    fn search(&mut self, search: Searched, batch: &mut Batch) {
        let Searched { client, at, found, words } = search;
        let id = words.map(|[query, keywords]| {
            let id = fastrand::i64(1..);
            batch.log.searches.push(StoredSearch {
                id,
                at,
                owner: client.principal.owner().map(|owner| owner.to_string()),
                query: query.into(),
                keywords: keywords.into(),
                found: reading::found_json(&found),
            });
            id
        });
        let ended = self.windows.open(client, OpenSearch { id, at, found, called: false });
        self.counts.ended_without_call(ended);
    }

    fn call(&mut self, call: &Called, settings: &Settings, batch: &mut Batch) {
        let key: ToolKey = (Arc::clone(&call.tool.backend), call.tool.definition.name.as_str().into());
        let consequences = self.windows.call(&call.client, &key, call.at);
        if consequences.is_empty() && settings.log.enabled {
            let (at, calls) = batch.unsearched.entry(key.clone()).or_default();
            *at = call.at;
            *calls += 1;
        }
        let logged = consequences.into_iter().filter_map(|one| Some((one.search?, one.rank)));
        batch.log.calls.extend(logged.map(|(search, rank)| SearchCall {
            search,
            backend: key.0.to_string(),
            tool: key.1.to_string(),
            rank,
        }));
        if settings.counts_sequels && call.succeeded {
            let book = batch.book.get_or_insert_with(|| SequelBook::clone(&self.book.load()));
            self.sessions.succeed(call.client, &key, call.at, book, &mut batch.changed);
        }
    }

    /// Writes a batch. While another process holds the database, the batch is lost.
    fn commit(&mut self, batch: Batch) {
        let Batch { mut log, unsearched, book, changed } = batch;
        if let Some(book) = book {
            let rows = book.rows(&changed);
            self.book.store(Arc::new(book));
            if let Err(error) = self.store.put_sequels(&rows) {
                tracing::warn!(%error, "the tools that follow a tool are kept in memory only");
            }
        }
        log.unsearched = unsearched
            .into_iter()
            .map(|((backend, tool), (day, calls))| UnsearchedCalls {
                day,
                backend: backend.to_string(),
                tool: tool.to_string(),
                calls,
            })
            .collect();
        if log.searches.is_empty() && log.calls.is_empty() && log.unsearched.is_empty() {
            return;
        }
        if let Err(error) = self.store.log_searches(&log) {
            tracing::warn!(%error, searches = log.searches.len(), "searches were not logged");
        }
        self.unpruned += log.searches.len();
        if self.unpruned >= MAX_UNPRUNED {
            self.prune();
        }
    }

    fn expire(&mut self) {
        let ended = self.windows.expire(now_ms());
        self.counts.ended_without_call(ended);
    }

    /// Applies the bounds. Where searches are not logged, the log is another process's.
    fn prune(&mut self) {
        self.unpruned = 0;
        let settings = self.settings.load();
        if settings.counts_sequels
            && let Err(error) = self.store.prune_sequels(MAX_TOOLS)
        {
            tracing::warn!(%error, "old counts of the tools that follow a tool could not be deleted");
        }
        if !settings.log.enabled {
            return;
        }
        let kept_since = now_ms() - i64::from(settings.log.keep_days) * DAY_MS;
        let bounds = SearchLogBounds { max_searches: settings.log.max_searches, kept_since };
        if let Err(error) = self.store.prune_searches(bounds) {
            tracing::warn!(%error, "old searches could not be deleted");
        }
    }

    fn read(&self, since: i64, limit: usize, answer: oneshot::Sender<LogReading>) {
        match reading::read(&self.store, since, limit) {
            // The caller may have gone.
            Ok(reading) => _ = answer.send(reading),
            Err(error) => tracing::warn!(%error, "the query log could not be read"),
        }
    }
}
