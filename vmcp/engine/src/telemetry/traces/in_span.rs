//! [`InSpan`]: a pinned future that runs inside a span.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use tracing::Span;

/// Polls a future inside a borrowed span. `tracing`'s `Instrumented` owns its span, and enters it
/// once more to drop a future that has ended; a clone and an entry are a thousand instructions each where
/// spans are exported.
#[must_use = "futures do nothing unless they are polled"]
pub struct InSpan<'a, F> {
    future: Pin<&'a mut F>,
    span: &'a Span,
    is_done: bool,
}

/// Returns `future`, to be run inside `span`.
pub fn in_span<'a, F: Future>(future: Pin<&'a mut F>, span: &'a Span) -> InSpan<'a, F> {
    InSpan { future, span, is_done: false }
}

impl<F: Future> Future for InSpan<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        let _entered = this.span.enter();
        let polled = this.future.as_mut().poll(context);
        this.is_done = polled.is_ready();
        polled
    }
}

impl<F> Drop for InSpan<'_, F> {
    /// Enters the span of a future that is given up: a span ends when it was left last.
    fn drop(&mut self) {
        if !self.is_done {
            drop(self.span.enter());
        }
    }
}

impl<F> fmt::Debug for InSpan<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InSpan")
            .field("span", self.span)
            .field("is_done", &self.is_done)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt as _;
    use tracing::span::Id;
    use tracing::{Subscriber, info_span};
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::{self, SubscriberExt as _};

    use super::*;

    #[derive(Default, Clone)]
    struct Entries(Arc<AtomicUsize>);

    impl<S: Subscriber> Layer<S> for Entries {
        fn on_enter(&self, _: &Id, _: layer::Context<'_, S>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_span_is_entered_for_each_poll_and_for_the_end_of_a_future_that_is_given_up() {
        let entries = Entries::default();
        let count = || entries.0.load(Ordering::Relaxed);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(entries.clone()), || {
            let span = info_span!("call");
            let inside = in_span(pin!(async { Span::current().id() }), &span).now_or_never();
            assert_eq!(inside.unwrap(), span.id());
            assert_eq!(count(), 1, "one poll");
            assert_eq!(Span::current().id(), None);
            assert!(in_span(pin!(std::future::pending::<()>()), &span).now_or_never().is_none());
            assert_eq!(count(), 3, "one poll, and the end");
        });
    }
}
