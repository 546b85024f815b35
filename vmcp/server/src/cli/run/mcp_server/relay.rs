//! [`Relay`]: carries lines between one client and the shared server, and answers the own tools. One task
//! owns all state; when the server goes away, the client's session goes on at the next server.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::sync::mpsc::{self, OwnedPermit};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::timeout;
use vmcp_json::json_rope::JsonRope;
use vmcp_lines::{Line, LineReader};
use vmcp_wire::headers::{RequestEra, classify_stdio};
use vmcp_wire::owned::{OwnedMessage, OwnedNotification, OwnedRequest};
use vmcp_wire::rpc::RpcError;
use vmcp_wire::{codes, meta, methods, rpc};

use super::client_session::ClientSession;
use super::local_answers::{self, NOT_RUNNING};
use super::server_link::{MAX_LINE, ServerLink, write_lines};
use super::shared_server::SharedServer;
use super::unanswered::Unanswered;
use super::{own_call, own_tools};

/// Lines that wait for a client that does not read.
const CLIENT_QUEUE: usize = 256;
/// Interval at which a client without a server looks for a server that another client started.
const REJOIN_INTERVAL: Duration = Duration::from_secs(2);
/// Life of a server that is always replaced at once. Of servers that end earlier, only the first is: the next
/// may belong to a crash loop.
const SETTLED: Duration = Duration::from_secs(5);
/// Time for which a client waits for a server to start; beyond it, its requests are answered without one.
const START_PATIENCE: Duration = Duration::from_secs(20);
/// Reason for a call whose server went away.
const IN_DOUBT: &str = "the server ended during this call, which may have run; look before you call again";

/// The state of one client.
pub(super) struct Relay {
    server: Arc<SharedServer>,
    link: Option<ServerLink>,
    /// True once a server was looked for.
    began: bool,
    /// True if the last server ended soon after its client came.
    ended_early: bool,
    session: ClientSession,
    unanswered: Unanswered,
    /// Ids of requests that were repeated for a new server; the client has their answers.
    repeated: HashSet<Box<str>>,
    /// Results that ended a `subscriptions/listen`, by id. A server that shuts down sends them; the client
    /// gets them only if the server stays.
    ended_listeners: Vec<(Box<str>, Bytes)>,
    /// Calls of own tools: the answer of each.
    own_calls: JoinSet<(Box<str>, Vec<u8>)>,
    own_call_handles: HashMap<Box<str>, AbortHandle>,
    to_client: mpsc::Sender<Bytes>,
}

/// Serves a client until its input ends and its last request is answered.
pub(super) async fn run(
    server: SharedServer,
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (to_client, lines) = mpsc::channel(CLIENT_QUEUE);
    let writer = tokio::spawn(write_lines(output, lines));
    let mut relay = Relay {
        server: Arc::new(server),
        link: None,
        began: false,
        ended_early: false,
        session: ClientSession::default(),
        unanswered: Unanswered::default(),
        repeated: HashSet::new(),
        ended_listeners: Vec::new(),
        own_calls: JoinSet::new(),
        own_call_handles: HashMap::new(),
        to_client,
    };
    relay.carry(LineReader::new(input, MAX_LINE)).await?;
    drop(relay);
    writer.await.map_err(io::Error::other)
}

/// Returns the next line of the client, with a place for it in the queue to the server: a server that does
/// not read must not keep the relay from reading its answers.
async fn next_line<R: AsyncBufRead + Unpin>(
    lines: &mut LineReader<R>,
    to_server: Option<mpsc::Sender<Bytes>>,
) -> io::Result<(Line, Option<OwnedPermit<Bytes>>)> {
    let place = match to_server {
        Some(to_server) => to_server.reserve_owned().await.ok(),
        None => None,
    };
    Ok((lines.next().await?, place))
}

/// Returns the next line of the server; `None` at its end.
async fn line_of(link: &mut Option<ServerLink>) -> Option<Bytes> {
    link.as_mut()?.from_server.recv().await
}

