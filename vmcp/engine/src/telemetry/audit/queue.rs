//! [`AuditQueue`]: events on their way to the thread that writes them, bounded by their bytes.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::otlp_logs::EventTrace;
use super::sink::Targets;
use crate::access::identity::PrincipalKey;

/// Bytes of events that wait for the thread, 8 MiB; further ones are dropped and counted.
pub(super) const MAX_WAITING_BYTES: usize = 8 << 20;
/// Part of [`MAX_WAITING_BYTES`] that events of one principal may take, so that its flood does not make
/// the events of others be dropped.
const SHARE_OF_QUEUE: usize = 4;
/// Bytes that an event takes beside its text.
const OVERHEAD: usize = 160;

/// The principal to whose share an event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ShareKey {
    /// The process itself, and operators with a token: no share limits them.
    Process,
    /// All clients together that did not prove an identity where one is needed.
    Strangers,
    /// One principal.
    Principal(PrincipalKey),
}

/// An event that is to be written.
#[derive(Debug)]
pub(super) struct QueuedEvent {
    /// The event: one JSON object.
    pub(super) json: String,
    /// Type of the event.
    pub(super) kind: &'static str,
    /// Position among the events of this process, from 1; an event that is dropped leaves a gap.
    pub(super) number: u64,
    pub(super) trace: EventTrace,
    pub(super) share: ShareKey,
    /// True for a denial, which counts to a share of its own.
    pub(super) is_denial: bool,
    /// Told when the event is written, or cannot be.
    pub(super) written: Option<oneshot::Sender<bool>>,
}

/// The outcome of waiting for an event.
#[derive(Debug)]
pub(super) enum Next {
    Event(QueuedEvent),
    /// The events that follow go to other targets.
    Targets(Box<Targets>),
    /// No event came in time.
    Nothing,
    /// The queue is closed, and empty.
    Closed,
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
    closed: bool,
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
        waiting.events.push_back(Next::Event(event));
        drop(waiting);
        self.changed.notify_one();
        true
    }

    /// Waits for the next event, at most for `timeout`.
    pub(super) fn next(&self, timeout: Duration) -> Next {
        let mut waiting = self.waiting.lock();
        if waiting.events.is_empty() && !waiting.closed {
            self.changed.wait_for(&mut waiting, timeout);
        }
        let event = match waiting.events.pop_front() {
            Some(Next::Event(event)) => event,
            Some(other) => return other,
            None if waiting.closed => return Next::Closed,
            None => return Next::Nothing,
        };
        let bytes = event.json.len() + OVERHEAD;
        waiting.bytes -= bytes;
        if let Some(of_share) = waiting.by_share.get_mut(&event.share) {
            *of_share -= bytes;
            if *of_share == 0 {
                waiting.by_share.remove(&event.share);
            }
        }
        Next::Event(event)
    }

    /// Takes events again, for these targets.
    pub(super) fn open(&self, targets: Targets) {
        let mut waiting = self.waiting.lock();
        waiting.closed = false;
        waiting.events.push_back(Next::Targets(Box::new(targets)));
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
        let held: usize = std::iter::from_fn(|| match queue.next(Duration::ZERO) {
            Next::Event(event) => Some(event.json.len()),
            _ => None,
        })
        .sum();
        assert!(held <= MAX_WAITING_BYTES, "bytes bound the queue: {held}");
        assert!(queue.waiting.lock().by_share.is_empty());
    }

    #[test]
    fn an_event_that_is_dropped_leaves_a_gap_in_the_numbers() {
        let queue = AuditQueue::default();
        assert!(!queue.push(event("x".repeat(MAX_WAITING_BYTES), ShareKey::Strangers)));
        assert!(queue.push(event("{}".into(), ShareKey::Strangers)));
        let Next::Event(event) = queue.next(Duration::ZERO) else { panic!("an event waits") };
        assert_eq!(event.number, 2);
        queue.close();
        assert!(matches!(queue.next(Duration::ZERO), Next::Closed));
    }
}
