//! [`DriverWaker`]: wakes the task that uses a connection, and only while that task waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use futures::task::AtomicWaker;

/// The waker with which a pooled connection is always polled. A connection is used by one task after the
/// other, and keeps the waker of its last poll in several places; with this one an idle connection wakes
/// nobody, and a wake-up that a poll causes to itself does not schedule the task once more.
#[derive(Debug, Default)]
pub(super) struct DriverWaker {
    woken: AtomicBool,
    /// The task that waits, if one does.
    task: AtomicWaker,
}

impl DriverWaker {
    /// Begins a poll: wake-ups are noted from now on.
    pub(super) fn begin(&self) {
        self.task.take();
        self.woken.store(false, Ordering::SeqCst);
    }

    /// Ends a poll: `task` is woken by the next wake-up. Returns false if one came since
    /// [`DriverWaker::begin`], so that the connection must be polled again.
    pub(super) fn wait(&self, task: &Waker) -> bool {
        // The order matters: a wake-up between the two lines is either seen by the second or wakes the task.
        self.task.register(task);
        !self.woken.load(Ordering::SeqCst)
    }
}

impl Wake for DriverWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.task.wake();
    }
}
