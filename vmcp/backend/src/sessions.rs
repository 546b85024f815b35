//! Upstream sessions at a legacy server that keeps state: one for each client session, opened at its first call and
//! closed with it; and one for all clients without a session that can be asked the same.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;
use vmcp_wire::level::Level;
use vmcp_wire::{methods, rpc};

use crate::abilities;
use crate::connection::Connection;
use crate::era;
use crate::error::LinkError;
use crate::event::SessionId;
use crate::inbound::Owner;
use crate::level;
use crate::request::{ClientFacts, Request};
use crate::shared::Shared;
use crate::transport::{self, Link};
use vmcp_wire::handshake::client_capabilities::AnswerableQuestions;

/// How often sessions that nobody uses are looked for, at most and at least.
const SWEEP: (Duration, Duration) = (Duration::from_millis(50), Duration::from_mins(1));
/// A stream of a session that nobody has needed for this part of the time after which the session ends, is closed.
const STREAM_IDLE: u32 = 30;
/// How long the first call waits for the stream on which it may be asked something.
const STREAM_OPENS: Duration = Duration::from_millis(500);
/// Sessions that are ended side by side when a backend stops, and how long all of them may take.
const FAREWELLS: usize = 32;
const FAREWELL: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
    /// How many streams are open here on which a client's session takes what belongs to no request.
    listening: Mutex<HashMap<SessionId, usize>>,
    sweeping: AtomicBool,
}

/// Who shares an upstream session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Client(SessionId),
    Able(AnswerableQuestions),
}

/// Where an upstream session is, or will be.
#[derive(Debug)]
struct Slot {
    owner: Owner,
    connection: ArcSwapOption<Connection>,
    /// Held while it is opened: who comes meanwhile waits and shares it.
    opening: tokio::sync::Mutex<()>,
    usage: Mutex<Usage>,
    /// Reads the GET stream.
    follower: Mutex<Option<AbortOnDropHandle<()>>>,
    /// The GET stream was closed because nobody needed it; the next call opens it again.
    quiet: AtomicBool,
    /// Set when the slot was removed, perhaps while it was opened.
    ended: AtomicBool,
}

#[derive(Debug)]
struct Usage {
    calls: usize,
    last: Instant,
}

/// An upstream session in use.
#[derive(Debug)]
pub(crate) struct Lease {
    slot: Arc<Slot>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut usage = self.slot.usage.lock();
        usage.calls -= 1;
        usage.last = Instant::now();
    }
}

impl Key {
    /// `None`: the connection that all share will do.
    fn of(request: &Request<'_>) -> Option<Self> {
        if let Some(session) = request.session {
            return Some(Self::Client(session));
        }
        let abilities = AnswerableQuestions::read(request.client.capabilities.as_deref());
        (!abilities.is_empty()).then_some(Self::Able(abilities))
    }
}

impl Slot {
    fn new(owner: Owner) -> Self {
        Self {
            owner,
            connection: ArcSwapOption::empty(),
            opening: tokio::sync::Mutex::default(),
            usage: Mutex::new(Usage { calls: 0, last: Instant::now() }),
            follower: Mutex::default(),
            quiet: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        }
    }

    /// The session, if it is open.
    fn live(&self) -> Option<Arc<Connection>> {
        self.connection.load_full().filter(|connection| !connection.channel.closed.is_cancelled())
    }

    /// Since when nobody has used it.
    fn idle_since(&self) -> Option<Instant> {
        let usage = self.usage.lock();
        (usage.calls == 0).then_some(usage.last)
    }

    /// Closes the GET stream for the time being: it costs more than all the rest.
    fn fall_quiet(&self) {
        let mut follower = self.follower.lock();
        if follower.take_if(|follower| !follower.is_finished()).is_some() {
            self.quiet.store(true, Ordering::Relaxed);
        }
    }

    /// Ends the session here; the server is told in the background.
    fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.follower.lock().take();
        if let (Some(connection), Ok(runtime)) = (self.connection.swap(None), Handle::try_current()) {
            runtime.spawn(async move { connection.close().await });
        }
    }
}

