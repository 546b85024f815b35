//! [`AuditQueue`]: events on their way to the thread that writes them, bounded by their bytes.
//!
//! This file and `sink` name each other: targets travel in the queue, so that a change of targets keeps its
//! place among the events.

pub(super) mod batch;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use uuid::Uuid;

use self::batch::{Batch, MAX_TAKEN_BYTES, OVERHEAD};
use super::event::queued_event::{QueuedEvent, ShareKey};
use super::sink::Targets;

/// Bytes of events that wait for the thread, 8 MiB; further ones are dropped and counted.
pub(super) const MAX_WAITING_BYTES: usize = 8 << 20;
/// Part of [`MAX_WAITING_BYTES`] that events of one principal may take, so that its flood does not make
/// the events of others be dropped.
const SHARE_OF_QUEUE: usize = 4;
/// Time for which an event waits for others that are written with it. The thread takes a core from calls each
/// time, and those wait: half as often costs less than the memory for twice the events.
const COLLECTING: Duration = Duration::from_millis(20);
/// Empty batches that the queue keeps for their memory.
const MAX_SPARES: usize = 2;
/// Bytes of events from which on one principal may have filled its part.
const SHARED_BYTES: usize = MAX_WAITING_BYTES / SHARE_OF_QUEUE;

/// Items that were taken at once.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) batch: Batch,
    /// True if the queue is closed, and empty now.
    pub(super) is_last: bool,
    /// True if another thread has the queue: the batch is empty, and this thread is to end.
    pub(super) is_ousted: bool,
}

/// State of the thread.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum Reader {
    /// Writes; it looks into the queue by itself.
    #[default]
    Busy,
    /// Waits for an event.
    Waits,
    /// Waits for events to write together, unless one of them is urgent.
    Collects,
}

/// The queue.
#[derive(Debug)]
pub(super) struct AuditQueue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    /// The process, which its lines name.
    process: Uuid,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Batches that take no further items, the oldest first.
    full: VecDeque<Batch>,
    /// The batch that takes the next item.
    last: Batch,
    /// Empty batches with the memory of written ones.
    spares: Vec<Batch>,
    bytes: usize,
    /// Bytes of each share. Counted once more than [`SHARED_BYTES`] wait, until that is half of it: below,
    /// every share has room, and an event pays for no look-up.
    by_share: Option<HashMap<ShareKey, usize>>,
    last_number: u64,
    urgent: usize,
    reader: Reader,
    closed: bool,
    /// Number of the thread that takes the events. A thread that is slow to end may meet the next one.
    turn: u64,
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

    /// Returns false, and counts nothing, if `bytes` are beyond a share.
    fn admit(&mut self, share: ShareKey, bytes: usize) -> bool {
        if self.by_share.is_none() && self.bytes + bytes <= SHARED_BYTES {
            return true;
        }
        let by_share = self.by_share.get_or_insert_with(|| {
            let mut counted = HashMap::new();
            for (share, bytes) in self.full.iter().chain([&self.last]).flat_map(Batch::shares) {
                *counted.entry(share).or_default() += bytes;
            }
            counted
        });
        let of_share = by_share.get(&share).copied().unwrap_or(0);
        if share != ShareKey::Process && of_share + bytes > SHARED_BYTES {
            return false;
        }
        by_share.insert(share, of_share + bytes);
        true
    }

    /// Keeps the memory of an empty batch for the events to come.
    fn keep(&mut self, spare: Batch) {
        if spare.has_memory() && self.spares.len() < MAX_SPARES {
            self.spares.push(spare);
        }
    }

    fn is_empty(&self) -> bool {
        self.full.is_empty() && self.last.is_empty()
    }

    /// Returns the batch for the next item.
    fn last_batch(&mut self) -> &mut Batch {
        if self.last.bytes >= MAX_TAKEN_BYTES {
            let next = self.spares.pop().unwrap_or_default();
            self.full.push_back(std::mem::replace(&mut self.last, next));
        }
        &mut self.last
    }

    /// Takes the oldest batch out.
    fn pop(&mut self) -> Batch {
        let batch = self.full.pop_front().unwrap_or_else(|| {
            let next = self.spares.pop().unwrap_or_default();
            std::mem::replace(&mut self.last, next)
        });
        self.bytes -= batch.bytes;
        self.urgent -= batch.urgent;
        if self.bytes <= SHARED_BYTES / 2 {
            self.by_share = None;
        }
        if let Some(by_share) = &mut self.by_share {
            for (share, bytes) in batch.shares() {
                if let Some(of_share) = by_share.get_mut(&share) {
                    *of_share -= bytes;
                }
            }
            by_share.retain(|_, bytes| *bytes > 0);
        }
        batch
    }
}

impl AuditQueue {
    /// Makes the empty queue of a process.
    pub(super) fn new(process: Uuid) -> AuditQueue {
        AuditQueue { waiting: Mutex::default(), changed: Condvar::new(), process }
    }

