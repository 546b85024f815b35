//! [`Batch`]: events that the thread takes from the queue at once, with their lines in one buffer, from which
//! the file is written.

use std::vec::Drain;

use crate::telemetry::audit::chain::ChainMember;
use crate::telemetry::audit::event::queued_event::{QueuedEvent, ShareKey};
use crate::telemetry::audit::sink::Targets;

/// Bytes of events that the thread takes at once, 256 KiB and the rest of the last one: the events of 30,000
/// calls a second, in the time for which they wait for each other.
pub(super) const MAX_TAKEN_BYTES: usize = 256 << 10;
/// Bytes that an event takes beside its text: its place in the chain, and its item.
pub(super) const OVERHEAD: usize = 320;

/// An item that the thread takes from the queue.
#[derive(Debug)]
pub(in crate::telemetry::audit) enum Next {
    /// An event, the length of its line, and the bytes that it takes in the queue.
    Event { event: QueuedEvent, line: usize, bytes: usize },
    /// The events that follow go to other targets.
    Targets(Box<Targets>),
}

/// Items that the thread takes at once, at most [`MAX_TAKEN_BYTES`] and the rest of the last event. The lines
/// of their events are one buffer, which the queue uses again: an event costs no allocation.
#[derive(Debug, Default)]
pub(in crate::telemetry::audit) struct Batch {
    items: Vec<Next>,
    lines: Vec<u8>,
    pub(super) bytes: usize,
    /// Items that do not wait for others: a call or a reload waits for them.
    pub(super) urgent: usize,
    /// Events that were added since the batch was empty.
    pub(super) events: usize,
}

impl Batch {
    /// Adds an event, which takes `bytes` in the queue, and its line.
    pub(super) fn add(&mut self, event: QueuedEvent, json: &[u8], bytes: usize, member: &ChainMember) {
        let begin = self.lines.len();
        member.append_line(json, event.number, &mut self.lines);
        self.bytes += bytes;
        self.urgent += usize::from(event.written.is_some());
        self.events += 1;
        self.items.push(Next::Event { event, line: self.lines.len() - begin, bytes });
    }

    /// Adds other targets, which a reload waits for.
    pub(super) fn add_targets(&mut self, targets: Targets) {
        self.urgent += 1;
        self.items.push(Next::Targets(Box::new(targets)));
    }

    /// Takes the items out, in their order, and lends the lines of their events.
    pub(in crate::telemetry::audit) fn drain(&mut self) -> (Drain<'_, Next>, BatchLines<'_>) {
        (self.items.drain(..), BatchLines { bytes: &mut self.lines, waiting: 0, next: 0 })
    }

    /// True if it has no items.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// True if it has memory for events.
    pub(super) fn has_memory(&self) -> bool {
        self.lines.capacity() > 0
    }

    /// Returns the empty batch, with its memory unless a large event made that large.
    pub(super) fn emptied(mut self) -> Batch {
        self.items.clear();
        self.lines.clear();
        self.lines.shrink_to(2 * MAX_TAKEN_BYTES);
        Batch { items: self.items, lines: self.lines, ..Batch::default() }
    }

    /// Returns the bytes of each event, with its share.
    pub(super) fn shares(&self) -> impl Iterator<Item = (ShareKey, usize)> {
        self.items.iter().filter_map(|next| match next {
            Next::Event { event, bytes, .. } => Some((event.share, *bytes)),
            Next::Targets(_) => None,
        })
    }
}

/// The lines of a batch, in its buffer. Lines for the first file wait there, one after another, until they
/// are written; a line for another place leaves a gap, which the next one for the file closes.
#[derive(Debug)]
pub(in crate::telemetry::audit) struct BatchLines<'a> {
    /// The lines that wait, then a gap, then the lines that were not passed yet.
    bytes: &'a mut [u8],
    /// End of the lines that wait.
    waiting: usize,
    /// Begin of the next line.
    next: usize,
}

impl<'a> BatchLines<'a> {
    /// Returns the next line, of this length.
    pub(in crate::telemetry::audit) fn peek(&mut self, length: usize) -> &mut [u8] {
        let end = self.end_of(length);
        self.bytes.get_mut(self.next..end).unwrap_or_default()
    }

    /// Passes the next line, which waits to be written to the first file.
    pub(in crate::telemetry::audit) fn keep(&mut self, length: usize) {
        let end = self.end_of(length);
        if self.waiting < self.next {
            self.bytes.copy_within(self.next..end, self.waiting);
        }
        self.waiting += end - self.next;
        self.next = end;
    }

    /// Passes the next line, which goes elsewhere.
    pub(in crate::telemetry::audit) fn skip(&mut self, length: usize) {
        self.next = self.end_of(length);
    }

    /// Returns the number of bytes that wait.
    pub(in crate::telemetry::audit) fn waiting_bytes(&self) -> usize {
        self.waiting
    }

    /// Takes the lines that wait.
    pub(in crate::telemetry::audit) fn take_waiting(&mut self) -> &'a [u8] {
        let (passed, rest) = std::mem::take(&mut self.bytes).split_at_mut(self.next);
        self.bytes = rest;
        self.next = 0;
        passed.get(..std::mem::take(&mut self.waiting)).unwrap_or_default()
    }

    fn end_of(&self, length: usize) -> usize {
        self.bytes.len().min(self.next + length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_the_file_are_one_piece_whatever_lies_between_them() {
        let mut bytes = *b"one\ntwo\nthree\nfour\nfive\n";
        let mut lines = BatchLines { bytes: &mut bytes, waiting: 0, next: 0 };
        lines.skip(4);
        assert_eq!(lines.peek(4), b"two\n");
        lines.keep(4);
        lines.skip(6);
        lines.peek(5).make_ascii_uppercase();
        lines.keep(5);
        assert_eq!(lines.waiting_bytes(), 9);
        assert_eq!(lines.take_waiting(), b"two\nFOUR\n");
        assert_eq!((lines.waiting_bytes(), lines.take_waiting()), (0, b"".as_slice()));
        // A length beyond the buffer ends with it.
        lines.keep(500);
        assert_eq!(lines.take_waiting(), b"five\n");
    }
}
