//! [`TraceSpan`]: a handle of a span under way, and the span that a thread is in.
//!
//! Stands in for spans of `tracing` where each call makes some: the registry of `tracing-subscriber` looks a
//! span up for each layer, attribute, entry and exit, a thousand instructions each time. A handle has its
//! span, and an entry swaps two pointers.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use opentelemetry::trace::SpanContext;
use parking_lot::Mutex;
use tracing::dispatcher;

use super::open_span::{OpenSpan, Sampling};
use super::protobuf::ProtobufWriter;
use super::span_events::SpanEvents;
use super::span_queue::SpanQueue;

/// True once this process has exported spans: without an exporter, a span costs this load.
static IS_EXPORTING: AtomicBool = AtomicBool::new(false);

/// The exporter of all threads. Tests have one for each thread, behind the thread's subscriber.
static OF_PROCESS: OnceLock<SpanExporter> = OnceLock::new();

thread_local! {
    /// The span that the thread is in.
    static CURRENT: RefCell<TraceSpan> = const { RefCell::new(TraceSpan(None)) };
    /// Spans that ended on the thread, the last one at the end. The next span takes its place, which is still
    /// in the caches of the processor; an allocator hands out the place that was freed first.
    static ENDED: RefCell<Vec<Arc<LiveSpan>>> = const { RefCell::new(Vec::new()) };
}

/// Most ended spans that a thread keeps; further ones are freed.
const MAX_ENDED: usize = 64;

/// False while no span can be exported.
pub(super) fn is_exporting() -> bool {
    IS_EXPORTING.load(Ordering::Relaxed)
}

/// Takes spans as they end, and decides which traces are exported.
#[derive(Debug, Clone)]
pub(super) struct SpanExporter {
    pub(super) queue: Arc<SpanQueue>,
    pub(super) sampling: Sampling,
}

impl SpanExporter {
    pub(super) fn new(queue: SpanQueue, sampling: Sampling) -> Self {
        IS_EXPORTING.store(true, Ordering::Relaxed);
        Self { queue: Arc::new(queue), sampling }
    }

    /// Serves all threads, unless another exporter does.
    pub(super) fn serve_process(&self) {
        // The first one stays.
        let _ = OF_PROCESS.set(self.clone());
    }

    /// Becomes the `other` exporter. The handle of the same queue stays: a new handle would change the
    /// reference count, which all threads share.
    fn become_equal(&mut self, other: &Self) {
        if !Arc::ptr_eq(&self.queue, &other.queue) {
            self.queue = Arc::clone(&other.queue);
        }
        self.sampling = other.sampling;
    }
}

/// A handle of a span. The span ends when its last handle is dropped. Empty unless spans are exported.
#[derive(Clone, Default)]
pub struct TraceSpan(Option<Arc<LiveSpan>>);

struct LiveSpan {
    open: Mutex<OpenSpan>,
    /// Stays when the next span takes the place.
    exporter: SpanExporter,
    is_ended: bool,
}

impl Drop for LiveSpan {
    fn drop(&mut self) {
        self.end();
    }
}

impl Drop for TraceSpan {
    fn drop(&mut self) {
        if let Some(live) = self.0.take() {
            LiveSpan::leave(live);
        }
    }
}

impl TraceSpan {
    /// The empty handle.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Begins a span below the one that the thread is in, or else the first span of a trace. `fill` sets its
    /// kind and attributes; it runs only where spans are exported.
    pub fn begin(name: &'static str, fill: impl FnOnce(&mut OpenSpan)) -> Self {
        if !is_exporting() {
            return Self(None);
        }
        let begun = CURRENT.try_with(|current| match &current.borrow().0 {
            Some(parent) => parent.child(name, fill),
            None => Self::first(|memory, sampling| OpenSpan::begin(memory, name, None, sampling), fill),
        });
        // The thread is ending.
        begun.unwrap_or_default()
    }

    /// Begins the first span of a trace, which may [continue](super::continue_trace) another one later.
    pub fn root(name: &'static str, fill: impl FnOnce(&mut OpenSpan)) -> Self {
        Self::first(|memory, sampling| OpenSpan::begin(memory, name, None, sampling).undecided(), fill)
    }

