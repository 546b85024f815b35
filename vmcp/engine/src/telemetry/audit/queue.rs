//! [`AuditQueue`]: events on their way to the thread that writes them, bounded by their bytes.
//!
//! This file and `sink` name each other: targets travel in the queue, so that a change of targets keeps its
//! place among the events.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::event::queued_event::{QueuedEvent, ShareKey};
use super::sink::Targets;

/// Bytes of events that wait for the thread, 8 MiB; further ones are dropped and counted.
pub(super) const MAX_WAITING_BYTES: usize = 8 << 20;
/// Part of [`MAX_WAITING_BYTES`] that events of one principal may take, so that its flood does not make
/// the events of others be dropped.
const SHARE_OF_QUEUE: usize = 4;
/// Bytes of events that the thread takes at once, 64 KiB and the rest of the last one.
const MAX_TAKEN_BYTES: usize = 64 << 10;
/// Time for which an event waits for others that are written with it.
const COLLECTING: Duration = Duration::from_millis(10);
/// Bytes that an event takes beside its text.
const OVERHEAD: usize = 160;

/// An item that the thread takes from the queue.
#[derive(Debug)]
pub(super) enum Next {
    Event(QueuedEvent),
    /// The events that follow go to other targets.
    Targets(Box<Targets>),
}

/// Items that were taken at once.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) items: Vec<Next>,
    /// True if the queue is closed, and empty now.
    pub(super) is_last: bool,
}

/// State of the thread.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum Reader {
    /// Writes; it looks into the queue by itself.
    #[default]
    Busy,
    /// Waits for an event.
    Waits,
    /// Waits for events to write together with the first one, unless that is urgent.
    Collects,
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct AuditQueue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Next>,
    bytes: usize,
    by_share: HashMap<ShareKey, usize>,
    last_number: u64,
    /// Items that do not wait for others: a call or a reload waits for them.
    urgent: usize,
    reader: Reader,
    closed: bool,
}

impl Waiting {
    /// True if what waits is to be written now.
    fn is_due(&self) -> bool {
        self.closed || self.urgent > 0 || self.bytes >= MAX_TAKEN_BYTES
    }

    /// Returns true if the thread is to be woken. It is woken once.
    fn wakes(&mut self) -> bool {
        let wakes = match self.reader {
            Reader::Busy => false,
            Reader::Waits => true,
            Reader::Collects => self.is_due(),
        };
        if wakes {
            self.reader = Reader::Busy;
        }
        wakes
    }

    fn pop(&mut self) -> Option<Next> {
        let next = self.events.pop_front()?;
        let event = match &next {
            Next::Event(event) => event,
            Next::Targets(_) => {
                self.urgent -= 1;
                return Some(next);
            }
        };
        let bytes = event.json.len() + OVERHEAD;
        self.bytes -= bytes;
        self.urgent -= usize::from(event.written.is_some());
        if let Some(of_share) = self.by_share.get_mut(&event.share) {
            *of_share -= bytes;
            if *of_share == 0 {
                self.by_share.remove(&event.share);
            }
        }
        Some(next)
    }
}

impl AuditQueue {
    /// Queues an event under the next number. Returns false if the queue is full: the written events then
    /// lack the number.
    pub(super) fn push(&self, mut event: QueuedEvent) -> bool {
        let bytes = event.json.len() + OVERHEAD;
        let mut waiting = self.waiting.lock();
        waiting.last_number += 1;
        event.number = waiting.last_number;
        let of_share = waiting.by_share.get(&event.share).copied().unwrap_or(0);
        let is_over_share =
            event.share != ShareKey::Process && of_share + bytes > MAX_WAITING_BYTES / SHARE_OF_QUEUE;
        if waiting.closed || is_over_share || waiting.bytes + bytes > MAX_WAITING_BYTES {
            return false;
        }
        waiting.bytes += bytes;
        waiting.by_share.insert(event.share, of_share + bytes);
        waiting.urgent += usize::from(event.written.is_some());
        waiting.events.push_back(Next::Event(event));
        let wakes = waiting.wakes();
        drop(waiting);
        if wakes {
            self.changed.notify_one();
        }
        true
    }