    /// Returns the process whose events these are.
    pub(super) fn process(&self) -> Uuid {
        self.process
    }

    /// Queues an event and its packed facts under the next number. Returns false if the queue is full: the
    /// written events then lack the number.
    pub(super) fn push(&self, mut event: QueuedEvent, facts: &[u8]) -> bool {
        let bytes = facts.len() + OVERHEAD;
        let mut waiting = self.waiting.lock();
        waiting.last_number += 1;
        event.number = waiting.last_number;
        if waiting.closed || waiting.bytes + bytes > MAX_WAITING_BYTES || !waiting.admit(event.share, bytes) {
            return false;
        }
        waiting.bytes += bytes;
        waiting.urgent += usize::from(event.written.is_some());
        waiting.last_batch().add(event, facts);
        let wakes = waiting.wakes();
        drop(waiting);
        if wakes {
            self.changed.notify_one();
        }
        true
    }

    /// Returns the number of the thread that is to take the events.
    pub(super) fn turn(&self) -> u64 {
        self.waiting.lock().turn
    }

    /// Waits for events, at most for `timeout`, and takes the ones there; `written` is the batch before, and
    /// `turn` the number of the thread. A wake-up and a write cost more than an event: each one waits up to
    /// [`COLLECTING`] for others. While events come, the thread looks for them by its own clock, and calls do
    /// not wake it.
    pub(super) fn take(&self, turn: u64, written: Batch, timeout: Duration) -> Taken {
        let is_flowing = written.events > 1;
        let spare = written.emptied();
        let mut waiting = self.waiting.lock();
        if waiting.turn != turn {
            return Taken { is_ousted: true, ..Taken::default() };
        }
        waiting.keep(spare);
        if is_flowing || !waiting.is_empty() {
            self.collect(&mut waiting);
        }
        if waiting.is_empty() && !waiting.closed {
            waiting.reader = Reader::Waits;
            self.changed.wait_for(&mut waiting, timeout);
            if waiting.is_empty() {
                waiting.spares.clear();
            } else {
                self.collect(&mut waiting);
            }
        }
        if waiting.turn != turn {
            // The wake-up was for the other thread.
            self.changed.notify_one();
            return Taken { is_ousted: true, ..Taken::default() };
        }
        waiting.reader = Reader::Busy;
        let batch = waiting.pop();
        Taken { batch, is_last: waiting.closed && waiting.is_empty(), is_ousted: false }
    }

    /// Waits for events that are written together, unless what waits is due.
    fn collect(&self, waiting: &mut MutexGuard<'_, Waiting>) {
        if !waiting.is_due() {
            waiting.reader = Reader::Collects;
            self.changed.wait_for(waiting, COLLECTING);
        }
    }

    /// Takes events again, for these targets. After [`Self::close`], another thread is to take them.
    pub(super) fn open(&self, targets: Targets) {
        let mut waiting = self.waiting.lock();
        waiting.turn += u64::from(waiting.closed);
        waiting.closed = false;
        waiting.urgent += 1;
        waiting.last_batch().add_targets(targets);
        drop(waiting);
        self.changed.notify_one();
    }

