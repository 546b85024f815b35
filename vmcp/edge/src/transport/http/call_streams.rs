//! [`CallStreams`]: answer streams of legacy sessions, kept so that a client whose network broke in mid-call
//! resumes with GET and `Last-Event-ID`.
//!
//! [`call_stream`] is one stream: the call and the log of its events. [`live`] is the body of the POST that
//! began it, [`resumed`] the body of a GET that goes on with it. A stream is kept while its call runs and for
//! [`RETENTION`] after its answer. One beyond a limit is served all the same, but cannot be resumed.

mod call_stream;
mod event_id;
mod live;
mod resumed;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::Stream;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use vmcp_backend::{ByteBudget, SessionId};
use vmcp_wire::sealed::KeyRing;

use crate::request::conversation::Conversation;
use crate::session::keys;
use call_stream::CallStream;
use event_id::{EventId, StreamId};
pub(crate) use live::{LiveEvents, Step};
use vmcp_engine::access::identity::PrincipalKey;
use vmcp_engine::access::principal_shares::{LimitReached, PrincipalShares};
use vmcp_engine::random::{now, random};
use vmcp_engine::telemetry::metrics::Metrics;

/// Time that the events of an ended call are kept for a client that has lost them. Clients try again for
/// some seconds; a laptop may need a minute to change networks.
const RETENTION: Duration = Duration::from_mins(2);
/// Interval at which streams beyond [`RETENTION`] are removed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);
/// Streams of one session; beyond it the first that ended is forgotten, or the new one cannot be resumed.
const MAX_STREAMS_PER_SESSION: usize = 64;
/// Streams of one principal, and of all principals as a backstop; beyond them likewise.
const MAX_STREAMS_PER_PRINCIPAL: usize = 1000;
const MAX_STREAMS: usize = 10_000;
/// Blocks of 64 KiB of events that are kept for one principal, 4 MiB, and for all, 32 MiB; beyond them a
/// stream forgets its first events.
const MAX_BLOCKS_PER_PRINCIPAL: usize = 64;
const MAX_BLOCKS: usize = 512;

/// The answer streams of this process that can be resumed.
pub(crate) struct CallStreams {
    shares: Arc<PrincipalShares>,
    room: Arc<PrincipalShares>,
    budget: ByteBudget,
    metrics: Arc<Metrics>,
    table: Mutex<StreamTable>,
}

#[derive(Default)]
struct StreamTable {
    sessions: HashMap<SessionId, HashMap<StreamId, Arc<CallStream>>>,
    /// Streams whose call has ended, with the time, by principal; the first to end in front.
    ended: HashMap<PrincipalKey, VecDeque<(Instant, Arc<CallStream>)>>,
}

/// A request to resume that is refused with HTTP 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "Last-Event-ID names no stream of this session that can be resumed: it ended too long ago, or another process began it; repeat the request"
)]
pub(super) struct NotResumable;

/// Returns the address of the process that has the stream of an event.
pub(super) fn home_of(ring: &KeyRing, last: &str) -> Option<SocketAddr> {
    keys::open_home(ring, EventId::parse(last)?.home, now())
}

impl CallStreams {
    /// Creates an empty table whose events count in `budget`. Spawns the task that removes what is too old.
    pub(super) fn new(budget: ByteBudget, metrics: &Arc<Metrics>) -> Arc<Self> {
        let shares = PrincipalShares::new("call_streams", MAX_STREAMS_PER_PRINCIPAL, MAX_STREAMS, metrics);
        let room = PrincipalShares::new("call_stream_bytes", MAX_BLOCKS_PER_PRINCIPAL, MAX_BLOCKS, metrics);
        let streams =
            Arc::new(Self { shares, room, budget, metrics: Arc::clone(metrics), table: Mutex::default() });
        tokio::spawn(sweep(Arc::downgrade(&streams)));
        streams
    }

