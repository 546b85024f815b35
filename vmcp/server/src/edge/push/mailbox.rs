//! What a client gets outside of its requests, until a stream of its takes it: of a legacy session, or of one
//! `subscriptions/listen`.

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

use crate::engine::Generation;

/// Messages that wait for a client that reads slowly, and their bytes. A single larger one is let through.
const MAX_MESSAGES: usize = 256;
const MAX_BYTES: usize = 1024 * 1024;
/// Streams that a client may hold open; of more, the oldest is closed.
const MAX_STREAMS: usize = 4;

/// The messages for one client.
#[derive(Debug)]
pub(crate) struct Mailbox {
    /// No other one of this process has it.
    pub(crate) number: u64,
    /// The id of the `subscriptions/listen` that this is for; none for a session.
    subscription: Option<Box<RawValue>>,
    state: Mutex<MailboxState>,
    changed: Notify,
}

#[derive(Debug)]
struct MailboxState {
    queue: VecDeque<QueuedMessage>,
    bytes: usize,
    /// Those that are open, the newest last: it gets everything. A client that lost its connection opens another long
    /// before the old one is known to be dead, and each message goes to one stream only.
    streams: Vec<u64>,
    last_stream: u64,
    /// The lists as the client knows them.
    seen: Generation,
}

#[derive(Debug)]
struct QueuedMessage {
    /// Of several queue about one replaces the latest says it all.
    replaces: Option<Box<str>>,
    message: Bytes,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Posted {
    /// It waits for a stream.
    Queued,
    /// Nobody listens.
    Dropped,
    /// The client reads so slowly that its stream was ended, and whatever waited is lost.
    CutOff,
}

/// What a stream finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextMessage {
    Message(Bytes),
    NoneYet,
    /// The stream has to end.
    StreamClosed,
}

impl Mailbox {
    /// An empty one for a client that knows the lists of `seen`.
    pub(crate) fn new(number: u64, subscription: Option<Box<RawValue>>, seen: Generation) -> Self {
        let state =
            MailboxState { queue: VecDeque::new(), bytes: 0, streams: Vec::new(), last_stream: 0, seen };
        Self { number, subscription, state: Mutex::new(state), changed: Notify::new() }
    }

    /// The id that every message of a `subscriptions/listen` carries.
    pub(crate) fn subscription(&self) -> Option<&RawValue> {
        self.subscription.as_deref()
    }

    /// A notification as this client is to read it; `None` when there is no such thing in its era.
    pub(crate) fn message(&self, notification: &Notification<'_>) -> Option<Bytes> {
        let to = if self.subscription.is_some() { Era::Modern } else { Era::Legacy };
        let plan =
            NotificationPlan { to, subscription_id: self.subscription(), ..NotificationPlan::default() };
        match translate::notification(&notification.method, notification.params, &plan) {
            Ok(Translated::Params(params)) => Some(rpc::notification(&notification.method, params).into()),
            Ok(Translated::Dropped) | Err(_) => None,
        }
    }

    /// Leaves a message. One with a `replaces` replaces what waits about the same, and waits even while no stream is open.
    pub(crate) fn post(&self, replaces: Option<&str>, message: Bytes) -> Posted {
        let mut state = self.lock();
        let same = |queued: &QueuedMessage| replaces.is_some() && queued.replaces.as_deref() == replaces;
        if let Some(at) = state.queue.iter().position(same) {
            state.remove(at);
        }
        let listening = !state.streams.is_empty();
        if !listening && replaces.is_none() {
            return Posted::Dropped;
        }
        let size = state.bytes + message.len();
        if state.queue.len() < MAX_MESSAGES && (size <= MAX_BYTES || state.queue.is_empty()) {
            state.bytes = size;
            state.queue.push_back(QueuedMessage { replaces: replaces.map(Box::from), message });
        } else {
            if !listening {
                return Posted::Dropped;
            }
            state.streams.pop();
            state.queue.clear();
            state.bytes = 0;
        }
        let posted = if state.queue.is_empty() { Posted::CutOff } else { Posted::Queued };
        drop(state);
        self.changed.notify_waiters();
        posted
    }

    /// Opens a stream, which from now on gets everything.
    pub(crate) fn open_stream(&self) -> u64 {
        let mut state = self.lock();
        state.last_stream += 1;
        let stream = state.last_stream;
        state.streams.push(stream);
        if state.streams.len() > MAX_STREAMS {
            state.streams.remove(0);
        }
        drop(state);
        self.changed.notify_waiters();
        stream
    }

    /// Closes a stream.
    pub(crate) fn close_stream(&self, stream: u64) {
        self.lock().streams.retain(|other| *other != stream);
        self.changed.notify_waiters();
    }

    /// Ends all streams and drops all messages.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.streams.clear();
        state.queue.clear();
        state.bytes = 0;
        drop(state);
        self.changed.notify_waiters();
    }

    /// Whether a stream is open.
    pub(crate) fn has_open_stream(&self) -> bool {
        !self.lock().streams.is_empty()
    }

    /// What there is for a stream.
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

    /// Moves the client on to the lists of `now`. Returns those it knew, if this stream is the one to tell it.
    pub(crate) fn catch_up(&self, stream: u64, now: Generation) -> Option<Generation> {
        let mut state = self.lock();
        let tells = state.streams.last() == Some(&stream);
        tells.then(|| std::mem::replace(&mut state.seen, now))
    }

    /// Ends when there may be something new. To be had before looking.
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
        assert_eq!(mailbox.post(None, vec![b'x'; 2 * MAX_BYTES].into()), Posted::Queued, "large, but alone");
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