    /// Begins a span below the span of another process.
    pub(super) fn remote(name: &'static str, parent: &SpanContext, fill: impl FnOnce(&mut OpenSpan)) -> Self {
        Self::first(|memory, sampling| OpenSpan::begin(memory, name, Some(parent), sampling), fill)
    }

    /// Begins the first span of this process in a trace.
    fn first(
        begin: impl FnOnce(ProtobufWriter, Sampling) -> OpenSpan,
        fill: impl FnOnce(&mut OpenSpan),
    ) -> Self {
        if !is_exporting() {
            return Self(None);
        }
        if let Some(exporter) = OF_PROCESS.get() {
            return Self::start(exporter, |memory| begin(memory, exporter.sampling), fill);
        }
        let mut work = Some((begin, fill));
        let span = dispatcher::get_default(|subscriber| {
            let exporter = &subscriber.downcast_ref::<SpanEvents>()?.exporter;
            let (begin, fill) = work.take()?;
            Some(Self::start(exporter, |memory| begin(memory, exporter.sampling), fill))
        });
        span.unwrap_or_default()
    }

    /// Begins a span below this one.
    #[must_use = "the span ends when its last handle is dropped"]
    pub fn below(&self, name: &'static str, fill: impl FnOnce(&mut OpenSpan)) -> Self {
        self.0.as_ref().map(|parent| parent.child(name, fill)).unwrap_or_default()
    }

    fn start(
        exporter: &SpanExporter,
        begin: impl FnOnce(ProtobufWriter) -> OpenSpan,
        fill: impl FnOnce(&mut OpenSpan),
    ) -> Self {
        if let Some(mut live) = LiveSpan::take_ended()
            && let Some(place) = Arc::get_mut(&mut live)
        {
            place.exporter.become_equal(exporter);
            let open = place.open.get_mut();
            *open = begin(open.take_memory());
            fill(open);
            place.is_ended = false;
            return Self(Some(live));
        }
        let mut open = begin(ProtobufWriter::default());
        fill(&mut open);
        let live = LiveSpan { open: Mutex::new(open), exporter: exporter.clone(), is_ended: false };
        Self(Some(Arc::new(live)))
    }

    /// Returns a handle of the span that the thread is in.
    pub fn current() -> Self {
        CURRENT.try_with(|current| current.borrow().clone()).unwrap_or_default()
    }

    /// True for the empty handle.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Changes the span, if there is one. `change` must write no log line, which would be an event of the
    /// very span that is locked: format values before.
    pub fn fill(&self, change: impl FnOnce(&mut OpenSpan)) {
        self.read_mut(change);
    }

    /// Changes the span that the thread is in, if there is one, as [`fill`](Self::fill) does.
    pub(super) fn fill_current(change: impl FnOnce(&mut OpenSpan)) {
        // The thread may be ending; then it is in no span.
        let _ = CURRENT.try_with(|current| current.borrow().fill(change));
    }

    /// Sets an attribute of the span, if there is one. The attributes of its begin cost less.
    pub fn text(&self, key: &'static str, value: &str) {
        self.fill(|open| open.text(key, value));
    }

    /// Reads or changes the span; `None` without one.
    pub(super) fn read_mut<T>(&self, read: impl FnOnce(&mut OpenSpan) -> T) -> Option<T> {
        self.0.as_ref().map(|live| read(&mut live.open.lock()))
    }

    /// Puts the thread into the span until the guard is dropped. The empty handle changes nothing.
    pub fn enter(&self) -> EnteredSpan {
        let outer = self.0.is_some().then(|| {
            let mut slot = self.clone();
            slot.swap_current();
            slot
        });
        EnteredSpan { outer, _of_this_thread: PhantomData }
    }

    /// Does `work` inside the span.
    pub fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        let _entered = self.enter();
        work()
    }

    /// Changes places with the span that the thread is in.
    pub(super) fn swap_current(&mut self) {
        // The thread may be ending; then it is in no span.
        let _ = CURRENT.try_with(|current| mem::swap(&mut *current.borrow_mut(), self));
    }
}