impl Relay {
    async fn carry<R: AsyncBufRead + Unpin>(&mut self, mut lines: LineReader<R>) -> io::Result<()> {
        let mut is_open = true;
        while is_open || self.link.is_some() || !self.own_calls.is_empty() {
            let to_server = self.link.as_ref().and_then(|link| link.to_server.clone());
            tokio::select! {
                line = next_line(&mut lines, to_server), if is_open => match line? {
                    (Line::Whole(line), _) if line.trim_ascii().is_empty() => {}
                    (Line::Whole(line), place) => self.client_line(line, place).await,
                    (Line::TooLong, _) => {
                        let message = format!("the message is larger than {MAX_LINE} bytes");
                        self.say_error(None, codes::INVALID_REQUEST, &message).await;
                    }
                    (Line::End, _) => {
                        is_open = false;
                        // The server answers what it has, and ends the connection.
                        if let Some(link) = &mut self.link {
                            link.to_server = None;
                        }
                    }
                },
                line = line_of(&mut self.link), if self.link.is_some() => match line {
                    Some(line) => self.server_line(line).await,
                    None => self.server_gone(is_open).await,
                },
                Some(ended) = self.own_calls.join_next() => self.own_call_ended(ended, is_open).await,
                () = tokio::time::sleep(REJOIN_INTERVAL), if is_open && self.began && self.link.is_none() => {
                    if !self.rejoin().await {
                        self.answer_all(NOT_RUNNING).await;
                    }
                }
                // A server that still answers requests may be draining: its listeners go on at the next.
                () = tokio::time::sleep(REJOIN_INTERVAL), if !self.ended_listeners.is_empty()
                    && self.link.is_some()
                    && !self.unanswered.has_answerable() => self.end_listeners().await,
            }
        }
        Ok(())
    }

    async fn client_line(&mut self, line: Bytes, place: Option<OwnedPermit<Bytes>>) {
        let message = match OwnedMessage::parse(line.clone()) {
            Ok(message) => message,
            Err(error) => {
                let wire = RpcError::new(error.code(), error.to_string());
                let answer = rpc::error(error.id.as_deref(), JsonRope::from(wire.to_json()));
                return self.say(answer).await;
            }
        };
        let is_modern = matches!(classify_stdio(&message), Ok(RequestEra::Modern(_)));
        match message {
            OwnedMessage::Request(request) => self.request(&request, is_modern, line, place).await,
            OwnedMessage::Notification(notification) => {
                if !self.cancelled_own_call(&notification) {
                    self.session.notified(&notification, &line);
                    self.forward(line, place).await;
                }
            }
            OwnedMessage::Response(_) | OwnedMessage::Error(_) => self.forward(line, place).await,
        }
    }

    async fn request(
        &mut self,
        request: &OwnedRequest,
        is_modern: bool,
        line: Bytes,
        place: Option<OwnedPermit<Bytes>>,
    ) {
        let subject = request.subject().unwrap_or_default();
        let is_call = request.method() == methods::TOOLS_CALL;
        if let Some(name) = own_tools::NAMES.into_iter().find(|name| is_call && *name == subject) {
            return self.begin_own_call(name, request, is_modern);
        }
        if let Err(reason) = self.link_or_start().await {
            match request.method() {
                // Waits for a server that others start.
                methods::LISTEN => self.unanswered.add(request, &line),
                method => {
                    if method == methods::INITIALIZE {
                        self.session.requested(request, &line);
                    }
                    self.say(local_answers::answer(request, is_modern, &reason)).await;
                }
            }
            return;
        }
        self.session.requested(request, &line);
        self.unanswered.add(request, &line);
        self.forward(line, place).await;
    }

    /// Sends a line to the server, if there is one.
    async fn forward(&self, line: Bytes, place: Option<OwnedPermit<Bytes>>) {
        if let Some(place) = place {
            place.send(line);
        } else if let Some(to_server) = self.link.as_ref().and_then(|link| link.to_server.as_ref()) {
            // A failure means that the server is gone, which the next turn notices.
            let _ = to_server.send(line).await;
        }
    }

    async fn server_line(&mut self, line: Bytes) {
        match OwnedMessage::parse(line.clone()) {
            Ok(OwnedMessage::Response(response)) => {
                if self.repeated.remove(response.id().get()) {
                    return;
                }
                let id = response.id().get();
                if self.unanswered.is_listening(id) {
                    return self.ended_listeners.push((id.into(), line));
                }
                let waiting = self.unanswered.remove(id);
                if waiting.is_some_and(|waiting| waiting.is_first_tools_page)
                    && let Some(joined) = own_tools::join(response.result())
                {
                    return self.say(rpc::response(response.id(), joined)).await;
                }
            }
            Ok(OwnedMessage::Error(error)) => {
                let id = error.id().map(RawValue::get).unwrap_or_default();
                if self.repeated.remove(id) {
                    return;
                }
                self.unanswered.remove(id);
            }
            Ok(OwnedMessage::Notification(notification))
                if notification.method() == methods::ACKNOWLEDGED =>
            {
                let id = notification.params().meta().get(meta::SUBSCRIPTION_ID);
                if id.is_some_and(|id| !self.unanswered.acknowledge(id)) {
                    return;
                }
            }
            _ => {}
        }
        self.say(line).await;
    }

