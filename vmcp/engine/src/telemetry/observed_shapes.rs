//! [`ObservedShapes`]: learns the shapes of the results of tools without `outputSchema`, by backend
//! and hash of the definition, and shows them in the tools' signatures.
//!
//! The request path never waits: it samples successful results, hands small ones to a thread through a
//! bounded queue, and drops a result when the queue is full. The thread parses them, keeps their types and
//! keys ([`Shape`]), and writes them to `state.db`. [`book`] has the shapes that requests read.

mod book;
mod writer;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use vmcp_model::catalog::CatalogTool;
use vmcp_script::shapes::Shape;
use vmcp_wire::payload::Payload;

use crate::access::identity::PrincipalKey;
use book::{ObservedShape, ShapeBook};

/// Largest result that is looked at, in bytes.
const MAX_RESULT: usize = 32 << 10;
/// Results of a tool that are all looked at; of later ones, one in [`SAMPLING`].
const FIRST_RESULTS: u64 = 32;
/// Later results of which one is looked at, chosen at random: a counter would miss a tool that is always
/// called in turn with another.
const SAMPLING: u64 = 16;
/// Results that wait for the thread: at most 8 MiB.
const QUEUE_CAPACITY: usize = 256;

/// The shapes in force.
type SharedBook = Arc<ArcSwap<ShapeBook>>;

/// Learns and shows shapes. Dropped, it ends its thread.
#[derive(Debug)]
pub struct ObservedShapes {
    book: SharedBook,
    /// Folder of the database; `None`: shapes are kept in memory.
    dir: Option<PathBuf>,
    enabled: AtomicBool,
    /// The queue to the thread; empty until shapes are first switched on.
    queue: OnceLock<SyncSender<Entry>>,
}

/// An entry of the queue.
enum Entry {
    Result {
        tool: Arc<CatalogTool>,
        principal: u64,
        /// The result as JSON, at most [`MAX_RESULT`] bytes; a [`Payload`] would hold the whole answer.
        text: Box<[u8]>,
    },
    /// Answers when everything before it is learned.
    Flush(oneshot::Sender<()>),
}

impl ObservedShapes {
    /// Makes an object that knows nothing; see [`ObservedShapes::enable`].
    pub(crate) fn new(dir: Option<PathBuf>) -> Arc<ObservedShapes> {
        Arc::new(ObservedShapes {
            book: SharedBook::default(),
            dir,
            enabled: AtomicBool::new(false),
            queue: OnceLock::new(),
        })
    }

    /// Switches learning and showing on or off. The first time on, it starts the thread, which loads the
    /// shapes a moment later.
    pub(crate) fn enable(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Relaxed);
        if enabled {
            self.queue.get_or_init(|| {
                let (queue, entries) = mpsc::sync_channel(QUEUE_CAPACITY);
                let (dir, book) = (self.dir.clone(), Arc::clone(&self.book));
                let run = move || writer::run(dir.as_deref(), &entries, &book);
                if let Err(error) = std::thread::Builder::new().name("observed-shapes".to_owned()).spawn(run)
                {
                    tracing::error!(%error, "no thread for observed shapes; none are learned");
                }
                queue
            });
        }
    }

    /// Takes note of a successful result, if it is one of the sample.
    pub fn observe(&self, tool: &Arc<CatalogTool>, principal: &PrincipalKey, result: &Payload) {
        let is_learned = self.enabled.load(Ordering::Relaxed)
            && tool.definition.output_schema.is_none()
            && result.size() <= MAX_RESULT
            && self.is_in_sample(tool);
        let Some(queue) = self.queue.get().filter(|_| is_learned) else { return };
        let entry =
            Entry::Result { tool: Arc::clone(tool), principal: digest(principal), text: result.copied() };
        if queue.try_send(entry).is_err() {
            tracing::debug!("the shape of a result was not learned: the queue is full");
        }
    }

    fn is_in_sample(&self, tool: &CatalogTool) -> bool {
        let is_new = |known: &Arc<ObservedShape>| known.looked_at < FIRST_RESULTS;
        fastrand::u64(..SAMPLING) == 0 || self.book.load().get(&tool.backend, &tool.hash).is_none_or(is_new)
    }

    /// Returns the line for a tool's signature, with the keys that this principal may see; `None` if nothing
    /// was observed, the tool declares its results, or shapes are off.
    pub fn line(&self, tool: &CatalogTool, viewer: &PrincipalKey) -> Option<String> {
        if !self.enabled.load(Ordering::Relaxed) || tool.definition.output_schema.is_some() {
            return None;
        }
        let book = self.book.load();
        let known = book.get(&tool.backend, &tool.hash).filter(|known| known.shape != Shape::default())?;
        let (calls, text) = (known.calls, known.shape.text(digest(viewer)));
        let plural = if calls == 1 { "" } else { "s" };
        Some(format!("observed in {calls} call{plural}, not declared: {text}"))
    }

    /// Waits until everything that was observed before is learned.
    pub async fn flush(&self) {
        let Some(queue) = self.queue.get() else { return };
        let (answer, answered) = oneshot::channel();
        if queue.try_send(Entry::Flush(answer)).is_ok() {
            // Without the thread there is nothing to wait for.
            let _ = answered.await;
        }
    }
}

/// Returns 64 bits of the SHA-256 of a principal's key. It shortens the key and hides nothing: a reader of
/// `state.db` can find an address by trying all.
fn digest(principal: &PrincipalKey) -> u64 {
    let digest = Sha256::digest(format!("shape of {principal}"));
    digest.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)).unwrap_or_default()
}
