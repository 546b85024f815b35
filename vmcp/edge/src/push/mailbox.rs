//! [`Mailbox`]: a bounded queue of push messages for one client, emptied by its newest open stream.
//!
//! A client is a legacy session, or one `subscriptions/listen` request of a modern client. The queue holds at
//! most 256 messages and 1 MiB; a client that reads too slowly to stay below that loses its stream and
//! everything queued, and starts over by opening another stream. Dropping single messages instead would leave
//! the client with a gap that nothing tells it of.

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use vmcp_wire::envelope::Notification;
use vmcp_wire::era::Era;
use vmcp_wire::rpc;
use vmcp_wire::translate::{self, NotificationPlan, Translated};

use vmcp_engine::engine::{Generation, ListDigests};

/// Queued messages; one more ends the stream.
const MAX_MESSAGES: usize = 256;
/// Queued bytes; a message beyond them ends the stream, unless the queue is empty: a single message of any
/// size passes.
const MAX_BYTES: usize = 1024 * 1024;
/// Open streams of one client; one more closes the oldest.
const MAX_STREAMS: usize = 4;

/// The push messages of one client.
#[derive(Debug)]
pub(crate) struct Mailbox {
    /// Unique in this process; registries refer to mailboxes by it.
    pub(crate) number: u64,
    /// The id of the `subscriptions/listen` request that this mailbox serves; `None` for a session.
    subscription: Option<Box<RawValue>>,
    state: Mutex<MailboxState>,
    /// Wakes all streams after any change of `state`.
    changed: Notify,
}

#[derive(Debug)]
struct MailboxState {
    queue: VecDeque<QueuedMessage>,
    bytes: usize,
    /// Open streams, the newest last. Only the newest takes messages: each message goes to one stream, and a
    /// client that lost its connection opens another long before the old one is known to be dead.
    streams: Vec<u64>,
    last_stream: u64,
    /// The list generations that the client was last told of.
    seen: Generation,
    /// Digests of the lists that the client was last told of; `None` until a stream has looked at them.
    lists: Option<ListDigests>,
}

/// One message that waits for a stream.
#[derive(Debug)]
struct QueuedMessage {
    /// Key by which a newer message replaces this one: the URI of an updated resource.
    replaces: Option<Box<str>>,
    message: Bytes,
}

/// The fate of a posted message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Posted {
    /// The message waits for a stream.
    Queued,
    /// No stream is open, or the queue of a client without a stream is full; the message is lost.
    Dropped,
    /// The queue was full: the newest stream was ended and everything queued is lost.
    CutOff,
}

/// The answer to a stream that asks for its next message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextMessage {
    /// The oldest queued message.
    Message(Bytes),
    /// The queue is empty, or a newer stream takes it.
    NoneYet,
    /// The stream was closed and has to end.
    StreamClosed,
}

