//! [`Slots`]: the connections of the admin port, of which the longest idle connection gives way.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// The open connections, up to a limit.
#[derive(Debug)]
pub(super) struct Slots {
    limit: usize,
    open: Mutex<OpenSlots>,
    closed: Notify,
}

#[derive(Debug, Default)]
struct OpenSlots {
    next: u64,
    slots: HashMap<u64, State>,
}

/// The state of one connection.
#[derive(Debug)]
struct State {
    /// Requests under way.
    busy: usize,
    /// The time of the last change of `busy`, or of the connection.
    since: Instant,
    task: Option<AbortHandle>,
}

/// The place of one connection; it is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Weak<Slots>,
    id: u64,
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Busy(Arc<Slot>);

impl Slots {
    /// Creates room for `limit` connections.
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, open: Mutex::default(), closed: Notify::new() })
    }

    /// Takes a place; at the limit, that of the connection that is idle longest. `None` if all are busy.
    pub(super) fn take(self: &Arc<Self>) -> Option<Arc<Slot>> {
        if self.open.lock().slots.len() >= self.limit && !self.close_idle(Duration::ZERO) {
            return None;
        }
        let mut open = self.open.lock();
        let id = open.next;
        open.next += 1;
        open.slots.insert(id, State { busy: 0, since: Instant::now(), task: None });
        Some(Arc::new(Slot { slots: Arc::downgrade(self), id }))
    }

    /// Closes the connection that is idle longest; false if none has been idle for `least`.
    pub(super) fn close_idle(&self, least: Duration) -> bool {
        let mut open = self.open.lock();
        let is_idle = |slot: &State| slot.busy == 0 && slot.task.is_some() && slot.since.elapsed() >= least;
        let idle = open.slots.iter().filter(|(_, slot)| is_idle(slot));
        let Some(id) = idle.min_by_key(|(_, slot)| slot.since).map(|(id, _)| *id) else { return false };
        let slot = open.slots.remove(&id);
        drop(open);
        if let Some(task) = slot.and_then(|slot| slot.task) {
            task.abort();
        }
        true
    }

    /// Waits until a connection has closed since this was last called.
    pub(super) async fn closed(&self) {
        self.closed.notified().await;
    }

    /// Waits until no connection is open.
    pub(super) async fn emptied(&self) {
        while !self.open.lock().slots.is_empty() {
            self.closed().await;
        }
    }
}

impl Slot {
    /// Names the task that serves the connection.
    pub(super) fn runs(&self, task: AbortHandle) {
        self.change(|slot| slot.task = Some(task));
    }

    /// Counts a request as under way until the result is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        self.change(|slot| slot.busy += 1);
        Busy(Arc::clone(self))
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let Some(slots) = self.slots.upgrade() else { return };
        // A connection that has given way has no state.
        if let Some(slot) = slots.open.lock().slots.get_mut(&self.id) {
            change(slot);
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.change(|slot| (slot.busy, slot.since) = (slot.busy.saturating_sub(1), Instant::now()));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(slots) = self.slots.upgrade() {
            slots.open.lock().slots.remove(&self.id);
            slots.closed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(slots: &Arc<Slots>) -> Option<(Arc<Slot>, tokio::task::JoinHandle<()>)> {
        let slot = slots.take()?;
        let held = Arc::clone(&slot);
        let task = tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        slot.runs(task.abort_handle());
        Some((slot, task))
    }

    #[tokio::test]
    async fn the_connection_that_is_idle_longest_gives_way() {
        let slots = Slots::new(2);
        let (first, first_task) = connect(&slots).unwrap();
        let (_second, second_task) = connect(&slots).unwrap();
        drop(first.begin());
        let busy = first.begin();
        let (third, third_task) = connect(&slots).unwrap();
        assert!(second_task.await.unwrap_err().is_cancelled());
        let also_busy = third.begin();
        assert!(connect(&slots).is_none(), "all are busy");
        drop(also_busy);
        let (fourth, fourth_task) = connect(&slots).unwrap();
        assert!(third_task.await.unwrap_err().is_cancelled());
        assert!(!first_task.is_finished() && !fourth_task.is_finished());
        drop(busy);
        first_task.abort();
        fourth_task.abort();
        drop((first, third, fourth));
        slots.emptied().await;
    }
}
