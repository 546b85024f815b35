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
const MOST: usize = 256;
const MOST_BYTES: usize = 1024 * 1024;
/// Streams that a client may hold open; of more, the oldest is closed.
const MOST_STREAMS: usize = 4;

/// The messages for one client.
#[derive(Debug)]
pub(crate) struct Mailbox {
    /// No other one of this process has it.
    pub(crate) number: u64,
    /// The id of the `subscriptions/listen` that this is for; none for a session.
    subscription: Option<Box<RawValue>>,
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug)]
struct Inner {
    letters: VecDeque<Letter>,
    bytes: usize,
    /// Those that are open, the newest last: it gets everything. A client that lost its connection opens another long
    /// before the old one is known to be dead, and each message goes to one stream only.
    streams: Vec<u64>,
    last_stream: u64,
    /// The lists as the client knows them.
    seen: Generation,
}

#[derive(Debug)]
struct Letter {
    /// Of several letters about one topic the latest says it all.
    topic: Option<Box<str>>,
    message: Bytes,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Posted {
    /// It waits for a stream.
    Kept,
    /// Nobody listens.
    Dropped,
    /// The client reads so slowly that its stream was ended, and whatever waited is lost.
    CutOff,
}

/// What a stream finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Message(Bytes),
    Nothing,
    /// The stream has to end.
    End,
}

impl Mailbox {
    /// An empty one for a client that knows the lists of `seen`.
    pub(crate) fn new(number: u64, subscription: Option<Box<RawValue>>, seen: Generation) -> Self {
        let inner = Inner { letters: VecDeque::new(), bytes: 0, streams: Vec::new(), last_stream: 0, seen };
        Self { number, subscription, inner: Mutex::new(inner), changed: Notify::new() }
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

    /// Leaves a message. One with a `topic` replaces what waits about the same, and waits even while no stream is open.
    pub(crate) fn post(&self, topic: Option<&str>, message: Bytes) -> Posted {
        let mut inner = self.lock();
        let same = |letter: &Letter| topic.is_some() && letter.topic.as_deref() == topic;
        if let Some(at) = inner.letters.iter().position(same) {
            inner.remove(at);
        }
        let listening = !inner.streams.is_empty();
        if !listening && topic.is_none() {
            return Posted::Dropped;
        }
        let size = inner.bytes + message.len();
        if inner.letters.len() < MOST && (size <= MOST_BYTES || inner.letters.is_empty()) {
            inner.bytes = size;
            inner.letters.push_back(Letter { topic: topic.map(Box::from), message });
        } else {
            if !listening {
                return Posted::Dropped;
            }
            inner.streams.pop();
            inner.letters.clear();
            inner.bytes = 0;
        }
        let posted = if inner.letters.is_empty() { Posted::CutOff } else { Posted::Kept };
        drop(inner);
        self.changed.notify_waiters();
        posted
    }

    /// Opens a stream, which from now on gets everything.
    pub(crate) fn open_stream(&self) -> u64 {
        let mut inner = self.lock();
        inner.last_stream += 1;
        let stream = inner.last_stream;
        inner.streams.push(stream);
        if inner.streams.len() > MOST_STREAMS {
            inner.streams.remove(0);
        }
        drop(inner);
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
        let mut inner = self.lock();
        inner.streams.clear();
        inner.letters.clear();
        inner.bytes = 0;
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Whether a stream is open.
    pub(crate) fn is_read(&self) -> bool {
        !self.lock().streams.is_empty()
    }

    /// What there is for a stream.
    pub(crate) fn take(&self, stream: u64) -> Found {
        let mut inner = self.lock();
        if !inner.streams.contains(&stream) {
            return Found::End;
        }
        if inner.streams.last() != Some(&stream) {
            return Found::Nothing;
        }
        inner.remove(0).map_or(Found::Nothing, |letter| Found::Message(letter.message))
    }

    /// Moves the client on to the lists of `now`. Returns those it knew, if this stream is the one to tell it.
    pub(crate) fn catch_up(&self, stream: u64, now: Generation) -> Option<Generation> {
        let mut inner = self.lock();
        let tells = inner.streams.last() == Some(&stream);
        tells.then(|| std::mem::replace(&mut inner.seen, now))
    }

    /// Ends when there may be something new. To be had before looking.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl Inner {
    fn remove(&mut self, at: usize) -> Option<Letter> {
        let letter = self.letters.remove(at)?;
        self.bytes -= letter.message.len();
        Some(letter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailbox() -> Mailbox {
        Mailbox::new(1, None, Generation::default())
    }

    fn message(text: &'static str) -> Found {
        Found::Message(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn each_message_goes_to_the_newest_stream_and_to_no_other() {
        let mailbox = mailbox();
        assert_eq!(mailbox.post(None, "lost".into()), Posted::Dropped);
        let (old, new) = (mailbox.open_stream(), mailbox.open_stream());
        assert_eq!(mailbox.post(None, "a".into()), Posted::Kept);
        assert_eq!(mailbox.take(old), Found::Nothing);
        assert_eq!(mailbox.take(new), message("a"));
        assert_eq!(mailbox.post(None, "b".into()), Posted::Kept);
        mailbox.close_stream(new);
        assert_eq!(mailbox.take(new), Found::End);
        assert_eq!(mailbox.take(old), message("b"));
        assert_eq!(mailbox.take(old), Found::Nothing);
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
            assert_eq!(mailbox.post(Some("file:///a"), text.into()), Posted::Kept);
        }
        mailbox.post(Some("file:///b"), "3".into());
        let stream = mailbox.open_stream();
        assert_eq!(mailbox.take(stream), message("2"));
        assert_eq!(mailbox.take(stream), message("3"));
        assert_eq!(mailbox.take(stream), Found::Nothing);
        assert_eq!(mailbox.lock().bytes, 0);
    }

    #[test]
    fn who_does_not_read_is_cut_off() {
        for size in [1, 64 * 1024] {
            let mailbox = mailbox();
            let stream = mailbox.open_stream();
            let text = Bytes::from(vec![b'x'; size]);
            let posted = (0..=MOST).map(|_| mailbox.post(None, text.clone())).find(|p| *p != Posted::Kept);
            assert_eq!(posted, Some(Posted::CutOff));
            assert_eq!(mailbox.take(stream), Found::End);
            assert!(!mailbox.is_read());
            let inner = mailbox.lock();
            assert_eq!((inner.letters.len(), inner.bytes), (0, 0));
        }
        let mailbox = mailbox();
        mailbox.open_stream();
        assert_eq!(mailbox.post(None, vec![b'x'; 2 * MOST_BYTES].into()), Posted::Kept, "large, but alone");
        let topics: Vec<_> = (0..2 * MOST).map(|n| n.to_string()).collect();
        let unread = Mailbox::new(2, None, Generation::default());
        assert!(topics.iter().any(|topic| unread.post(Some(topic), "x".into()) == Posted::Dropped));
        assert_eq!(unread.lock().letters.len(), MOST);
    }

    #[test]
    fn streams_are_bounded() {
        let mailbox = mailbox();
        let streams: Vec<_> = (0..=MOST_STREAMS).map(|_| mailbox.open_stream()).collect();
        assert_eq!(mailbox.take(streams[0]), Found::End);
        assert_eq!(mailbox.take(streams[1]), Found::Nothing);
    }
}
