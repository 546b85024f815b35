//! [`SpanQueue`]: spans that wait for the collector, bounded by their number and bytes; further spans are
//! dropped and counted.
//!
//! A span is encoded by the threads that it runs on, into the request that will leave: the thread that
//! exports finds bytes, and sends them from where they are. Two buffers take turns. The SDK's batch processor
//! moves each span, half a kilobyte with an allocation for each attribute, to that thread first, and counts
//! no drops.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use opentelemetry::Context;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use parking_lot::{Condvar, Mutex};
use prost::Message as _;

use super::open_span::OpenSpan;
use super::span_message::{ResourceMessage, SpanBatch};
use crate::telemetry::otlp::losses::{CollectorState, Signal};

/// Spans that wait for the collector, those of the request under way included.
const MAX_WAITING_SPANS: usize = 2_048;
/// Bytes of these spans, 8 MiB and the rest of the last one: a `tracestate` of a client has any length.
const MAX_WAITING_BYTES: usize = 8 << 20;
/// Spans of one request.
const BATCH: usize = 512;
/// Bytes of one request: 1 MiB, a quarter of the usual limit of a collector. The span that passes it is the
/// last one.
const BATCH_BYTES: usize = 1 << 20;
/// Longest time between the end of a span and its export.
const DELAY: Duration = Duration::from_secs(5);
/// Longest wait for the last export.
const LAST_EXPORT: Duration = Duration::from_secs(5);

/// Takes spans that have ended; a thread sends them.
pub(super) struct SpanQueue {
    shared: Arc<Shared>,
}

struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

struct Waiting {
    /// Batches that take no further spans, the oldest first.
    full: VecDeque<SpanBatch>,
    /// The batch that takes the next span.
    open: SpanBatch,
    /// Bytes before the spans of each batch.
    room: usize,
    /// Memory of an exported batch, for the next open one.
    spare: Vec<u8>,
    /// Spans of all batches, those of the request under way included.
    spans: usize,
    /// Bytes of these spans.
    bytes: usize,
    /// Flushes that wait for the end of an export.
    flushes: Vec<mpsc::Sender<Result<(), String>>>,
    is_ended: bool,
}

impl Waiting {
    fn new(room: usize) -> Self {
        Self {
            full: VecDeque::new(),
            open: SpanBatch::within(Vec::new(), room),
            room,
            spare: Vec::new(),
            spans: 0,
            bytes: 0,
            flushes: Vec::new(),
            is_ended: false,
        }
    }

    fn is_due(&self) -> bool {
        !self.full.is_empty() || !self.flushes.is_empty() || self.is_ended
    }

    fn is_full(&self) -> bool {
        self.spans >= MAX_WAITING_SPANS || self.bytes >= MAX_WAITING_BYTES
    }

    /// Adds a span that ends at `end` to the open batch.
    fn add(&mut self, span: &OpenSpan, end: SystemTime) {
        let before = self.open.bytes();
        self.open.add(span, end);
        self.spans += 1;
        self.bytes += self.open.bytes() - before;
    }

    /// Frees the memory of earlier batches, unless spans wait.
    fn free_unused(&mut self) {
        if self.spans == 0 {
            self.spare = Vec::new();
            self.open = SpanBatch::within(Vec::new(), self.room);
        }
    }