    /// Takes no further events.
    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.changed.notify_one();
    }

    /// Returns a batch of events, each with its facts, that are written after the queue is closed.
    pub(super) fn closing_batch(&self, events: Vec<(QueuedEvent, Vec<u8>)>) -> Batch {
        let (mut waiting, mut batch) = (self.waiting.lock(), Batch::default());
        for (event, facts) in events {
            waiting.last_number += 1;
            batch.add(QueuedEvent { number: waiting.last_number, ..event }, &facts);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::sync::oneshot;

    use super::super::otlp_logs::EventTrace;
    use super::batch::Next;
    use super::*;
    use crate::access::identity::Principal;

    fn queue() -> AuditQueue {
        AuditQueue::new(Uuid::nil())
    }

    fn event(share: ShareKey) -> QueuedEvent {
        let (kind, trace) = ("mcp_request", EventTrace::default());
        QueuedEvent { kind, number: 0, trace, share, is_denial: false, written: None }
    }

    fn take(queue: &AuditQueue) -> Taken {
        queue.take(0, Batch::default(), Duration::ZERO)
    }

    /// Takes the events out of a batch, each with its facts, which are texts here.
    fn drain(batch: &mut Batch) -> Vec<(QueuedEvent, String)> {
        let (items, mut facts) = batch.drain();
        let events = items.map(|next| {
            let Next::Event { event, length } = next else { panic!("events only") };
            let (text, rest) = facts.split_at(length);
            facts = rest;
            (event, String::from_utf8(text.to_vec()).unwrap())
        });
        events.collect()
    }

    #[test]
    fn one_principal_fills_its_share_of_the_queue_and_others_still_get_in() {
        let queue = queue();
        let share = |address: &str| ShareKey::Principal(Principal::at(address).key());
        let large = "x".repeat(100_000);
        let taken = (0..1000).filter(|_| queue.push(event(share("10.0.0.1")), large.as_bytes())).count();
        assert_eq!(taken, MAX_WAITING_BYTES / SHARE_OF_QUEUE / (100_000 + OVERHEAD));
        assert!(queue.push(event(share("10.0.0.2")), b"{}"));
        for last in 3..200_u8 {
            let other = share(&format!("10.0.0.{last}"));
            while queue.push(event(other), large.as_bytes()) {}
        }
        let mut held = 0;
        loop {
            let mut taken = take(&queue).batch;
            let texts: Vec<usize> = drain(&mut taken).iter().map(|(_, text)| text.len()).collect();
            if texts.is_empty() {
                break;
            }
            held += texts.into_iter().sum::<usize>();
        }
        assert!(
            held > MAX_WAITING_BYTES * 9 / 10 && held <= MAX_WAITING_BYTES,
            "bytes bound the queue: {held}"
        );
        let waiting = queue.waiting.lock();
        assert_eq!((waiting.bytes, waiting.by_share.is_none()), (0, true));
    }

    #[test]
    fn an_event_that_is_dropped_leaves_a_gap_in_the_numbers() {
        let queue = queue();
        assert!(!queue.push(event(ShareKey::Strangers), "x".repeat(MAX_WAITING_BYTES).as_bytes()));
        assert!(queue.push(event(ShareKey::Strangers), b"{}"));
        let mut taken = take(&queue);
        let numbers: Vec<_> = drain(&mut taken.batch).iter().map(|(event, _)| event.number).collect();
        assert_eq!((numbers, taken.is_last), (vec![2], false));
        queue.close();
        assert!(take(&queue).is_last);
    }

    #[test]
    fn events_are_taken_together_and_one_that_is_waited_for_at_once() {
        let queue = std::sync::Arc::new(queue());
        let writer = std::sync::Arc::clone(&queue);
        let (sizes, taken) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut batch = Batch::default();
            loop {
                let taken = writer.take(0, batch, Duration::from_mins(1));
                batch = taken.batch;
                let _ = sizes.send(drain(&mut batch).len());
                if taken.is_last {
                    break;
                }
            }
        });
        for _ in 0..1000 {
            assert!(queue.push(event(ShareKey::Process), b"{}"));
        }
        let (written, _told) = oneshot::channel();
        queue.push(QueuedEvent { written: Some(written), ..event(ShareKey::Process) }, b"{}");
        let (mut events, mut turns) = (0, 0);
        while events < 1001 {
            events += taken.recv().unwrap();
            turns += 1;
        }
        // One by one they would be as many turns as events.
        assert!(turns < 100, "{turns}");
        queue.close();
        thread.join().unwrap();
        assert_eq!(events, 1001);
    }

    #[test]
    fn while_events_come_the_thread_keeps_time_and_a_call_wakes_it_for_much_or_haste() {
        let queue = queue();
        let text = "x".repeat(1000);
        let reader = || queue.waiting.lock().reader;
        queue.waiting.lock().reader = Reader::Collects;
        let mut events = 0;
        while reader() == Reader::Collects {
            assert!(queue.push(event(ShareKey::Process), text.as_bytes()));
            events += 1;
        }
        assert_eq!(events, MAX_TAKEN_BYTES.div_ceil(1000 + OVERHEAD));
        let batch = take(&queue).batch;
        let started = Instant::now();
        let batch = queue.take(0, batch, Duration::ZERO).batch;
        assert!(started.elapsed() >= COLLECTING, "the thread looks for events by its clock");
        assert!(batch.is_empty());

        queue.waiting.lock().reader = Reader::Collects;
        let (written, _told) = oneshot::channel();
        queue.push(QueuedEvent { written: Some(written), ..event(ShareKey::Process) }, b"{}");
        assert_eq!(reader(), Reader::Busy);
        queue.waiting.lock().reader = Reader::Waits;
        queue.push(event(ShareKey::Process), b"{}");
        assert_eq!(reader(), Reader::Busy);
    }

    #[test]
    fn batches_keep_the_order_and_the_facts_of_their_events() {
        let queue = queue();
        let text = |number: usize| format!("{number}{}", "x".repeat(number % 997));
        for number in 0..3000 {
            let share = if number % 2 == 0 { ShareKey::Process } else { ShareKey::Strangers };
            assert!(queue.push(event(share), text(number).as_bytes()));
        }
        let (mut batch, mut seen) = (Batch::default(), 0);
        loop {
            batch = queue.take(0, batch, Duration::ZERO).batch;
            let before = seen;
            for (event, of_event) in drain(&mut batch) {
                assert_eq!((event.number, of_event), (seen as u64 + 1, text(seen)));
                seen += 1;
            }
            if seen == before {
                break;
            }
        }
        assert_eq!(seen, 3000);
    }
}