impl Mailbox {
    /// Creates an empty mailbox for a client that knows the lists of `seen`.
    pub(crate) fn new(number: u64, subscription: Option<Box<RawValue>>, seen: Generation) -> Self {
        let state = MailboxState {
            queue: VecDeque::new(),
            bytes: 0,
            streams: Vec::new(),
            last_stream: 0,
            seen,
            lists: None,
        };
        Self { number, subscription, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Returns the id that every message of a `subscriptions/listen` stream carries in its `_meta`.
    pub(crate) fn subscription(&self) -> Option<&RawValue> {
        self.subscription.as_deref()
    }

    /// Encodes a notification for the client's era; `None` if that era does not have it.
    pub(crate) fn message(&self, notification: &Notification<'_>) -> Option<Bytes> {
        let to = if self.subscription.is_some() { Era::Modern } else { Era::Legacy };
        let plan =
            NotificationPlan { to, subscription_id: self.subscription(), ..NotificationPlan::default() };
        match translate::notification(&notification.method, notification.params, &plan) {
            Ok(Translated::Params(params)) => Some(rpc::notification(&notification.method, params).into()),
            Ok(Translated::Dropped) | Err(_) => None,
        }
    }

    /// Queues a message. One with a key in `replaces` takes the place of the queued message with the same
    /// key, and is queued even while no stream is open; any other message needs an open stream.
    pub(crate) fn post(&self, replaces: Option<&str>, message: Bytes) -> Posted {
        let mut state = self.lock();
        // Only the newest update of a resource is worth reading; without this a client that is away would
        // fill its queue.
        let same = |queued: &QueuedMessage| replaces.is_some() && queued.replaces.as_deref() == replaces;
        if let Some(at) = state.queue.iter().position(same) {
            state.remove(at);
        }
        let listening = !state.streams.is_empty();
        if !listening && replaces.is_none() {
            return Posted::Dropped;
        }
        let size = state.bytes + message.len();
        // A single message above MAX_BYTES passes when it is alone, or it could never be delivered.
        if state.queue.len() < MAX_MESSAGES && (size <= MAX_BYTES || state.queue.is_empty()) {
            state.bytes = size;
            state.queue.push_back(QueuedMessage { replaces: replaces.map(Box::from), message });
        } else {
            if !listening {
                return Posted::Dropped;
            }
            // Cut off: the client cannot be told what it missed, so the stream ends and the client
            // resynchronizes.
            state.streams.pop();
            state.queue.clear();
            state.bytes = 0;
        }
        let posted = if state.queue.is_empty() { Posted::CutOff } else { Posted::Queued };
        drop(state);
        self.changed.notify_waiters();
        posted
    }

    /// Opens a stream, which takes all messages from now on. The oldest stream is closed if there are more
    /// than [`MAX_STREAMS`]. Returns the id of the stream.
    pub(crate) fn open_stream(&self) -> u64 {
        let mut state = self.lock();
        state.last_stream += 1;
        let stream = state.last_stream;
        state.streams.push(stream);
        if state.streams.len() > MAX_STREAMS {
            state.streams.remove(0);
        }
        drop(state);
        // The older streams look again: one of them may have been closed.
        self.changed.notify_waiters();
        stream
    }

    /// Closes a stream; the one opened before it takes the messages again.
    pub(crate) fn close_stream(&self, stream: u64) {
        self.lock().streams.retain(|other| *other != stream);
        self.changed.notify_waiters();
    }

    /// Closes all streams and drops all messages.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.streams.clear();
        state.queue.clear();
        state.bytes = 0;
        drop(state);
        self.changed.notify_waiters();
    }

    /// Returns true if the client has an open stream.
    pub(crate) fn has_open_stream(&self) -> bool {
        !self.lock().streams.is_empty()
    }

    /// Takes the next message for `stream`.
    pub(crate) fn take(&self, stream: u64) -> NextMessage {
        let mut state = self.lock();
        if !state.streams.contains(&stream) {
            return NextMessage::StreamClosed;
        }
        if state.streams.last() != Some(&stream) {
            return NextMessage::NoneYet;
        }
        state.remove(0).map_or(NextMessage::NoneYet, |queued| NextMessage::Message(queued.message))
    }

    /// Records that the client is told of the lists of `now`. Returns the generations it knew before, or
    /// `None` if another stream is the one to tell it.
    pub(crate) fn catch_up(&self, stream: u64, now: Generation) -> Option<Generation> {
        let mut state = self.lock();
        let tells = state.streams.last() == Some(&stream);
        tells.then(|| std::mem::replace(&mut state.seen, now))
    }

    /// Returns the list generations that the client was last told of.
    pub(crate) fn seen(&self) -> Generation {
        self.lock().seen
    }

    /// Replaces the digests of the lists that the client was last told of; returns those before.
    pub(crate) fn know_lists(&self, lists: Option<ListDigests>) -> Option<ListDigests> {
        std::mem::replace(&mut self.lock().lists, lists)
    }

    /// Returns the digests of the lists that the client was last told of.
    pub(crate) fn known_lists(&self) -> Option<ListDigests> {
        self.lock().lists
    }

    /// Completes at the next change. Call it before [`Mailbox::take`]: a change between the two would be
    /// missed otherwise.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    fn lock(&self) -> MutexGuard<'_, MailboxState> {
        self.state.lock()
    }
}