    /// Lets no further span into the open batch.
    fn close_batch(&mut self) {
        if self.open.count() > 0 {
            let next = SpanBatch::within(std::mem::take(&mut self.spare), self.room);
            self.full.push_back(std::mem::replace(&mut self.open, next));
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
        let waiting = Mutex::new(Waiting::new(resource.room()));
        let shared = Arc::new(Shared { waiting, changed: Condvar::new() });
        let thread = ExportThread {
            shared: Arc::clone(&shared),
            collector: CollectorState::new(Signal::Traces),
            resource,
            send,
        };
        std::thread::Builder::new().name("vmcp-traces".to_owned()).spawn(move || thread.run())?;
        Ok(Self { shared })
    }

    /// Takes a span that ends at `end`, unless it is not sampled.
    pub(super) fn push(&self, span: &OpenSpan, end: SystemTime) {
        if !span.context().is_sampled() {
            return;
        }
        let mut waiting = self.shared.waiting.lock();
        if waiting.is_full() || waiting.is_ended {
            drop(waiting);
            Signal::Traces.lose(1);
            return;
        }
        waiting.add(span, end);
        if waiting.open.count() < BATCH && waiting.open.bytes() < BATCH_BYTES {
            return;
        }
        waiting.close_batch();
        drop(waiting);
        self.shared.changed.notify_one();
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
        f.debug_struct("SpanQueue").field("spans", &self.shared.waiting.lock().spans).finish()
    }
}

/// The thread that exports.
struct ExportThread<S> {
    shared: Arc<Shared>,
    collector: CollectorState,
    resource: ResourceMessage,
    send: S,
}

impl<S: Fn(Bytes) -> Result<Bytes, String>> ExportThread<S> {
    /// Exports full batches at once, other spans at an interval and at a flush, until the last flush.
    fn run(self) {
        // Log lines about an export would cause another one.
        let _suppressed = Context::enter_telemetry_suppressed_scope();
        let mut due = Instant::now() + DELAY;
        loop {
            let mut waiting = self.shared.waiting.lock();
            let wait = self.shared.changed.wait_while_until(&mut waiting, |it| !it.is_due(), due);
            if wait.timed_out() {
                waiting.free_unused();
            }
            let flushes = std::mem::take(&mut waiting.flushes);
            if wait.timed_out() || !flushes.is_empty() {
                waiting.close_batch();
                due = Instant::now() + DELAY;
            }
            let batches = std::mem::take(&mut waiting.full);
            let is_ended = waiting.is_ended;
            drop(waiting);
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
        let spare = memory_of(request);
        let mut waiting = self.shared.waiting.lock();
        waiting.spans -= spans;
        waiting.bytes -= bytes;
        waiting.spare = spare;
        drop(waiting);
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
    if request.len() > BATCH_BYTES {
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

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceRequest,
    };

    use super::super::open_span::Sampling;
    use super::*;

    /// Starts a queue whose requests are answered by `answer`, and told by their number of spans.
    fn queue(
        answer: impl Fn() -> Result<Bytes, String> + Send + 'static,
    ) -> (SpanQueue, mpsc::Receiver<usize>) {
        let (tell, told) = mpsc::channel();
        let send = move |request: Bytes| {
            let request = ExportTraceServiceRequest::decode(request).unwrap();
            let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
            // The test may have ended.
            let _ = tell.send(scopes.map(|scope| scope.spans.len()).sum());
            answer()
        };
        (SpanQueue::start(ResourceMessage::default(), send).unwrap(), told)
    }

    fn push(queue: &SpanQueue, spans: usize, share: f64) {
        for _ in 0..spans {
            queue.push(&OpenSpan::begin("a span", None, Sampling::new(share)), SystemTime::now());
        }
    }

    #[test]
    fn spans_beyond_the_queue_are_dropped_and_counted() {
        let further = 100;
        let (allow, allowed) = mpsc::channel::<()>();
        let allowed = Mutex::new(allowed);
        let (queue, told) = queue(move || {
            // The end of the test allows all of them.
            let _ = allowed.lock().recv();
            Ok(Bytes::new())
        });
        let before = Signal::Traces.lost();
        push(&queue, MAX_WAITING_SPANS + further, 1.0);
        // Other tests of the process may lose spans too.
        assert!(Signal::Traces.lost() - before >= further as u64);
        drop(allow);
        queue.finish().unwrap();
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [BATCH; 4]);
    }

    #[test]
    fn large_spans_are_bounded_by_their_bytes() {
        let (allow, allowed) = mpsc::channel::<()>();
        let allowed = Mutex::new(allowed);
        let (queue, told) = queue(move || {
            // The end of the test allows all of them.
            let _ = allowed.lock().recv();
            Ok(Bytes::new())
        });
        let mut large = OpenSpan::begin("a span", None, Sampling::new(1.0));
        large.rename(&[&"n".repeat(BATCH_BYTES)]);
        let (fit, further) = (MAX_WAITING_BYTES / BATCH_BYTES, 5);
        let before = Signal::Traces.lost();
        for _ in 0..fit + further {
            queue.push(&large, SystemTime::now());
        }
        // Other tests of the process may lose spans too.
        assert!(Signal::Traces.lost() - before >= further as u64);
        drop(allow);
        queue.flush(false).unwrap();
        assert_eq!(told.try_iter().sum::<usize>(), fit);
        queue.push(&large, SystemTime::now());
        queue.finish().unwrap();
        assert_eq!(told.try_iter().sum::<usize>(), 1, "exported spans make room");
    }

    #[test]
    fn an_idle_queue_keeps_no_memory() {
        let mut waiting = Waiting::new(10);
        waiting.add(&OpenSpan::begin("a span", None, Sampling::new(1.0)), SystemTime::now());
        waiting.spare = Vec::with_capacity(1000);
        waiting.free_unused();
        assert_eq!((waiting.open.count(), waiting.spare.capacity()), (1, 1000), "a span waits");
        waiting.close_batch();
        (waiting.spans, waiting.spare) = (0, Vec::with_capacity(1000));
        waiting.free_unused();
        assert_eq!(waiting.spare.capacity(), 0);
    }

    #[test]
    fn a_flush_exports_the_spans_that_wait_and_reports_a_failure() {
        let (queue, told) = queue(|| Err("it is down".to_owned()));
        push(&queue, 3, 1.0);
        let before = Signal::Traces.lost();
        assert_eq!(queue.flush(false), Err("it is down".to_owned()));
        assert!(Signal::Traces.lost() - before >= 3);
        assert_eq!(told.recv().unwrap(), 3);
        queue.finish().unwrap();
        assert!(told.recv().is_err(), "nothing is left, and the thread has ended");
    }

    #[test]
    fn spans_that_are_not_sampled_are_not_exported() {
        let (queue, told) = queue(|| Ok(Bytes::new()));
        push(&queue, 2 * MAX_WAITING_SPANS, 0.0);
        queue.finish().unwrap();
        assert!(told.recv().is_err());
    }

    #[test]
    fn spans_that_the_collector_rejects_are_lost() {
        let (queue, _told) = queue(|| {
            let partial_success =
                ExportTracePartialSuccess { rejected_spans: 2, error_message: "too old".to_owned() };
            let answer = ExportTraceServiceResponse { partial_success: Some(partial_success) };
            Ok(answer.encode_to_vec().into())
        });
        push(&queue, 3, 1.0);
        let before = Signal::Traces.lost();
        let failed = queue.flush(false).unwrap_err();
        assert_eq!(failed, "the collector rejected 2 of 3 spans: too old");
        assert!(Signal::Traces.lost() - before >= 2);
    }

    #[test]
    fn a_large_span_ends_its_batch() {
        let (queue, told) = queue(|| Ok(Bytes::new()));
        let mut span = OpenSpan::begin("a span", None, Sampling::new(1.0));
        span.rename(&[&"n".repeat(BATCH_BYTES)]);
        queue.push(&span, SystemTime::now());
        assert_eq!(told.recv_timeout(DELAY / 2), Ok(1), "it does not wait for others");
    }

    #[test]
    fn the_memory_of_a_request_is_used_again_once_it_was_sent() {
        let mut memory = Vec::with_capacity(10_000);
        memory.extend_from_slice(b"a request");
        let place = memory.as_ptr();
        let request = Bytes::from(memory).slice(2..);
        let reader = request.clone();
        assert_eq!(memory_of(request).capacity(), 0, "the connection has it");
        let memory = memory_of(reader);
        assert_eq!((memory.as_ptr(), memory.len(), memory.capacity()), (place, 0, 10_000));
        assert_eq!(memory_of(vec![0_u8; BATCH_BYTES + 1].into()).capacity(), 0, "a huge span");
    }

    #[test]
    fn a_queue_that_is_dropped_ends_its_thread() {
        let (queue, told) = queue(|| Ok(Bytes::new()));
        drop(queue);
        assert!(told.recv().is_err());
    }
}
