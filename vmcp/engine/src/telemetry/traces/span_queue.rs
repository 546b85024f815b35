//! [`SpanQueue`]: spans that wait for the collector, bounded by their bytes; further spans are dropped and
//! counted.
//!
//! A span is encoded by the threads that it runs on, into the request that will leave: the thread that
//! exports finds bytes, and sends them from where they are. Each thread fills a batch of its own, and hands a
//! full one over; the exporting thread takes the others at an interval. The SDK's batch processor moves each
//! span, half a kilobyte with an allocation for each attribute, to that thread first, and counts no drops.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use opentelemetry::Context;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use parking_lot::{Condvar, Mutex};
use prost::Message as _;

use super::open_span::OpenSpan;
use super::span_message::{BATCH_BYTES, ResourceMessage, SpanBatch};
use crate::telemetry::otlp::losses::{CollectorState, Signal};

/// Bytes of spans that wait for the collector, 12 MiB and the rest of the last spans: a `tracestate` of a
/// client has any length.
const MAX_WAITING_BYTES: usize = 12 << 20;
/// Bytes of full batches from which on threads hand no batch over. Beside these wait the batch that passed
/// the limit, the open batches that the interval took, and those that were filled since.
const MAX_FULL_BYTES: usize = MAX_WAITING_BYTES - (2 * SHARDS + 1) * BATCH_BYTES;
/// Number of open batches. More threads than these share them.
const SHARDS: usize = 8;
/// Bytes of the memory of a full batch, unless its last span is a large one.
const USUAL_BYTES: usize = BATCH_BYTES + (32 << 10);
/// Most bytes of a request whose memory is used again: a full batch with a last span of a usual size.
const MAX_REUSED_BYTES: usize = 2 * BATCH_BYTES;
/// Most buffers of exported batches that wait for the next ones.
const MAX_SPARES: usize = 4;
/// Longest time between the end of a span and its export.
const DELAY: Duration = Duration::from_secs(5);
/// Longest wait for the last export.
const LAST_EXPORT: Duration = Duration::from_secs(5);

/// Number of threads that have ended a span.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The place of the thread's open batch.
    static SHARD: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS;
}

/// Takes spans that have ended; a thread sends them.
pub(super) struct SpanQueue {
    shared: Arc<Shared>,
}

struct Shared {
    shards: [Shard; SHARDS],
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

/// An open batch, in cache lines of its own: a line that two threads write moves between their processors.
#[repr(align(128))]
struct Shard {
    open: Mutex<OpenBatch>,
}

/// A batch that takes the next span of its threads.
struct OpenBatch {
    spans: SpanBatch,
    /// True after the last export.
    is_closed: bool,
}

struct Waiting {
    /// Batches that take no further spans, the oldest first.
    full: VecDeque<SpanBatch>,
    /// Bytes of the full batches, those of the request under way included.
    bytes: usize,
    /// Bytes before the spans of each batch.
    room: usize,
    /// Memory of exported batches, for the next open ones.
    spares: Vec<Vec<u8>>,
    /// Flushes that wait for the end of an export.
    flushes: Vec<mpsc::Sender<Result<(), String>>>,
    is_ended: bool,
}

impl Waiting {
    fn new(room: usize) -> Self {
        let (full, spares, flushes) = (VecDeque::new(), Vec::new(), Vec::new());
        Self { full, bytes: 0, room, spares, flushes, is_ended: false }
    }

    fn is_due(&self) -> bool {
        !self.full.is_empty() || !self.flushes.is_empty() || self.is_ended
    }

    /// Takes the spans of an open batch: into the last batch if there is room, so that few spans of many
    /// threads make one request. A full batch goes on in other memory.
    fn take(&mut self, open: &mut SpanBatch) {
        self.bytes += open.bytes();
        if let Some(last) = self.full.back_mut()
            && last.bytes() + open.bytes() <= BATCH_BYTES
        {
            return last.append(open);
        }
        // The threads of a full batch fill the next one too: memory that grows would be copied.
        let usual = if open.is_full() { USUAL_BYTES } else { 0 };
        let memory = self.spares.pop().unwrap_or_else(|| Vec::with_capacity(usual));
        let next = SpanBatch::within(memory, self.room);
        self.full.push_back(mem::replace(open, next));
    }

