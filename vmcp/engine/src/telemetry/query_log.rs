//! [`QueryLog`]: counts searches without a result or without a call after them, logs searches where that is
//! configured, and learns which tools follow a tool within a session.
//!
//! The request path never waits: searches and calls go into a bounded queue, and an entry is dropped when the
//! queue is full. One thread owns all state: [`windows`] matches calls with searches, [`sequels`] counts the
//! tools that follow a tool, [`writer`] commits both to `state.db`. [`reading`] reads the log back.

pub mod reading;
mod sequels;
mod windows;
mod writer;

use std::path::PathBuf;
use std::sync::mpsc::{self, Sender, SyncSender};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use tokio::sync::oneshot;
use vmcp_config::{Config, OptimTool};
use vmcp_model::catalog::CatalogTool;
use vmcp_model::names::COMPOSITE;
use vmcp_store::SearchDay;

use super::calls::{CallObserver, CallRecord, Origin, Outcome};
use super::tool_metrics::verdict;
use crate::access::context_key::ContextKey;
use crate::access::identity::PrincipalKey;
use crate::metrics::Metrics;
use crate::random::now_ms;
use crate::telemetry::tool_metrics::ToolKey;
use crate::telemetry::tool_metrics::search_days::SearchDays;
use reading::LogReading;
use sequels::SequelBook;

/// Entries that wait for the thread, which takes them out 5 times a second: at most 16 MiB.
const QUEUE_CAPACITY: usize = 4096;
/// Bytes of a query, and of its keywords, that are logged; the rest is cut.
const MAX_TEXT_BYTES: usize = 1000;
/// Tools of a search that are remembered, the first ones.
const MAX_FOUND: usize = 20;

/// Observer of searches and calls. Dropped, it ends its thread, which writes what waits.
#[derive(Debug)]
pub struct QueryLog {
    /// Folder of the database; `None`: the log is kept in memory.
    dir: Option<PathBuf>,
    metrics: Arc<Metrics>,
    /// Sums of days, which the recorder of tool metrics writes.
    days: Arc<SearchDays>,
    settings: Arc<ArcSwap<Settings>>,
    book: Arc<ArcSwap<SequelBook>>,
    /// The queue to the thread; empty until the first search, or until the configuration needs the thread.
    thread: OnceLock<Thread>,
}

/// Settings in force.
#[derive(Debug, Default, Clone)]
struct Settings {
    log: vmcp_config::QueryLog,
    /// True if the tools that follow a tool are counted: recommend_tools shows them.
    counts_sequels: bool,
}

#[derive(Debug)]
struct Thread {
    queue: SyncSender<Entry>,
    /// Makes the thread look into the queue at once.
    wake: Sender<()>,
}

/// An entry of the queue.
enum Entry {
    Search(Searched),
    Call(Called),
    /// Reads the log since a time, at most so many searches.
    Read(i64, usize, oneshot::Sender<LogReading>),
    /// Answers when everything before it is written.
    Flush(oneshot::Sender<()>),
}

/// A client, as searches and calls are matched: a context or session of a principal, else the principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Client {
    principal: PrincipalKey,
    context: Option<ContextKey>,
}

/// A search of a client.
struct Searched {
    client: Client,
    /// Time of the search, in milliseconds since the Unix epoch.
    at: i64,
    /// Tools found, best first.
    found: Vec<ToolKey>,
    /// Description and keywords; `None`: the search is counted, and not logged.
    words: Option<[Box<str>; 2]>,
}

/// A call of a client.
struct Called {
    client: Client,
    at: i64,
    tool: Arc<CatalogTool>,
    succeeded: bool,
}

/// Counters of searches: since the start of the process, and of each day.
struct SearchCounts {
    metrics: Arc<Metrics>,
    days: Arc<SearchDays>,
}

impl SearchCounts {
    /// Counts searches whose time for a call has ended.
    fn ended_without_call(&self, searches: usize) {
        if searches > 0 {
            let searches = searches as u64;
            self.metrics.searches_without_call.inc_by(searches);
            self.days.add(SearchDay { day: now_ms(), without_call: searches, ..SearchDay::default() });
        }
    }
}

/// A search as its handler knows it.
#[derive(Debug)]
pub struct ClientSearch<'a> {
    /// The principal that searched.
    pub principal: PrincipalKey,
    /// Its context or session.
    pub context: Option<ContextKey>,
    /// Description of the task.
    pub description: &'a str,
    /// Keywords; empty without any.
    pub keywords: &'a str,
}

impl QueryLog {
    /// Makes a log that is off.
    pub(crate) fn new(dir: Option<PathBuf>, metrics: &Arc<Metrics>, days: &Arc<SearchDays>) -> Arc<QueryLog> {
        Arc::new(QueryLog {
            dir,
            metrics: Arc::clone(metrics),
            days: Arc::clone(days),
            settings: Arc::default(),
            book: Arc::default(),
            thread: OnceLock::new(),
        })
    }

    /// Puts the settings of a configuration in force.
    pub(crate) fn configure(&self, config: &Config) {
        let optimizer = &config.optimizer;
        let counts_sequels = optimizer.enabled && optimizer.tools.contains(&OptimTool::RecommendTools);
        let mut log = optimizer.query_log.clone();
        log.enabled &= optimizer.enabled;
        let starts = log.enabled || counts_sequels;
        self.settings.store(Arc::new(Settings { log, counts_sequels }));
        if starts {
            self.thread();
        }
    }

