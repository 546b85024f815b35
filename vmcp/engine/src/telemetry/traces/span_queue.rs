//! [`SpanQueue`]: a bounded number of spans that wait for the collector; further spans are dropped and
//! counted.
//!
//! The SDK's batch processor has a queue and a thread of its own, and counts no drops. [`SpanQueue`] stands
//! before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor,
};

use crate::telemetry::otlp::losses::{CollectorState, Signal};

/// Spans that wait for the collector, those of the request under way included.
const MAX_WAITING_SPANS: usize = 2_048;
/// Spans of one request.
const BATCH: usize = 512;

/// The batch processor of the SDK behind a count of the spans that wait.
#[derive(Debug)]
pub(super) struct SpanQueue {
    queue: BatchSpanProcessor,
    waiting: Arc<AtomicUsize>,
}

impl SpanQueue {
    /// Starts the thread that exports batches.
    pub(super) fn new(exporter: impl SpanExporter + 'static) -> Self {
        let waiting = Arc::<AtomicUsize>::default();
        let exporter = CountedExporter {
            exporter,
            waiting: Arc::clone(&waiting),
            collector: CollectorState::new(Signal::Traces),
        };
        let bounds = BatchConfigBuilder::default()
            .with_max_queue_size(MAX_WAITING_SPANS)
            .with_max_export_batch_size(BATCH);
        let queue = BatchSpanProcessor::builder(exporter).with_batch_config(bounds.build()).build();
        Self { queue, waiting }
    }
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.queue.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        // The processor leaves other spans out.
        if !span.span_context.is_sampled() {
            return;
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) < MAX_WAITING_SPANS {
            self.queue.on_end(span);
        } else {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            Signal::Traces.lose(1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.queue.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.queue.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.queue.set_resource(resource);
    }
}

/// An exporter that counts the spans that the collector does not take.
#[derive(Debug)]
struct CountedExporter<E> {
    exporter: E,
    waiting: Arc<AtomicUsize>,
    collector: CollectorState,
}

impl<E: SpanExporter> SpanExporter for CountedExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let exported = self.exporter.export(batch).await;
        self.waiting.fetch_sub(spans, Ordering::Relaxed);
        self.collector.note(&exported, spans);
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use opentelemetry::trace::{Tracer as _, TracerProvider as _};
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use parking_lot::Mutex;

    use super::*;

    /// Takes batches, each as soon as the test allows it.
    #[derive(Debug)]
    struct Slow {
        allowed: Mutex<mpsc::Receiver<()>>,
        taken: Arc<AtomicUsize>,
    }

    impl SpanExporter for Slow {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            // The end of the test allows all of them.
            let _ = self.allowed.lock().recv();
            self.taken.fetch_add(batch.len(), Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn spans_beyond_the_queue_are_dropped_and_counted() {
        let further = 100;
        let (allow, allowed) = mpsc::channel();
        let taken = Arc::<AtomicUsize>::default();
        let exporter = Slow { allowed: Mutex::new(allowed), taken: Arc::clone(&taken) };
        let provider = SdkTracerProvider::builder().with_span_processor(SpanQueue::new(exporter)).build();
        let tracer = provider.tracer("test");
        let before = Signal::Traces.lost();
        for _ in 0..MAX_WAITING_SPANS + further {
            drop(tracer.start("a span"));
        }
        // Other tests of the process may lose spans too.
        assert!(Signal::Traces.lost() - before >= further as u64);
        drop(allow);
        provider.shutdown().unwrap();
        assert_eq!(taken.load(Ordering::Relaxed), MAX_WAITING_SPANS);
    }
}
