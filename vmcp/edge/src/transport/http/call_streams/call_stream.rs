//! [`CallStream`]: one call whose answer is a stream, and the log of the events that its client may have
//! lost.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use vmcp_backend::{ByteBudget, SessionId};
use vmcp_json::json_rope::JsonRope;
use vmcp_wire::rpc::{self, RpcError};
use vmcp_wire::{codes, sse};

use super::event_id::{EventId, StreamId};
use crate::request::conversation::Conversation;
use vmcp_engine::access::identity::PrincipalKey;
use vmcp_engine::access::principal_shares::{HeldShare, PrincipalShares};

/// Events kept of one stream; beyond it the first is forgotten: progress, which a later event supersedes.
const MAX_EVENTS: usize = 256;
/// Bytes kept of one stream; beyond it likewise. A larger answer is not kept.
pub(super) const MAX_BYTES: usize = 1024 * 1024;

/// Bytes of a stream that take no block: some events of progress.
const FREE_BYTES: usize = 4 * 1024;
/// Unit in which the bytes of a principal's streams are counted.
const BLOCK: usize = 64 * 1024;

/// The answer of a call whose answer cannot be had any more.
const NOT_KEPT: &str =
    "the connection broke, and the answer broke off or is too large to be kept; repeat the request";

/// One stream of events.
pub(super) struct CallStream {
    pub(super) id: StreamId,
    pub(super) session: SessionId,
    pub(super) principal: PrincipalKey,
    /// The id of the request, under which the client waits for the answer.
    request: Box<RawValue>,
    budget: ByteBudget,
    /// The sealed address of this process, in each event id.
    home: String,
    /// The shares of principals in the blocks of bytes that are kept.
    room: Arc<PrincipalShares>,
    /// The call, until its answer begins. The task that takes it out drives it on.
    conversation: Mutex<Option<Conversation>>,
    log: Mutex<EventLog>,
    /// Wakes readers after any change of `log`.
    changed: Notify,
    _held: HeldShare,
}

#[derive(Default)]
struct EventLog {
    events: VecDeque<Bytes>,
    /// The number of the first event in `events`.
    first: u64,
    bytes: usize,
    blocks: Vec<HeldShare>,
    /// True once no event follows.
    complete: bool,
    /// The number of the newest reader; those before it end.
    readers: u64,
}

/// The answer to a reader that asks for an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextEvent {
    /// The event, and the number of the one behind it.
    Event(Bytes, u64),
    /// The event is yet to come.
    NoneYet,
    /// No event follows, or another reader reads on.
    End,
}

impl CallStream {
    /// Creates a stream without events whose bytes count in `budget`.
    pub(super) fn new(
        id: StreamId,
        session: SessionId,
        principal: PrincipalKey,
        request: &RawValue,
        budget: ByteBudget,
        room: Arc<PrincipalShares>,
        held: HeldShare,
    ) -> Self {
        Self {
            id,
            session,
            principal,
            request: request.to_owned(),
            budget,
            home: String::new(),
            room,
            conversation: Mutex::default(),
            log: Mutex::default(),
            changed: Notify::new(),
            _held: held,
        }
    }

    /// Sets the sealed address of this process, which stands in the ids of events.
    pub(super) fn with_home(self, home: String) -> Self {
        Self { home, ..self }
    }

    /// Returns the place of the conversation.
    pub(super) fn conversation(&self) -> &Mutex<Option<Conversation>> {
        &self.conversation
    }

    /// Takes the call out, to drive it on.
    pub(super) fn take_conversation(&self) -> Option<Conversation> {
        self.conversation.lock().take()
    }

    /// Encodes a message as the next event and keeps it. Empty data makes the event that primes a client to
    /// resume.
    pub(super) fn log(&self, data: &[u8]) -> Bytes {
        self.append(data).0
    }

    /// Encodes an answer as the last event and keeps it. For a too large answer, or a broken one, an
    /// error is kept: its client may not have received it whole.
    pub(super) fn log_answer(&self, answer: Option<Bytes>) -> Option<Bytes> {
        let event = answer.map(|answer| self.append(&answer));
        if event.as_ref().is_none_or(|(_, kept)| !kept) {
            let error = RpcError::new(codes::INTERNAL_ERROR, NOT_KEPT);
            self.log(&rpc::error(Some(&self.request), JsonRope::from(error.to_json())));
        }
        self.close();
        event.map(|(event, _)| event)
    }

    /// Encodes the next event and keeps it if there is room. Returns true with a kept event.
    fn append(&self, data: &[u8]) -> (Bytes, bool) {
        let mut log = self.log.lock();
        let id = self.event_id(log.next());
        // Every message was built from text, so nothing is replaced here.
        let event = Bytes::from(sse::encode(None, Some(&id), &String::from_utf8_lossy(data)));
        let mut held = self.budget.begin();
        held.add(event.len());
        let event = held.attach_to(event);
        let kept = log.push(event.clone(), &self.room, self.principal);
        drop(log);
        self.changed.notify_waiters();
        (event, kept)
    }

    /// Returns the id of the event that is logged next.
    pub(super) fn next_event_id(&self) -> String {
        self.event_id(self.log.lock().next())
    }

    /// Records that no event follows.
    pub(super) fn close(&self) {
        self.log.lock().complete = true;
        self.changed.notify_waiters();
    }

    /// Begins to read behind the event `last`; `None` without such an event. Returns the number of the
    /// reader. A reader before it ends.
    pub(super) fn open_reader(&self, last: u64) -> Option<u64> {
        let mut log = self.log.lock();
        if last >= log.next() {
            return None;
        }
        log.readers += 1;
        let reader = log.readers;
        drop(log);
        self.changed.notify_waiters();
        Some(reader)
    }