    /// Returns the thread's queue; starts the thread the first time.
    fn thread(&self) -> &Thread {
        self.thread.get_or_init(|| {
            let (queue, entries) = mpsc::sync_channel(QUEUE_CAPACITY);
            let (wake, woken) = mpsc::channel();
            let dir = self.dir.clone();
            let (settings, book) = (Arc::clone(&self.settings), Arc::clone(&self.book));
            let counts = SearchCounts { metrics: Arc::clone(&self.metrics), days: Arc::clone(&self.days) };
            let run = move || writer::run(dir.as_deref(), &entries, &woken, &settings, &book, &counts);
            if let Err(error) = std::thread::Builder::new().name("query-log".to_owned()).spawn(run) {
                tracing::error!(%error, "no thread for the query log; searches are not counted");
            }
            Thread { queue, wake }
        })
    }

    /// Takes note of a search of a client, and of the tools that it found, best first.
    pub fn searched(&self, search: &ClientSearch<'_>, found: impl IntoIterator<Item = ToolKey>) {
        let ClientSearch { principal, context, description, keywords } = *search;
        let is_logged = self.settings.load().log.enabled;
        let cut = |text: &str| {
            let text = text.trim();
            text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or(text).into()
        };
        let entry = Searched {
            client: Client { principal, context },
            at: now_ms(),
            found: found.into_iter().take(MAX_FOUND).collect(),
            words: is_logged.then(|| [cut(description), cut(keywords)]),
        };
        self.days.add(SearchDay {
            day: entry.at,
            searches: 1,
            without_result: u64::from(entry.found.is_empty()),
            ..SearchDay::default()
        });
        self.metrics.searches.inc();
        if entry.found.is_empty() {
            self.metrics.searches_without_result.inc();
        }
        if self.thread().queue.try_send(Entry::Search(entry)).is_err() {
            tracing::debug!("a search was not logged: the queue is full");
        }
    }

    /// Counts tokens that the answer of a search cost less than the definitions of all tools.
    pub fn saved(&self, tokens: u64) {
        self.days.add(SearchDay { day: now_ms(), tokens_saved: tokens, ..SearchDay::default() });
    }

    /// Returns the tools that often followed a tool within a session of this principal, the most frequent
    /// first. Clients without an identity share their sessions.
    pub fn often_followed_by(&self, principal: PrincipalKey, tool: &ToolKey) -> Vec<ToolKey> {
        if !self.settings.load().counts_sequels {
            return Vec::new();
        }
        self.book.load().often_followed_by(principal.owner().as_ref(), tool)
    }

    /// True if searches are logged.
    pub fn is_enabled(&self) -> bool {
        self.settings.load().log.enabled
    }

    /// Reads the log since a time, in milliseconds since the Unix epoch: the newest `limit` searches.
    /// Empty while nothing was logged in this process, and without its thread.
    pub async fn read(&self, since: i64, limit: usize) -> LogReading {
        let (answer, answered) = oneshot::channel();
        self.ask(Entry::Read(since, limit, answer));
        answered.await.unwrap_or_default()
    }

    /// Waits until everything that was observed before is written.
    pub async fn flush(&self) {
        let (answer, answered) = oneshot::channel();
        self.ask(Entry::Flush(answer));
        // Without the thread there is nothing to wait for.
        let _ = answered.await;
    }

    /// Sends an entry with a channel for the answer. A dropped entry ends the wait.
    fn ask(&self, entry: Entry) {
        if let Some(thread) = self.thread.get()
            && thread.queue.try_send(entry).is_ok()
        {
            let _ = thread.wake.send(());
        }
    }
}

impl CallObserver for QueryLog {
    fn observe(&self, record: &CallRecord) {
        // No search came before, and nothing counts what follows a tool.
        let Some(thread) = self.thread.get() else { return };
        let Some(tool) = &record.tool else { return };
        let Some(succeeded) = verdict(record).or_else(|| verdict_of_composite(tool, record)) else { return };
        if !matches!(record.origin, Origin::Client | Origin::CallTool | Origin::Script) {
            return;
        }
        let context = record.context.or(record.session.map(ContextKey::Session));
        let client = Client { principal: record.principal.key(), context };
        let call = Called { client, at: now_ms(), tool: Arc::clone(tool), succeeded };
        // No wake: one for each call would cost more than the call's own bookkeeping.
        if thread.queue.try_send(Entry::Call(call)).is_err() {
            tracing::debug!("a call was not matched with its search: the queue is full");
        }
    }
}

/// Returns true for a successful and false for a failed run of a composite tool. The steps of a run send its
/// requests, so that its own record has none, and [`verdict`] returns `None`.
fn verdict_of_composite(tool: &CatalogTool, record: &CallRecord) -> Option<bool> {
    if &*tool.backend != COMPOSITE || record.pending {
        return None;
    }
    match record.outcome {
        Outcome::Ok => Some(true),
        Outcome::ToolError | Outcome::RpcError => Some(false),
        Outcome::Denied | Outcome::Cancelled | Outcome::Failed(_) => None,
    }
}
