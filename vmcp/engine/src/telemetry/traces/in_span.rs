//! [`InSpan`]: a pinned future that runs inside a span.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::trace_span::TraceSpan;

/// Polls a future inside a span: two swaps of a pointer each time.
#[must_use = "futures do nothing unless they are polled"]
pub struct InSpan<'a, F: ?Sized> {
    future: Pin<&'a mut F>,
    span: TraceSpan,
}

/// Returns `future`, to be run inside `span`. Inside the empty span it runs inside that of its caller.
pub fn in_span<'a, F: Future + ?Sized>(future: Pin<&'a mut F>, span: &TraceSpan) -> InSpan<'a, F> {
    InSpan { future, span: span.clone() }
}

impl<F: Future + ?Sized> Future for InSpan<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, span } = self.get_mut();
        let _within = if span.is_none() { None } else { Some(Within::enter(span)) };
        future.as_mut().poll(context)
    }
}

impl<F: ?Sized> fmt::Debug for InSpan<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InSpan").field("span", &self.span).finish_non_exhaustive()
    }
}

/// Keeps the thread inside the span of a future, and in its place the span around it. Also a poll that
/// panics leaves the span.
struct Within<'a>(&'a mut TraceSpan);

impl<'a> Within<'a> {
    fn enter(span: &'a mut TraceSpan) -> Self {
        span.swap_current();
        Self(span)
    }
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        self.0.swap_current();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt as _;
    use tokio::task::yield_now;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::super::ids;
    use super::super::tests::told_layer;
    use super::*;

    #[test]
    fn a_future_is_inside_its_span_while_it_is_polled_and_only_then() {
        let subscriber = tracing_subscriber::registry().with(told_layer().0);
        tracing::subscriber::with_default(subscriber, || {
            let (outer, span) = (TraceSpan::root("outer", |_| ()), TraceSpan::root("call", |_| ()));
            let current = || ids(&TraceSpan::current());
            outer.in_scope(|| {
                let mut work = pin!(async {
                    assert_eq!(current(), ids(&span));
                    assert_eq!(in_span(pin!(async { current() }), &TraceSpan::none()).await, ids(&span));
                    assert_eq!(in_span(pin!(async { current() }), &outer).await, ids(&outer));
                    yield_now().await;
                    current()
                });
                let mut inside = in_span(work.as_mut(), &span);
                assert!((&mut inside).now_or_never().is_none(), "it has yielded");
                assert_eq!(current(), ids(&outer));
                assert_eq!((&mut inside).now_or_never(), Some(ids(&span)));
                assert_eq!(current(), ids(&outer));
            });
            assert_eq!(current(), None);
            assert!(ids(&span).is_some() && ids(&span) != ids(&outer));
        });
    }

    #[test]
    fn a_poll_that_panics_leaves_the_span() {
        let subscriber = tracing_subscriber::registry().with(told_layer().0);
        tracing::subscriber::with_default(subscriber, || {
            let span = TraceSpan::root("call", |_| ());
            let panics = std::panic::AssertUnwindSafe(|| {
                in_span(pin!(async { assert!(TraceSpan::current().is_none(), "inside") }), &span)
                    .now_or_never()
            });
            assert!(std::panic::catch_unwind(panics).is_err());
            assert!(TraceSpan::current().is_none());
        });
    }
}
