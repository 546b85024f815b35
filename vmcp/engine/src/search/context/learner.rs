//! [`Learner`]: observes calls within a context, and has a thread learn from them.
//!
//! The request path never waits: a use goes into a bounded queue, and is lost when the queue is full. Only
//! successful calls teach, failed calls do not.

mod pairs;

use std::path::PathBuf;
use std::sync::mpsc::{self, Sender, SyncSender};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use tokio::sync::oneshot;
use vmcp_search::learning::{LearnedPair, LearningMode, Signal};

use super::{Contexts, Learned, QueryEmbedding};
use crate::access::context_key::ContextKey;
use crate::telemetry::calls::{CallObserver, CallRecord, Outcome};
use crate::telemetry::tool_metrics::ToolKey;

/// Uses that wait for the thread, which takes them out 5 times a second.
const QUEUE_CAPACITY: usize = 4096;

/// The pairs in force.
type SharedPairs = Arc<ArcSwap<Learned>>;

/// Observer that learns from the use of tools, and remembers the latest calls of each context. Dropped, it
/// ends its thread, which writes what waits.
#[derive(Debug)]
pub struct Learner {
    contexts: Arc<Contexts>,
    pairs: SharedPairs,
    /// Folder of the database; `None`: pairs are kept in memory.
    dir: Option<PathBuf>,
    /// The queue to the thread; empty until learning is first switched on.
    thread: OnceLock<Thread>,
}

#[derive(Debug)]
struct Thread {
    queue: SyncSender<Entry>,
    /// Makes the thread look into the queue at once; its disconnection ends the thread.
    wake: Sender<()>,
}

/// An entry of the queue.
enum Entry {
    Use(ToolUse),
    /// Takes over pairs that another replica learned, unless they were used here later.
    Adopt(Vec<LearnedPair<ToolKey>>),
    /// Answers when everything before it is learned.
    Flush(oneshot::Sender<()>),
}

/// A tool that was used within a context.
struct ToolUse {
    query: Arc<str>,
    stores_text: bool,
    embedding: QueryEmbedding,
    tool: ToolKey,
    /// The identity that used the tool; `None` of a client without one.
    owner: Option<Arc<str>>,
    mode: LearningMode,
    signal: Signal,
    /// True if a search within the context had found the tool first.
    was_first: bool,
    /// Time of the use, in milliseconds.
    at: i64,
}

impl Learner {
    /// Makes a learner that knows nothing; see [`Learner::enable`].
    pub(crate) fn new(contexts: Arc<Contexts>, dir: Option<PathBuf>) -> Arc<Learner> {
        Arc::new(Learner { contexts, pairs: SharedPairs::default(), dir, thread: OnceLock::new() })
    }

    /// Starts the thread and loads the pairs, unless that was done before. Pairs are there a moment later.
    pub(crate) fn enable(&self) {
        self.thread.get_or_init(|| {
            let (queue, entries) = mpsc::sync_channel(QUEUE_CAPACITY);
            let (wake, woken) = mpsc::channel();
            let (dir, pairs) = (self.dir.clone(), Arc::clone(&self.pairs));
            let run = move || pairs::run(dir.as_deref(), &entries, &woken, &pairs);
            if let Err(error) = std::thread::Builder::new().name("learning".to_owned()).spawn(run) {
                tracing::error!(%error, "no thread for learning; nothing is learned");
            }
            Thread { queue, wake }
        });
    }

    /// Returns the pairs as last written; a use is in them within a second.
    pub fn learned(&self) -> Arc<Learned> {
        self.pairs.load_full()
    }

    /// Takes over pairs that another replica learned, unless they were used here later. Nothing happens while
    /// learning is off.
    pub(crate) fn adopt(&self, pairs: Vec<LearnedPair<ToolKey>>) {
        let learned = self.learned();
        let is_new = |pair: &LearnedPair<ToolKey>| {
            learned.get(&pair.id).is_none_or(|known| known.last_used < pair.last_used)
        };
        let new: Vec<_> = pairs.into_iter().filter(is_new).collect();
        if let Some(thread) = self.thread.get().filter(|_| !new.is_empty())
            && thread.queue.try_send(Entry::Adopt(new)).is_err()
        {
            tracing::debug!("pairs of another replica were not taken over: the queue is full");
        }
    }

    /// Waits until everything that was observed before is learned.
    pub async fn flush(&self) {
        let Some(thread) = self.thread.get() else { return };
        let (answer, answered) = oneshot::channel();
        if thread.queue.try_send(Entry::Flush(answer)).is_ok() && thread.wake.send(()).is_ok() {
            // Without the thread there is nothing to wait for.
            let _ = answered.await;
        }
    }

    /// Remembers a call in the client's context, also where nothing is learned. Costs a look at an empty
    /// table where no client has a context.
    fn remember(&self, record: &CallRecord) {
        let Some(tool) = record.tool.as_ref().filter(|_| record.requests > 0) else { return };
        let Some(key) = record.context.or(record.session.map(ContextKey::Session)) else { return };
        self.contexts.with(key, record.principal.key(), |context| {
            context.calls((Arc::clone(&tool.backend), tool.definition.name.as_str().into()));
        });
    }

    /// Returns the use that a call was, if there is anything to learn from it.
    fn tool_use(&self, record: &CallRecord) -> Option<ToolUse> {
        let tool = record.tool.as_ref()?;
        if record.outcome != Outcome::Ok || record.requests == 0 || record.pending {
            return None;
        }
        let key = record.context.or(record.session.map(ContextKey::Session))?;
        let used: ToolKey = (Arc::clone(&tool.backend), tool.definition.name.as_str().into());
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.contexts
            .with(key, record.principal.key(), |context| {
                let embedding = context.embedding.clone().filter(|_| context.learns)?;
                Some(ToolUse {
                    query: Arc::clone(&context.query),
                    stores_text: context.stores_text,
                    embedding,
                    owner: record.principal.key().owner(),
                    mode: context.mode,
                    signal: Signal::of_use(context.found.contains(&used), context.listed.contains(&used)),
                    was_first: context.found_first.contains(&used),
                    tool: used,
                    at: i64::try_from(at.as_millis()).unwrap_or(i64::MAX),
                })
            })
            .flatten()
    }
}

impl CallObserver for Learner {
    fn observe(&self, record: &CallRecord) {
        self.remember(record);
        let Some(thread) = self.thread.get() else { return };
        if let Some(used) = self.tool_use(record)
            && thread.queue.try_send(Entry::Use(used)).is_err()
        {
            tracing::debug!("a use of a tool was not learned: the queue is full");
        }
    }
}