    /// Waits for events, at most for `timeout`, and takes the ones there. A wake-up and a write cost more
    /// than an event: the first one waits [`COLLECTING`] for others.
    pub(super) fn take(&self, timeout: Duration) -> Taken {
        let mut waiting = self.waiting.lock();
        if waiting.events.is_empty() && !waiting.closed {
            waiting.reader = Reader::Waits;
            self.changed.wait_for(&mut waiting, timeout);
        }
        if !waiting.events.is_empty() && !waiting.is_due() {
            waiting.reader = Reader::Collects;
            self.changed.wait_for(&mut waiting, COLLECTING);
        }
        waiting.reader = Reader::Busy;
        let kept = waiting.bytes.saturating_sub(MAX_TAKEN_BYTES);
        let mut taken = Taken::default();
        while let Some(next) = waiting.pop() {
            taken.items.push(next);
            if kept > 0 && waiting.bytes <= kept {
                break;
            }
        }
        taken.is_last = waiting.closed && waiting.events.is_empty();
        taken
    }

    /// Takes events again, for these targets.
    pub(super) fn open(&self, targets: Targets) {
        let mut waiting = self.waiting.lock();
        waiting.closed = false;
        waiting.events.push_back(Next::Targets(Box::new(targets)));
        waiting.urgent += 1;
        drop(waiting);
        self.changed.notify_one();
    }

    /// Takes no further events.
    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.changed.notify_one();
    }

    /// Returns the number of an event that is written after the queue is closed.
    pub(super) fn take_number(&self) -> u64 {
        let mut waiting = self.waiting.lock();
        waiting.last_number += 1;
        waiting.last_number
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::super::otlp_logs::EventTrace;
    use super::*;
    use crate::access::identity::Principal;

    fn event(json: String, share: ShareKey) -> QueuedEvent {
        let (kind, trace) = ("mcp_request", EventTrace::default());
        QueuedEvent { json, kind, number: 0, trace, share, is_denial: false, written: None }
    }

    #[test]
    fn one_principal_fills_its_share_of_the_queue_and_others_still_get_in() {
        let queue = AuditQueue::default();
        let share = |address: &str| ShareKey::Principal(Principal::at(address).key());
        let large = || "x".repeat(100_000);
        let taken = (0..1000).filter(|_| queue.push(event(large(), share("10.0.0.1")))).count();
        assert_eq!(taken, MAX_WAITING_BYTES / SHARE_OF_QUEUE / (100_000 + OVERHEAD));
        assert!(queue.push(event("{}".into(), share("10.0.0.2"))));
        for last in 3..200_u8 {
            let other = share(&format!("10.0.0.{last}"));
            while queue.push(event(large(), other)) {}
        }
        let taken = || Some(queue.take(Duration::ZERO).items).filter(|items| !items.is_empty());
        let length = |next: Next| if let Next::Event(event) = next { event.json.len() } else { 0 };
        let held: usize = std::iter::from_fn(taken).flatten().map(length).sum();
        assert!(held <= MAX_WAITING_BYTES, "bytes bound the queue: {held}");
        assert!(queue.waiting.lock().by_share.is_empty());
    }

    #[test]
    fn an_event_that_is_dropped_leaves_a_gap_in_the_numbers() {
        let queue = AuditQueue::default();
        assert!(!queue.push(event("x".repeat(MAX_WAITING_BYTES), ShareKey::Strangers)));
        assert!(queue.push(event("{}".into(), ShareKey::Strangers)));
        let taken = queue.take(Duration::ZERO);
        let [Next::Event(event)] = taken.items.as_slice() else { panic!("an event waits") };
        assert_eq!((event.number, taken.is_last), (2, false));
        queue.close();
        assert!(queue.take(Duration::ZERO).is_last);
    }

    #[test]
    fn events_are_taken_together_and_one_that_is_waited_for_at_once() {
        let queue = std::sync::Arc::new(AuditQueue::default());
        let writer = std::sync::Arc::clone(&queue);
        let (sizes, taken) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            loop {
                let taken = writer.take(Duration::from_mins(1));
                let _ = sizes.send(taken.items.len());
                if taken.is_last {
                    break;
                }
            }
        });
        for _ in 0..1000 {
            assert!(queue.push(event("{}".into(), ShareKey::Process)));
        }
        let (written, _told) = oneshot::channel();
        queue.push(QueuedEvent { written: Some(written), ..event("{}".into(), ShareKey::Process) });
        let (mut events, mut turns) = (0, 0);
        while events < 1001 {
            events += taken.recv().unwrap();
            turns += 1;
        }
        // One by one they would be as many turns as events.
        assert!(turns < 500, "{turns}");
        queue.close();
        thread.join().unwrap();
        assert_eq!(events, 1001);
    }
}