impl MailboxState {
    fn remove(&mut self, at: usize) -> Option<QueuedMessage> {
        let queued = self.queue.remove(at)?;
        self.bytes -= queued.message.len();
        Some(queued)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailbox() -> Mailbox {
        Mailbox::new(1, None, Generation::default())
    }

    fn message(text: &'static str) -> NextMessage {
        NextMessage::Message(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn each_message_goes_to_the_newest_stream_and_to_no_other() {
        let mailbox = mailbox();
        assert_eq!(mailbox.post(None, "lost".into()), Posted::Dropped);
        let (old, new) = (mailbox.open_stream(), mailbox.open_stream());
        assert_eq!(mailbox.post(None, "a".into()), Posted::Queued);
        assert_eq!(mailbox.take(old), NextMessage::NoneYet);
        assert_eq!(mailbox.take(new), message("a"));
        assert_eq!(mailbox.post(None, "b".into()), Posted::Queued);
        mailbox.close_stream(new);
        assert_eq!(mailbox.take(new), NextMessage::StreamClosed);
        assert_eq!(mailbox.take(old), message("b"));
        assert_eq!(mailbox.take(old), NextMessage::NoneYet);
        let changed = Generation { tools: 1, ..Generation::default() };
        let newer = mailbox.open_stream();
        assert_eq!(mailbox.catch_up(old, changed), None);
        assert_eq!(mailbox.catch_up(newer, changed), Some(Generation::default()));
        assert_eq!(mailbox.catch_up(newer, changed), Some(changed));
    }

    #[test]
    fn the_latest_about_a_topic_waits_for_a_stream() {
        let mailbox = mailbox();
        for text in ["1", "2"] {
            assert_eq!(mailbox.post(Some("file:///a"), text.into()), Posted::Queued);
        }
        mailbox.post(Some("file:///b"), "3".into());
        let stream = mailbox.open_stream();
        assert_eq!(mailbox.take(stream), message("2"));
        assert_eq!(mailbox.take(stream), message("3"));
        assert_eq!(mailbox.take(stream), NextMessage::NoneYet);
        assert_eq!(mailbox.lock().bytes, 0);
    }

    #[test]
    fn who_does_not_read_is_cut_off() {
        for size in [1, 64 * 1024] {
            let mailbox = mailbox();
            let stream = mailbox.open_stream();
            let text = Bytes::from(vec![b'x'; size]);
            let posted =
                (0..=MAX_MESSAGES).map(|_| mailbox.post(None, text.clone())).find(|p| *p != Posted::Queued);
            assert_eq!(posted, Some(Posted::CutOff));
            assert_eq!(mailbox.take(stream), NextMessage::StreamClosed);
            assert!(!mailbox.has_open_stream());
            let state = mailbox.lock();
            assert_eq!((state.queue.len(), state.bytes), (0, 0));
        }
        let mailbox = mailbox();
        mailbox.open_stream();
        assert_eq!(
            mailbox.post(None, vec![b'x'; 2 * MAX_BYTES].into()),
            Posted::Queued,
            "a single message above the limit is queued"
        );
        let topics: Vec<_> = (0..2 * MAX_MESSAGES).map(|n| n.to_string()).collect();
        let unread = Mailbox::new(2, None, Generation::default());
        assert!(topics.iter().any(|replaces| unread.post(Some(replaces), "x".into()) == Posted::Dropped));
        assert_eq!(unread.lock().queue.len(), MAX_MESSAGES);
    }

    #[test]
    fn streams_are_bounded() {
        let mailbox = mailbox();
        let streams: Vec<_> = (0..=MAX_STREAMS).map(|_| mailbox.open_stream()).collect();
        assert_eq!(mailbox.take(streams[0]), NextMessage::StreamClosed);
        assert_eq!(mailbox.take(streams[1]), NextMessage::NoneYet);
    }
}