/// The upstream session for a request, opened if need be; `None` when the main connection serves it.
pub(crate) async fn lease(
    shared: &Arc<Shared>,
    main: &Arc<Connection>,
    request: &Request<'_>,
) -> Result<Option<(Lease, Arc<Connection>)>, LinkError> {
    if !main.keeps_state() {
        return Ok(None);
    }
    let Some(key) = Key::of(request) else { return Ok(None) };
    let lease = shared.sessions.take(shared, key, request)?;
    if let Some(connection) = lease.slot.live() {
        if lease.slot.quiet.load(Ordering::Relaxed) {
            shared.sessions.follow_first(&lease.slot).await;
        }
        return Ok(Some((lease, connection)));
    }
    // Who opened it may go away; the session is for others, too.
    let slot = Arc::clone(&lease.slot);
    let opening = open(Arc::clone(shared), Arc::clone(main), slot, request.client.clone());
    let opened = tokio::spawn(opening.in_current_span()).await;
    let connection = opened.unwrap_or(Err(LinkError::Stopped))?;
    Ok(Some((lease, connection)))
}

async fn open(
    shared: Arc<Shared>,
    main: Arc<Connection>,
    slot: Arc<Slot>,
    client: ClientFacts,
) -> Result<Arc<Connection>, LinkError> {
    let _opening = slot.opening.lock().await;
    if let Some(connection) = slot.live() {
        return Ok(connection);
    }
    let channel = transport::sibling(&shared, &main, slot.owner)?;
    let (info, capabilities) = match slot.owner.session {
        Some(_) => (client.info.as_deref(), abilities::relayed(client.capabilities.as_deref())),
        None => (None, slot.owner.abilities.to_capabilities()),
    };
    let info = info.map_or(&*channel.client_info, RawValue::get);
    let after = shared.settings.connection_timeout;
    let opened = timeout(after, era::introduce(&channel, main.server.revision, info, &capabilities)).await;
    let server = opened.unwrap_or(Err(LinkError::ConnectTimeout { after }))?;
    // All sessions say the same about the server, and there may be thousands.
    let same = server.revision == main.server.revision && server.logs == main.server.logs;
    let server = if same { Arc::clone(&main.server) } else { Arc::new(server) };
    let connection = Arc::new(Connection { channel: Arc::new(channel), server });
    slot.connection.store(Some(Arc::clone(&connection)));
    if slot.ended.load(Ordering::SeqCst) {
        slot.end();
        return Err(LinkError::Stopped);
    }
    // The stream of a session that was lost may be ending still.
    slot.follower.lock().take();
    shared.sessions.follow_first(&slot).await;
    Ok(connection)
}

impl Sessions {
    fn take(&self, shared: &Arc<Shared>, key: Key, request: &Request<'_>) -> Result<Lease, LinkError> {
        let mut slots = self.slots.lock();
        let slot = if let Some(slot) = slots.get(&key) {
            Arc::clone(slot)
        } else {
            let limit = shared.settings.max_sessions;
            if slots.len() >= limit {
                let idle = slots.iter().filter_map(|(key, slot)| Some((slot.idle_since()?, *key)));
                let Some((_, oldest)) = idle.min_by_key(|(since, _)| *since) else {
                    return Err(LinkError::Unsendable(format!(
                        "all {limit} sessions at the backend are in use"
                    )));
                };
                if let Some(slot) = slots.remove(&oldest) {
                    slot.end();
                }
            }
            let abilities = AnswerableQuestions::read(request.client.capabilities.as_deref());
            let slot = Arc::new(Slot::new(Owner { session: request.session, abilities }));
            slots.insert(key, Arc::clone(&slot));
            self.start_sweeping(shared);
            slot
        };
        // Under the lock of the slots: who looks for idle ones must see it.
        slot.usage.lock().calls += 1;
        Ok(Lease { slot })
    }

    fn start_sweeping(&self, shared: &Arc<Shared>) {
        if self.sweeping.swap(true, Ordering::Relaxed) {
            return;
        }
        let idle = shared.settings.session_idle;
        let (stop, shared) = (shared.stop.clone(), Arc::clone(shared));
        let sweep = async move {
            loop {
                sleep((idle / 4).clamp(SWEEP.0, SWEEP.1)).await;
                shared.sessions.end_idle(idle);
            }
        };
        tokio::spawn(stop.run_until_cancelled_owned(sweep).in_current_span());
    }