    /// Subtracts the bytes of an exported batch, and keeps its memory.
    fn release(&mut self, bytes: usize, memory: Vec<u8>) {
        self.bytes -= bytes;
        if memory.capacity() > 0 && self.spares.len() < MAX_SPARES {
            self.spares.push(memory);
        }
    }
}

impl Shared {
    fn new(room: usize) -> Self {
        let shard = |_: usize| Shard {
            open: Mutex::new(OpenBatch { spans: SpanBatch::within(Vec::new(), room), is_closed: false }),
        };
        Self {
            shards: std::array::from_fn(shard),
            waiting: Mutex::new(Waiting::new(room)),
            changed: Condvar::new(),
        }
    }

    /// Returns the shard of this thread.
    fn shard(&self) -> &Shard {
        let [first, ..] = &self.shards;
        self.shards.get(SHARD.with(|at| *at)).unwrap_or(first)
    }

    /// Hands an open batch to the exporting thread; returns false if too many wait for it.
    fn hand_over(&self, open: &mut SpanBatch) -> bool {
        let mut waiting = self.waiting.lock();
        let fits = waiting.bytes < MAX_FULL_BYTES;
        if fits {
            waiting.take(open);
            drop(waiting);
            self.changed.notify_one();
        }
        fits
    }

    /// Takes the spans of all open batches. `at_interval`, frees the memory of batches that got none.
    fn take_open(&self, at_interval: bool, is_last: bool) {
        let mut has_spans = false;
        for shard in &self.shards {
            let mut open = shard.open.lock();
            open.is_closed |= is_last;
            if open.spans.count() > 0 {
                has_spans = true;
                self.waiting.lock().take(&mut open.spans);
            } else if at_interval {
                open.spans.free();
            }
        }
        if at_interval && !has_spans {
            self.waiting.lock().spares = Vec::new();
        }
    }
}

impl SpanQueue {
    /// Starts the thread that exports spans of this resource. `send` sends an `ExportTraceServiceRequest` and
    /// returns the answer.
    pub(super) fn start<S>(resource: ResourceMessage, send: S) -> io::Result<Self>
    where
        S: Fn(Bytes) -> Result<Bytes, String> + Send + 'static,
    {
        Self::start_with(resource, DELAY, send)
    }

    /// Starts the thread with another interval.
    fn start_with<S>(resource: ResourceMessage, delay: Duration, send: S) -> io::Result<Self>
    where
        S: Fn(Bytes) -> Result<Bytes, String> + Send + 'static,
    {
        let shared = Arc::new(Shared::new(resource.room()));
        let thread = ExportThread {
            shared: Arc::clone(&shared),
            collector: CollectorState::new(Signal::Traces),
            resource,
            delay,
            send,
        };
        std::thread::Builder::new().name("vmcp-traces".to_owned()).spawn(move || thread.run())?;
        Ok(Self { shared })
    }

    /// Takes a span that ends at `end`, once, unless it is not sampled.
    pub(super) fn push(&self, span: &mut OpenSpan, end: SystemTime) {
        if !span.context().is_sampled() {
            return;
        }
        let message = span.encode(end);
        let mut open = self.shared.shard().open.lock();
        // A batch stays full while too many others wait.
        if open.is_closed || (open.spans.is_full() && !self.shared.hand_over(&mut open.spans)) {
            drop(open);
            Signal::Traces.lose(1);
            return;
        }
        open.spans.add(message);
        if open.spans.is_full() {
            self.shared.hand_over(&mut open.spans);
        }
    }

    /// Exports the spans that wait and ends the thread. Blocks for at most five seconds.
    pub(super) fn finish(&self) -> Result<(), String> {
        self.flush(true)
    }

