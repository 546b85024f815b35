//! [`SpanQueue`]: a bounded number of spans that wait for the collector; further spans are dropped and
//! counted.
//!
//! A span is encoded when it ends, by the thread that ends it, which has the span in its cache and frees it.
//! The thread that exports finds bytes. The SDK's batch processor moves each span, half a kilobyte with an
//! allocation for each attribute, to that thread first, and counts no drops.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use opentelemetry::Context;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use parking_lot::{Condvar, Mutex};
use prost::Message as _;

use super::span_message::{ResourceMessage, SpanBatch};
use crate::telemetry::otlp::losses::{CollectorState, Signal};

/// Spans that wait for the collector, those of the request under way included.
const MAX_WAITING_SPANS: usize = 2_048;
/// Spans of one request.
const BATCH: usize = 512;
/// Bytes of one request: 1 MiB, a quarter of the usual limit of a collector. The span that passes it is the
/// last one.
const BATCH_BYTES: usize = 1 << 20;
/// Longest time between the end of a span and its export.
const DELAY: Duration = Duration::from_secs(5);
/// Longest wait of a flush.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Takes spans that have ended; a thread sends them.
pub(super) struct SpanQueue {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Batches that take no further spans, the oldest first.
    full: VecDeque<SpanBatch>,
    /// The batch that takes the next span.
    open: SpanBatch,
    /// Spans of all batches, those of the request under way included.
    spans: usize,
    resource: Arc<ResourceMessage>,
    /// Flushes that wait for the end of an export.
    flushes: Vec<mpsc::Sender<OTelSdkResult>>,
    is_ended: bool,
}

impl Waiting {
    fn is_due(&self) -> bool {
        !self.full.is_empty() || !self.flushes.is_empty()
    }

    /// Lets no further span into the open batch.
    fn close_batch(&mut self) {
        if self.open.count() > 0 {
            self.full.push_back(std::mem::take(&mut self.open));
        }
    }
}

impl SpanQueue {
    /// Starts the thread that exports. `send` sends an `ExportTraceServiceRequest` and returns the answer.
    pub(super) fn start<S>(send: S) -> io::Result<Self>
    where
        S: Fn(Bytes) -> Result<Bytes, String> + Send + 'static,
    {
        let shared = Arc::<Shared>::default();
        let thread = ExportThread {
            shared: Arc::clone(&shared),
            collector: CollectorState::new(Signal::Traces),
            send,
        };
        std::thread::Builder::new().name("vmcp-traces".to_owned()).spawn(move || thread.run())?;
        Ok(Self { shared })
    }

    /// Has all spans exported and waits for the end of that; the last flush ends the thread.
    fn flush(&self, is_last: bool, timeout: Duration) -> OTelSdkResult {
        let (flush, flushed) = mpsc::channel();
        let mut waiting = self.shared.waiting.lock();
        if waiting.is_ended {
            return Err(OTelSdkError::AlreadyShutdown);
        }
        waiting.flushes.push(flush);
        waiting.is_ended = is_last;
        drop(waiting);
        self.shared.changed.notify_one();
        flushed.recv_timeout(timeout).unwrap_or_else(|error| {
            Err(match error {
                RecvTimeoutError::Timeout => OTelSdkError::Timeout(timeout),
                RecvTimeoutError::Disconnected => {
                    OTelSdkError::InternalFailure("the thread that exports spans has ended".to_owned())
                }
            })
        })
    }
}

impl fmt::Debug for SpanQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanQueue").field("spans", &self.shared.waiting.lock().spans).finish()
    }
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        let mut waiting = self.shared.waiting.lock();
        if waiting.spans >= MAX_WAITING_SPANS || waiting.is_ended {
            drop(waiting);
            Signal::Traces.lose(1);
            return;
        }
        waiting.spans += 1;
        waiting.open.add(&span);
        if waiting.open.count() < BATCH && waiting.open.bytes() < BATCH_BYTES {
            return;
        }
        waiting.close_batch();
        drop(waiting);
        self.shared.changed.notify_one();
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.flush(false, FLUSH_TIMEOUT)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.flush(true, timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.shared.waiting.lock().resource = Arc::new(resource.into());
    }
}

/// The thread that exports.
struct ExportThread<S> {
    shared: Arc<Shared>,
    collector: CollectorState,
    send: S,
}