    fn end_idle(&self, idle: Duration) {
        let mut slots = self.slots.lock();
        let unused = |slot: &Slot, time| slot.idle_since().is_some_and(|since| since.elapsed() >= time);
        for (_, slot) in slots.extract_if(|_, slot| unused(slot, idle) && !self.is_listening(slot.owner)) {
            slot.end();
        }
        for slot in slots.values() {
            if unused(slot, idle / STREAM_IDLE) && !self.is_listening(slot.owner) {
                slot.fall_quiet();
            }
        }
    }

    fn is_listening(&self, owner: Owner) -> bool {
        owner.session.is_some_and(|session| self.listening.lock().contains_key(&session))
    }

    pub(crate) fn count(&self) -> usize {
        self.slots.lock().len()
    }

    fn of_client(&self, session: SessionId) -> Option<Arc<Slot>> {
        self.slots.lock().get(&Key::Client(session)).cloned()
    }

    /// Ends the upstream session of a client's session.
    pub(crate) fn end(&self, session: SessionId) {
        let removed = self.slots.lock().remove(&Key::Client(session));
        if let Some(slot) = removed {
            slot.end();
        }
    }

    /// Ends all, and waits for that.
    pub(crate) async fn end_all(&self) {
        let slots = std::mem::take(&mut *self.slots.lock());
        let farewells =
            futures::stream::iter(slots.into_values()).for_each_concurrent(FAREWELLS, async |slot| {
                slot.ended.store(true, Ordering::SeqCst);
                if let Some(connection) = slot.connection.swap(None) {
                    connection.close().await;
                }
            });
        let _ = timeout(FAREWELL, farewells).await;
    }

    /// One more, or one less, stream is open on which the client's session takes what belongs to no request.
    pub(crate) fn listen(&self, session: SessionId, open: bool) {
        {
            let mut listening = self.listening.lock();
            let streams = listening.entry(session).or_default();
            *streams = if open { *streams + 1 } else { streams.saturating_sub(1) };
            if *streams == 0 {
                listening.remove(&session);
            }
        }
        if let Some(slot) = self.of_client(session) {
            self.follow(&slot);
        }
    }

    /// As [`Sessions::follow`], and waits until the server has answered: what it asks before finds nobody.
    async fn follow_first(&self, slot: &Slot) {
        if let Some(first) = self.follow(slot) {
            let _ = timeout(STREAM_OPENS, first).await;
        }
    }

    /// Reads the GET stream of a session that is open while somebody can take what comes on it. What is returned ends
    /// when a stream has been opened.
    fn follow(&self, slot: &Slot) -> Option<oneshot::Receiver<()>> {
        let wanted = !slot.owner.abilities.is_empty() || self.is_listening(slot.owner);
        let mut follower = slot.follower.lock();
        slot.quiet.store(false, Ordering::Relaxed);
        if !wanted {
            follower.take();
            return None;
        }
        if follower.as_ref().is_some_and(|follower| !follower.is_finished()) {
            return None;
        }
        let (connection, runtime) = (slot.live()?, Handle::try_current().ok()?);
        let Link::Http(http) = &connection.channel.link else { return None };
        let (http, closed) = (http.clone(), connection.channel.closed.clone());
        let (first, opened) = oneshot::channel();
        let follow = async move {
            // The main connection hears of changes to the lists.
            let _ = closed.run_until_cancelled(http.follow(first, || {})).await;
        };
        *follower = Some(AbortOnDropHandle::new(runtime.spawn(follow.in_current_span())));
        Some(opened)
    }

    /// Tells the server that the client's roots have changed, if it knows the client.
    pub(crate) fn roots_changed(&self, session: SessionId) {
        let connection = self.of_client(session).and_then(|slot| slot.live());
        if let (Some(connection), Ok(runtime)) = (connection, Handle::try_current()) {
            let message = Bytes::from(rpc::notification(methods::ROOTS_CHANGED, None));
            runtime.spawn(async move { connection.channel.link.notify(message).await });
        }
    }
}

/// Sets a client's log level where it is told messages already; elsewhere its next call does.
pub(crate) fn set_level(shared: &Shared, session: SessionId, level: Level) {
    let Some(main) = shared.current.load_full() else { return };
    let connection = if main.keeps_state() {
        shared.sessions.of_client(session).and_then(|slot| slot.live())
    } else {
        Some(main)
    };
    if let (Some(connection), Ok(runtime)) = (connection, Handle::try_current()) {
        runtime.spawn(async move { level::ensure(&connection, level).await }.in_current_span());
    }
}