    /// Handles the end of the server: answers what must not be repeated, and goes on at the next server.
    async fn server_gone(&mut self, is_open: bool) {
        let Some(link) = self.link.take() else { return };
        // They listen at the next server.
        self.ended_listeners.clear();
        for id in self.unanswered.take_unrepeatable() {
            self.say_error(Some(&id), codes::INTERNAL_ERROR, IN_DOUBT).await;
        }
        let ends_early = link.since.elapsed() < SETTLED;
        let is_replaced = !ends_early || !self.ended_early;
        self.ended_early = ends_early;
        drop(link);
        if !is_open || self.server.is_stopped() {
            self.answer_all(NOT_RUNNING).await;
        } else if is_replaced && let Err(reason) = self.link_or_start().await {
            self.answer_all(&reason).await;
        }
        // Otherwise the next look for a server decides.
    }

    /// Tells the client which of its subscriptions the server has ended.
    async fn end_listeners(&mut self) {
        for (id, result) in std::mem::take(&mut self.ended_listeners) {
            self.unanswered.remove(&id);
            self.say(result).await;
        }
    }

    /// Answers all requests but those that listen.
    async fn answer_all(&mut self, reason: &str) {
        for id in self.unanswered.take_answerable() {
            self.say_error(Some(&id), codes::INTERNAL_ERROR, reason).await;
        }
    }

    /// Joins or starts a server unless one is joined; returns the reason of a failure.
    async fn link_or_start(&mut self) -> Result<(), String> {
        if self.link.is_none() {
            let is_new_client = !std::mem::replace(&mut self.began, true);
            // A start goes on behind this; the next look for a server finds it.
            let link = timeout(START_PATIENCE, self.server.join_or_start(is_new_client)).await;
            let link = link.map_err(|_| "the daemon is still starting; try again soon".to_owned())??;
            self.adopt(link).await;
        }
        Ok(())
    }

    /// Joins a server that runs; returns true if there is one.
    async fn rejoin(&mut self) -> bool {
        if self.link.is_none()
            && let Ok(Some(link)) = self.server.join().await
        {
            self.adopt(link).await;
        }
        self.link.is_some()
    }

    /// Tells a new server what it must know, sends it what waits for an answer, and tells the client that the
    /// lists may be others.
    async fn adopt(&mut self, link: ServerLink) {
        let (mut lines, ids) = self.session.replay();
        self.repeated = ids.into_iter().collect();
        let mut listening = Vec::new();
        for (id, waiting) in self.unanswered.all() {
            // Its answer has not reached the client yet, and it is among the lines already.
            if !self.repeated.remove(id) {
                lines.push(waiting.line.clone());
            }
            if waiting.is_acknowledged {
                listening.push(format!("{{\"_meta\":{{\"{}\":{id}}}}}", meta::SUBSCRIPTION_ID));
            }
        }
        self.link = Some(link);
        for line in lines {
            self.forward(line, None).await;
        }
        if self.session.is_initialized() {
            self.say(rpc::notification(methods::TOOLS_CHANGED, None)).await;
        }
        for params in listening {
            self.say(rpc::notification(methods::TOOLS_CHANGED, Some(JsonRope::from(params)))).await;
        }
    }

    fn begin_own_call(&mut self, name: &'static str, request: &OwnedRequest, is_modern: bool) {
        let call = own_call::run(Arc::clone(&self.server), name, request.clone(), is_modern);
        let handle = self.own_calls.spawn(call);
        self.own_call_handles.insert(request.id().get().into(), handle);
    }

    /// Ends the call of an own tool that the client cancels; returns false for any other notification. A
    /// start or stop that it began goes on.
    fn cancelled_own_call(&mut self, notification: &OwnedNotification) -> bool {
        if notification.method() != methods::CANCELLED {
            return false;
        }
        let Some(id) = notification.params().get("requestId") else { return false };
        self.unanswered.remove(id);
        let handle = self.own_call_handles.remove(id);
        handle.is_some_and(|handle| {
            handle.abort();
            true
        })
    }

    async fn own_call_ended(&mut self, ended: Result<(Box<str>, Vec<u8>), JoinError>, is_open: bool) {
        let Ok((id, answer)) = ended else { return };
        self.own_call_handles.remove(&id);
        self.say(answer).await;
        if is_open {
            self.rejoin().await;
        }
    }

    async fn say_error(&self, id: Option<&str>, code: i64, message: &str) {
        let id = id.and_then(|id| serde_json::from_str(id).ok());
        let error = RpcError::new(code, message);
        self.say(rpc::error(id, JsonRope::from(error.to_json()))).await;
    }

    /// Writes a message to the client. A failure means that the client is gone; the end of its input ends
    /// everything.
    async fn say(&self, message: impl Into<Bytes>) {
        let _ = self.to_client.send(message.into()).await;
    }
}
