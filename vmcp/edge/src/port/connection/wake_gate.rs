//! [`poll_when_woken`]: leaves a future alone until something that it waits for has happened.
//!
//! hyper polls the future of a request whenever it polls its connection, and it wakes the connection for
//! each piece of a body that is taken. Without a gate a call would be polled three times through all layers
//! to send a request and to receive its answer.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::task::AtomicWaker;

/// The waker of a gated future.
struct WakeGate {
    /// True if the future was woken since its last poll began.
    woken: AtomicBool,
    /// The task that polls the future, while it waits.
    task: AtomicWaker,
}

impl Wake for WakeGate {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.task.wake();
    }
}

/// Waits for `future`, which is polled at first and whenever it was woken. A future that wakes itself while
/// it ends wakes no task. It comes pinned, for it is large to be moved.
pub(super) async fn poll_when_woken<F: Future>(mut future: Pin<&mut F>) -> F::Output {
    let gate = Arc::new(WakeGate { woken: AtomicBool::new(true), task: AtomicWaker::new() });
    let waker = Waker::from(Arc::clone(&gate));
    poll_fn(move |context| {
        // The order matters: a wake-up between two of the lines is either seen or wakes the task.
        if gate.woken.swap(false, Ordering::SeqCst) {
            gate.task.take();
            if let ready @ Poll::Ready(_) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return ready;
            }
        }
        gate.task.register(context.waker());
        if gate.woken.load(Ordering::SeqCst) {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct CountingWaker(AtomicUsize);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn only_a_future_that_was_woken_is_polled() {
        let counter = Arc::<CountingWaker>::default();
        let waker = Waker::from(Arc::clone(&counter));
        let mut context = Context::from_waker(&waker);
        let polls = AtomicUsize::new(0);
        let mut inner = pin!(poll_fn(|context| {
            // The first time it yields to other tasks.
            if polls.fetch_add(1, Ordering::SeqCst) == 0 {
                context.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        }));
        let mut gated = pin!(poll_when_woken(inner.as_mut()));
        for polled in [1, 2, 2, 2] {
            assert!(gated.as_mut().poll(&mut context).is_pending());
            assert_eq!((polls.load(Ordering::SeqCst), counter.0.load(Ordering::SeqCst)), (polled, 1));
        }
    }

    #[tokio::test]
    async fn a_wake_up_from_elsewhere_gets_through_and_one_of_the_end_does_not() {
        let (sender, answer) = tokio::sync::oneshot::channel();
        let counter = Arc::<CountingWaker>::default();
        let waker = Waker::from(Arc::clone(&counter));
        let mut context = Context::from_waker(&waker);
        let mut inner = pin!(async {
            let answer = answer.await;
            poll_fn(|context| {
                context.waker().wake_by_ref();
                Poll::Ready(())
            })
            .await;
            answer
        });
        let mut gated = pin!(poll_when_woken(inner.as_mut()));
        assert!(gated.as_mut().poll(&mut context).is_pending());
        sender.send(7).unwrap();
        assert_eq!(counter.0.load(Ordering::SeqCst), 1);
        assert_eq!(gated.as_mut().poll(&mut context), Poll::Ready(Ok(7)));
        assert_eq!(counter.0.load(Ordering::SeqCst), 1);
    }
}
