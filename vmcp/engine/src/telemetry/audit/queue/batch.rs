//! [`Batch`]: events that the thread takes from the queue at once, with their packed facts in one buffer.

use std::vec::Drain;

use crate::telemetry::audit::event::queued_event::{QueuedEvent, ShareKey};
use crate::telemetry::audit::sink::Targets;

/// Bytes of events that the thread takes at once, 256 KiB and the rest of the last one: the events of 40,000
/// calls a second, in the time for which they wait for each other.
pub(super) const MAX_TAKEN_BYTES: usize = 256 << 10;
/// Bytes that an event takes beside its facts: its item, and what a vector of items has to spare.
pub(super) const OVERHEAD: usize = 160;

/// An item that the thread takes from the queue.
#[derive(Debug)]
pub(in crate::telemetry::audit) enum Next {
    /// An event, and the length of its facts.
    Event { event: QueuedEvent, length: usize },
    /// The events that follow go to other targets.
    Targets(Box<Targets>),
}

/// Items that the thread takes at once, at most [`MAX_TAKEN_BYTES`] and the rest of the last event. The facts
/// of their events are one buffer, which the queue uses again: an event costs no allocation.
#[derive(Debug, Default)]
pub(in crate::telemetry::audit) struct Batch {
    items: Vec<Next>,
    facts: Vec<u8>,
    pub(super) bytes: usize,
    /// Items that do not wait for others: a call or a reload waits for them.
    pub(super) urgent: usize,
    /// Events that were added since the batch was empty.
    pub(super) events: usize,
}

impl Batch {
    /// Adds an event and its packed facts.
    pub(super) fn add(&mut self, event: QueuedEvent, facts: &[u8]) {
        self.facts.extend_from_slice(facts);
        self.bytes += facts.len() + OVERHEAD;
        self.urgent += usize::from(event.written.is_some());
        self.events += 1;
        self.items.push(Next::Event { event, length: facts.len() });
    }

    /// Adds other targets, which a reload waits for.
    pub(super) fn add_targets(&mut self, targets: Targets) {
        self.urgent += 1;
        self.items.push(Next::Targets(Box::new(targets)));
    }

    /// Takes the items out, in their order, and lends the facts of their events, one after another.
    pub(in crate::telemetry::audit) fn drain(&mut self) -> (Drain<'_, Next>, &[u8]) {
        (self.items.drain(..), &self.facts)
    }

    /// True if it has no items.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// True if it has memory for events.
    pub(super) fn has_memory(&self) -> bool {
        self.facts.capacity() > 0
    }

    /// Returns the empty batch, with its memory unless a large event made that large.
    pub(super) fn emptied(mut self) -> Batch {
        self.items.clear();
        self.facts.clear();
        self.facts.shrink_to(2 * MAX_TAKEN_BYTES);
        Batch { items: self.items, facts: self.facts, ..Batch::default() }
    }

    /// Returns the bytes of each event, with its share.
    pub(super) fn shares(&self) -> impl Iterator<Item = (ShareKey, usize)> {
        self.items.iter().filter_map(|next| match next {
            Next::Event { event, length } => Some((event.share, length + OVERHEAD)),
            Next::Targets(_) => None,
        })
    }
}