    /// Has all spans exported and waits for the end of that; the last flush ends the thread.
    fn flush(&self, is_last: bool) -> Result<(), String> {
        let (flush, flushed) = mpsc::channel();
        let mut waiting = self.shared.waiting.lock();
        if waiting.is_ended {
            return Err("the export of spans has ended".to_owned());
        }
        waiting.flushes.push(flush);
        waiting.is_ended = is_last;
        drop(waiting);
        self.shared.changed.notify_one();
        flushed.recv_timeout(LAST_EXPORT).unwrap_or_else(|error| {
            Err(match error {
                RecvTimeoutError::Timeout => "the collector does not answer".to_owned(),
                RecvTimeoutError::Disconnected => "the thread that exports spans has ended".to_owned(),
            })
        })
    }
}

impl Drop for SpanQueue {
    /// Ends the thread, if [`finish`](SpanQueue::finish) did not.
    fn drop(&mut self) {
        self.shared.waiting.lock().is_ended = true;
        self.shared.changed.notify_one();
    }
}

impl fmt::Debug for SpanQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.shared.waiting.lock().bytes;
        f.debug_struct("SpanQueue").field("bytes", &bytes).finish_non_exhaustive()
    }
}

/// The thread that exports.
struct ExportThread<S> {
    shared: Arc<Shared>,
    collector: CollectorState,
    resource: ResourceMessage,
    /// Longest time between the end of a span and its export.
    delay: Duration,
    send: S,
}

impl<S: Fn(Bytes) -> Result<Bytes, String>> ExportThread<S> {
    /// Exports full batches at once, other spans at an interval and at a flush, until the last flush.
    fn run(self) {
        // Log lines about an export would cause another one.
        let _suppressed = Context::enter_telemetry_suppressed_scope();
        let mut due = Instant::now() + self.delay;
        loop {
            let mut waiting = self.shared.waiting.lock();
            let wait = self.shared.changed.wait_while_until(&mut waiting, |it| !it.is_due(), due);
            // Full batches of busy threads end each wait early; the spans of other threads are due as well.
            let at_interval = wait.timed_out() || Instant::now() >= due;
            let is_ended = waiting.is_ended;
            let flushes = mem::take(&mut waiting.flushes);
            drop(waiting);
            if at_interval || is_ended || !flushes.is_empty() {
                self.shared.take_open(at_interval, is_ended);
                due = Instant::now() + self.delay;
            }
            let batches = mem::take(&mut self.shared.waiting.lock().full);
            let mut failure = None;
            for batch in batches {
                failure = self.export(batch).err().or(failure);
            }
            for flush in flushes {
                // The flush may have waited long enough.
                let _ = flush.send(failure.clone().map_or(Ok(()), Err));
            }
            if is_ended {
                return;
            }
        }
    }

    /// Sends a batch and counts the spans that the collector does not take.
    fn export(&self, batch: SpanBatch) -> Result<(), String> {
        let (spans, bytes) = (batch.count(), batch.bytes());
        let request = batch.into_request(&self.resource);
        let answered = (self.send)(request.clone());
        let memory = memory_of(request);
        self.shared.waiting.lock().release(bytes, memory);
        let (exported, lost) = match answered.as_deref().map(rejection) {
            Ok(None) => (Ok(()), 0),
            Ok(Some((rejected, why))) => {
                (Err(format!("the collector rejected {rejected} of {spans} spans: {why}")), rejected)
            }
            Err(why) => (Err(why.clone()), spans),
        };
        self.collector.note(&exported, lost);
        exported
    }
}

/// Returns the memory of a request that was sent. New memory, if the connection still reads the old one or a
/// huge span is in it.
fn memory_of(request: Bytes) -> Vec<u8> {
    if request.len() > MAX_REUSED_BYTES {
        return Vec::new();
    }
    let reused = request.try_into_mut().map(|mut bytes| {
        // So that no bytes are moved.
        bytes.clear();
        Vec::from(bytes)
    });
    reused.unwrap_or_default()
}

/// Returns the number of spans that the collector rejected, with its reason; `None` if it took all.
fn rejection(answer: &[u8]) -> Option<(usize, String)> {
    let partial = ExportTraceServiceResponse::decode(answer).ok()?.partial_success?;
    let rejected = usize::try_from(partial.rejected_spans).ok().filter(|count| *count > 0)?;
    Some((rejected, partial.error_message))
}