impl LiveSpan {
    fn child(&self, name: &'static str, fill: impl FnOnce(&mut OpenSpan)) -> TraceSpan {
        let sampling = self.exporter.sampling;
        let begin = |memory| OpenSpan::begin(memory, name, Some(self.open.lock().context()), sampling);
        TraceSpan::start(&self.exporter, begin, fill)
    }

    /// Drops a handle. The last one ends the span, whose place the thread keeps.
    fn leave(mut live: Arc<Self>) {
        // Of two last handles that are dropped at once, each may see the other one. Then the place is freed,
        // and its drop ends the span.
        if let Some(place) = Arc::get_mut(&mut live) {
            place.end();
            // The thread may be ending; then the place is freed.
            let _ = ENDED.try_with(|ended| {
                let mut ended = ended.borrow_mut();
                if ended.len() < MAX_ENDED {
                    ended.push(live);
                }
            });
        }
    }

    /// Takes the place of the span that ended last on this thread.
    fn take_ended() -> Option<Arc<Self>> {
        ENDED.try_with(|ended| ended.borrow_mut().pop()).ok().flatten()
    }

    /// Hands the span to the exporter, once.
    fn end(&mut self) {
        if !mem::replace(&mut self.is_ended, true) {
            let open = self.open.get_mut();
            self.exporter.queue.push(open, SystemTime::now());
            open.clear();
        }
    }
}

impl fmt::Debug for TraceSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TraceSpan").field(&self.read_mut(|open| open.context().clone())).finish()
    }
}

/// Keeps the thread inside a span.
#[derive(Debug)]
#[must_use = "dropping the guard leaves the span"]
pub struct EnteredSpan {
    /// The span around it; `None` if nothing was entered.
    outer: Option<TraceSpan>,
    /// Another thread has a current span of its own.
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for EnteredSpan {
    fn drop(&mut self) {
        if let Some(mut outer) = self.outer.take() {
            outer.swap_current();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::super::tests::told_layer;
    use super::*;

    fn place(span: &TraceSpan) -> Option<*const LiveSpan> {
        span.0.as_ref().map(Arc::as_ptr)
    }

    #[test]
    fn a_span_takes_the_place_of_the_one_that_ended_last_on_its_thread() {
        let (layer, told) = told_layer();
        let queue = Arc::clone(&layer.exporter.queue);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let (one, other) = (TraceSpan::begin("one", |_| ()), TraceSpan::begin("other", |_| ()));
            let places = [place(&other), place(&one)];
            one.text("key", "value");
            drop(one);
            drop(other);
            let next = [TraceSpan::begin("third", |_| ()), TraceSpan::begin("fourth", |_| ())];
            assert_eq!(next.each_ref().map(place), places);
        });
        queue.finish().unwrap();
        let spans: Vec<_> = told.try_iter().collect();
        let names: Vec<_> = spans.iter().map(|span| (&*span.name, span.attributes.len())).collect();
        assert_eq!(names, [("one", 1), ("other", 0), ("third", 0), ("fourth", 0)]);
    }

    #[test]
    fn places_go_on_with_another_exporter() {
        let (first, second) = (told_layer(), told_layer());
        for (layer, told) in [first, second] {
            let queue = Arc::clone(&layer.exporter.queue);
            tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
                let span = TraceSpan::begin("a span", |_| ());
                drop(span.below("below", |_| ()));
            });
            queue.finish().unwrap();
            assert_eq!(told.try_iter().count(), 2);
        }
    }

    #[test]
    fn a_span_ends_once_whichever_thread_drops_its_last_handle() {
        let (layer, told) = told_layer();
        let (queue, count) = (Arc::clone(&layer.exporter.queue), 500);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            for _ in 0..count {
                let span = TraceSpan::begin("shared", |_| ());
                let other = span.clone();
                thread::scope(|scope| {
                    scope.spawn(move || drop(other));
                    drop(span);
                });
            }
        });
        queue.finish().unwrap();
        assert_eq!(told.try_iter().count(), count);
    }

    #[test]
    fn a_thread_keeps_a_bounded_number_of_places() {
        let (layer, _told) = told_layer();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            drop((0..2 * MAX_ENDED).map(|_| TraceSpan::begin("a span", |_| ())).collect::<Vec<_>>());
        });
        assert_eq!(ENDED.with(|ended| ended.borrow().len()), MAX_ENDED);
    }
}