    /// Returns the event `number`, or the first behind it that is kept.
    pub(super) fn read(&self, reader: u64, number: u64) -> NextEvent {
        let log = self.log.lock();
        let number = number.max(log.first);
        let at = usize::try_from(number - log.first).unwrap_or(usize::MAX);
        match log.events.get(at) {
            _ if log.readers != reader => NextEvent::End,
            Some(event) => NextEvent::Event(event.clone(), number + 1),
            None if log.complete => NextEvent::End,
            None => NextEvent::NoneYet,
        }
    }

    /// Completes at the next change. Call it before [`CallStream::read`]: a change between the two would be
    /// missed otherwise.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    fn event_id(&self, number: u64) -> String {
        EventId { stream: self.id, home: &self.home, number }.to_text()
    }
}

impl EventLog {
    /// Returns the number of the next event.
    fn next(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Adds an event, and forgets the first ones for it. Returns false for an event larger than the room.
    fn push(&mut self, event: Bytes, room: &Arc<PrincipalShares>, principal: PrincipalKey) -> bool {
        self.bytes += event.len();
        self.events.push_back(event);
        while self.events.len() > MAX_EVENTS || self.bytes > MAX_BYTES || !self.has_room(room, principal) {
            let Some(forgotten) = self.events.pop_front() else { break };
            self.bytes -= forgotten.len();
            self.first += 1;
        }
        self.blocks.truncate(blocks(self.bytes));
        !self.events.is_empty()
    }

    /// Takes a block of the principal's share for each begun [`BLOCK`] of bytes.
    fn has_room(&mut self, room: &Arc<PrincipalShares>, principal: PrincipalKey) -> bool {
        while self.blocks.len() < blocks(self.bytes) {
            let Ok(block) = room.take(principal) else { return false };
            self.blocks.push(block);
        }
        true
    }
}

/// Returns the number of blocks that so many bytes take.
fn blocks(bytes: usize) -> usize {
    bytes.saturating_sub(FREE_BYTES).div_ceil(BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmcp_engine::access::identity::Principal;
    use vmcp_engine::telemetry::metrics::Metrics;

    fn stream(budget: &ByteBudget, room: usize) -> CallStream {
        let (principal, metrics) = (Principal::default().key(), Metrics::new());
        let held = PrincipalShares::new("call_streams", 1, 1, &metrics).take(principal).unwrap();
        let room = PrincipalShares::new("call_stream_bytes", room, room, &metrics);
        let request = RawValue::from_string("7".to_owned()).unwrap();
        CallStream::new([1; 16], [2; 16], principal, &request, budget.clone(), room, held)
    }

    fn text(next: NextEvent) -> String {
        let NextEvent::Event(event, _) = next else { panic!("{next:?}") };
        String::from_utf8(event.to_vec()).unwrap()
    }

    #[test]
    fn a_reader_gets_the_events_behind_the_one_it_names_and_ends_for_a_newer_reader() {
        let (budget, prefix) = (ByteBudget::default(), "01".repeat(16));
        let stream = stream(&budget, 99);
        assert_eq!(stream.open_reader(0), None, "there is no event yet");
        stream.log(b"{}");
        stream.log(b"[]");
        let old = stream.open_reader(0).unwrap();
        assert_eq!(text(stream.read(old, 1)), format!("id: {prefix}-1\ndata: []\n\n"));
        assert_eq!(stream.read(old, 2), NextEvent::NoneYet);
        let new = stream.open_reader(1).unwrap();
        assert_eq!((stream.read(old, 2), stream.read(new, 2)), (NextEvent::End, NextEvent::NoneYet));
        stream.log_answer(Some(Bytes::from_static(b"1")));
        assert_eq!(text(stream.read(new, 2)), format!("id: {prefix}-2\ndata: 1\n\n"));
        assert_eq!(stream.read(new, 3), NextEvent::End);
    }

    #[test]
    fn the_log_is_bounded_and_counted_in_the_byte_budget() {
        let budget = ByteBudget::default();
        let stream = stream(&budget, 99);
        for _ in 0..2 * MAX_EVENTS {
            stream.log(b"{}");
        }
        assert_eq!(stream.log.lock().events.len(), MAX_EVENTS);
        let large = "x".repeat(MAX_BYTES / 3);
        for _ in 0..5 {
            stream.log(large.as_bytes());
        }
        assert!(budget.held() <= MAX_BYTES, "{}", budget.held());
        let reader = stream.open_reader(1).unwrap();
        let NextEvent::Event(_, next) = stream.read(reader, 2) else { panic!("an event") };
        assert_eq!(next, 2 * MAX_EVENTS as u64 + 4, "those before are forgotten");
        let answer = stream.log_answer(Some(vec![b'x'; 2 * MAX_BYTES].into()));
        assert!(answer.unwrap().len() > 2 * MAX_BYTES, "the client that is there gets it");
        let kept = text(stream.read(reader, 2 * MAX_EVENTS as u64 + 6));
        assert!(kept.contains(NOT_KEPT) && kept.contains(r#""id":7"#), "{kept}");
        drop(stream);
        assert_eq!(budget.held(), 0);
    }
    #[test]
    fn a_principal_at_its_share_of_bytes_keeps_the_latest_events() {
        let budget = ByteBudget::default();
        let stream = stream(&budget, 2);
        let large = "x".repeat(BLOCK - 100);
        for _ in 0..3 {
            stream.log(large.as_bytes());
        }
        assert_eq!(stream.log.lock().events.len(), 2);
        stream.log_answer(Some(vec![b'x'; 3 * BLOCK].into()));
        let log = stream.log.lock();
        assert_eq!((log.events.len(), log.blocks.len(), log.first), (1, 0, 4), "the error alone");
    }
}