impl<S: Fn(Bytes) -> Result<Bytes, String>> ExportThread<S> {
    /// Exports full batches at once, other spans at an interval and at a flush, until the last flush.
    fn run(self) {
        // Spans and log lines of an export would cause another one.
        let _suppressed = Context::enter_telemetry_suppressed_scope();
        let mut due = Instant::now() + DELAY;
        loop {
            let mut waiting = self.shared.waiting.lock();
            let wait = self.shared.changed.wait_while_until(&mut waiting, |it| !it.is_due(), due);
            let flushes = std::mem::take(&mut waiting.flushes);
            if wait.timed_out() || !flushes.is_empty() {
                waiting.close_batch();
                due = Instant::now() + DELAY;
            }
            let batches = std::mem::take(&mut waiting.full);
            let resource = Arc::clone(&waiting.resource);
            let is_ended = waiting.is_ended;
            drop(waiting);
            let mut failure = None;
            for batch in batches {
                failure = self.export(batch, &resource).err().or(failure);
            }
            for flush in flushes {
                let outcome = failure.clone().map_or(Ok(()), |why| Err(OTelSdkError::InternalFailure(why)));
                // The flush may have waited long enough.
                let _ = flush.send(outcome);
            }
            if is_ended {
                return;
            }
        }
    }

    /// Sends a batch and counts the spans that the collector does not take.
    fn export(&self, batch: SpanBatch, resource: &ResourceMessage) -> Result<(), String> {
        let spans = batch.count();
        let answered = (self.send)(batch.into_request(resource).into());
        self.shared.waiting.lock().spans -= spans;
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

/// Returns the number of spans that the collector rejected, with its reason; `None` if it took all.
fn rejection(answer: &[u8]) -> Option<(usize, String)> {
    let partial = ExportTraceServiceResponse::decode(answer).ok()?.partial_success?;
    let rejected = usize::try_from(partial.rejected_spans).ok().filter(|count| *count > 0)?;
    Some((rejected, partial.error_message))
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{Tracer as _, TracerProvider as _};
    use opentelemetry_proto::tonic::collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceRequest,
    };
    use opentelemetry_sdk::trace::SdkTracerProvider;

    use super::*;

    /// Starts a provider whose requests are answered by `answer`, and told by their number of spans.
    fn provider(
        answer: impl Fn() -> Result<Bytes, String> + Send + 'static,
    ) -> (SdkTracerProvider, mpsc::Receiver<usize>) {
        let (tell, told) = mpsc::channel();
        let send = move |request: Bytes| {
            let request = ExportTraceServiceRequest::decode(request).unwrap();
            let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
            // The test may have ended.
            let _ = tell.send(scopes.map(|scope| scope.spans.len()).sum());
            answer()
        };
        let queue = SpanQueue::start(send).unwrap();
        (SdkTracerProvider::builder().with_span_processor(queue).build(), told)
    }

    #[test]
    fn spans_beyond_the_queue_are_dropped_and_counted() {
        let further = 100;
        let (allow, allowed) = mpsc::channel::<()>();
        let allowed = Mutex::new(allowed);
        let (provider, told) = provider(move || {
            // The end of the test allows all of them.
            let _ = allowed.lock().recv();
            Ok(Bytes::new())
        });
        let tracer = provider.tracer("test");
        let before = Signal::Traces.lost();
        for _ in 0..MAX_WAITING_SPANS + further {
            drop(tracer.start("a span"));
        }
        // Other tests of the process may lose spans too.
        assert!(Signal::Traces.lost() - before >= further as u64);
        drop(allow);
        provider.shutdown().unwrap();
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [BATCH; 4]);
    }

    #[test]
    fn a_flush_exports_the_spans_that_wait_and_reports_a_failure() {
        let (provider, told) = provider(|| Err("it is down".to_owned()));
        let tracer = provider.tracer("test");
        (0..3).for_each(|_| drop(tracer.start("a span")));
        let before = Signal::Traces.lost();
        let failed = provider.force_flush().unwrap_err().to_string();
        assert!(failed.contains("it is down"), "{failed}");
        assert!(Signal::Traces.lost() - before >= 3);
        assert_eq!(told.recv().unwrap(), 3);
        provider.shutdown().unwrap();
        assert!(told.recv().is_err(), "nothing is left, and the thread has ended");
    }

    #[test]
    fn spans_that_the_collector_rejects_are_lost() {
        let (provider, _told) = provider(|| {
            let partial_success =
                ExportTracePartialSuccess { rejected_spans: 2, error_message: "too old".to_owned() };
            let answer = ExportTraceServiceResponse { partial_success: Some(partial_success) };
            Ok(answer.encode_to_vec().into())
        });
        let tracer = provider.tracer("test");
        (0..3).for_each(|_| drop(tracer.start("a span")));
        let before = Signal::Traces.lost();
        let failed = provider.force_flush().unwrap_err().to_string();
        assert!(failed.contains("rejected 2 of 3 spans: too old"), "{failed}");
        assert!(Signal::Traces.lost() - before >= 2);
    }

    #[test]
    fn a_large_span_ends_its_batch() {
        let (provider, told) = provider(|| Ok(Bytes::new()));
        let tracer = provider.tracer("test");
        drop(tracer.span_builder("n".repeat(BATCH_BYTES)).start(&tracer));
        assert_eq!(told.recv_timeout(DELAY / 2), Ok(1), "it does not wait for others");
        provider.shutdown().unwrap();
    }
}