    /// Begins the stream of a call: `request` is the JSON-RPC id under which the client waits for its answer,
    /// `home` the sealed address of this process.
    /// Hands the conversation back at a limit.
    pub(super) fn begin(
        self: &Arc<Self>,
        session: SessionId,
        principal: PrincipalKey,
        request: &RawValue,
        home: String,
        conversation: Conversation,
    ) -> Result<LiveEvents, Box<Conversation>> {
        let mut table = self.table.lock();
        let mut held = self.shares.take(principal);
        let count = |table: &StreamTable| table.sessions.get(&session).map_or(0, HashMap::len);
        let session_is_full = count(&table) >= MAX_STREAMS_PER_SESSION;
        if session_is_full || matches!(held, Err(LimitReached::OfPrincipal(_))) {
            table.forget_oldest(&principal, session_is_full.then_some(session));
            if held.is_err() {
                held = self.shares.take(principal);
            }
        }
        let Ok(held) = held else { return Err(Box::new(conversation)) };
        if count(&table) >= MAX_STREAMS_PER_SESSION {
            return Err(Box::new(conversation));
        }
        let (budget, room) = (self.budget.clone(), Arc::clone(&self.room));
        let stream = CallStream::new(random(), session, principal, request, budget, room, held);
        let stream = Arc::new(stream.with_home(home));
        table.sessions.entry(session).or_default().insert(stream.id, Arc::clone(&stream));
        drop(table);
        Ok(LiveEvents::new(Arc::clone(self), stream, conversation))
    }

    /// Resumes the stream of a session behind the event that `last` names.
    pub(super) fn resume(
        self: &Arc<Self>,
        session: SessionId,
        last: &str,
    ) -> Result<impl Stream<Item = Bytes> + Send + use<>, NotResumable> {
        let last = EventId::parse(last).ok_or(NotResumable)?;
        let table = self.table.lock();
        let stream = table.sessions.get(&session).and_then(|streams| streams.get(&last.stream));
        let stream = Arc::clone(stream.ok_or(NotResumable)?);
        drop(table);
        let events = resumed::events(Arc::clone(&stream), last.number).ok_or(NotResumable)?;
        // The connection that began the call may be dead without this process knowing it.
        if let Some(conversation) = stream.take_conversation() {
            tokio::spawn(live::run_detached(Arc::clone(self), stream, conversation));
        }
        self.metrics.call_streams_resumed.inc();
        Ok(events)
    }

    /// Forgets the streams of a session that its client ended.
    pub(super) fn end_session(&self, session: SessionId) {
        let ended = self.table.lock().sessions.remove(&session);
        for stream in ended.into_iter().flatten() {
            stream.1.close();
        }
    }

    /// Starts the retention of a stream whose call has ended.
    fn ended(&self, stream: &Arc<CallStream>) {
        let mut table = self.table.lock();
        let known = table.sessions.get(&stream.session).is_some_and(|all| all.contains_key(&stream.id));
        if known {
            let of_principal = table.ended.entry(stream.principal).or_default();
            of_principal.push_back((Instant::now(), Arc::clone(stream)));
        }
    }
}

impl StreamTable {
    /// Forgets the stream of a principal, and of a session if one is given, whose call ended first.
    fn forget_oldest(&mut self, principal: &PrincipalKey, session: Option<SessionId>) {
        let Some(ended) = self.ended.get_mut(principal) else { return };
        let at = ended.iter().position(|(_, stream)| session.is_none_or(|session| stream.session == session));
        if let Some((_, stream)) = at.and_then(|at| ended.remove(at)) {
            self.remove(&stream);
        }
    }

    /// Forgets the streams whose call ended before `until`.
    fn forget_ended(&mut self, until: Instant) {
        let mut forgotten = Vec::new();
        self.ended.retain(|_, ended| {
            while ended.front().is_some_and(|(at, _)| *at < until) {
                forgotten.extend(ended.pop_front());
            }
            !ended.is_empty()
        });
        for (_, stream) in forgotten {
            self.remove(&stream);
        }
    }

    fn remove(&mut self, stream: &CallStream) {
        if let Some(streams) = self.sessions.get_mut(&stream.session) {
            streams.remove(&stream.id);
            if streams.is_empty() {
                self.sessions.remove(&stream.session);
            }
        }
    }
}

/// Removes streams that are kept no longer, until the table is dropped.
async fn sweep(streams: Weak<CallStreams>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(streams) = streams.upgrade() else { return };
        if let Some(until) = Instant::now().checked_sub(RETENTION) {
            streams.table.lock().forget_ended(until);
        }
    }
}
