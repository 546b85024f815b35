//! MCP as lines, one message a line, both eras: on standard input and output, for clients that start vmcp as
//! a command, and on a local socket, for clients whose proxies (`vmcp mcp-server`) share one server.
//!
//! A connection has one client and at most one legacy session. Requests run concurrently; a single writer
//! task serializes their messages.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vmcp_backend::{RpcOutcome, SessionId};
use vmcp_json::json_rope::JsonRope;
use vmcp_lines::{Line, LineReader};

use vmcp_wire::era::{Era, Revision};
use vmcp_wire::headers::{self, RequestEra};
use vmcp_wire::owned::{OwnedMessage, OwnedNotification, OwnedRequest};

use vmcp_wire::rpc::{self, RpcError};
use vmcp_wire::{codes, methods};

use super::trace;
use crate::push::streams;
use crate::request::conversation::{AcceptedMessages, Conversation, ConversationItem};
use crate::request::dispatch::operation::{self, Sender, begin_message};
use crate::request::edge::Edge;
use crate::request::handshake;
use crate::request::in_flight::{MAX_REQUESTS_PER_SESSION, TooManyRequests};
use crate::session::peer::Peer;
use crate::session::sessions::{OpenedSession, SessionLife};
use vmcp_engine::access::identity::Principal;
use vmcp_engine::random::{now_millis, random};
use vmcp_engine::telemetry;
use vmcp_engine::telemetry::calls::Refusal;
use vmcp_engine::telemetry::metrics::ServerSession;
use vmcp_engine::telemetry::operations::Operation;
use vmcp_engine::telemetry::traces::IncomingTrace;

/// Messages that wait for a client that does not read; beyond them their senders wait (backpressure).
const OUTGOING_QUEUE: usize = 256;
/// Other messages may not come between the bytes of a line, so an answer is written when all of it is there.
const TAKES: AcceptedMessages = AcceptedMessages { messages: true, arriving: false };

/// Serves the only client of this process until its input ends, then closes the edge and waits for the
/// requests in flight.
pub async fn serve<R, W>(edge: Arc<Edge>, principal: Principal, input: R, output: W) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let closing = edge.closing.clone();
    serve_until(edge, principal, input, output, closing).await
}

/// Serves one of many clients until its input ends, waits for its requests in flight, and ends its session.
pub async fn serve_one_of_many<R, W>(
    edge: Arc<Edge>,
    principal: Principal,
    input: R,
    output: W,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let closing = edge.closing.child_token();
    serve_until(edge, principal, input, output, closing).await
}

/// Serves one client until its input ends or `closing` is cancelled; the end of the input cancels `closing`.
async fn serve_until<R, W>(
    edge: Arc<Edge>,
    principal: Principal,
    input: R,
    mut output: W,
    closing: CancellationToken,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (sender, mut outgoing) = mpsc::channel::<Vec<u8>>(OUTGOING_QUEUE);
    let writer = tokio::spawn(async move {
        while let Some(message) = outgoing.recv().await {
            let mut line = rpc::single_line(message);
            line.push(b'\n');
            output.write_all(&line).await?;
            // Flushed once a burst is written, not after each line.
            if outgoing.is_empty() {
                output.flush().await?;
            }
        }
        io::Result::Ok(())
    });
    let limit = edge.engine.snapshot().config.optimizer.limits.body_bytes;
    let mut lines = LineReader::new(BufReader::new(input), limit);
    let mut connection = Connection {
        edge: Arc::clone(&edge),
        principal,
        id: random(),
        session: None,
        closing: closing.clone(),
        sender,
        unanswered: Arc::new(Semaphore::new(MAX_REQUESTS_PER_SESSION)),
        cancelled: Arc::default(),
        tasks: TaskTracker::new(),
    };
    let mut read = Ok(());
    loop {
        let line = tokio::select! {
            () = closing.cancelled() => break,
            // A failure to read is the end of the client, whose session must be ended all the same.
            line = lines.next() => line.unwrap_or_else(|error| {
                read = Err(error);
                Line::End
            }),
        };
        match line {
            Line::End => break,
            Line::Whole(line) if line.trim_ascii().is_empty() => {}
            Line::Whole(line) => connection.receive(line).await,
            Line::TooLong => {
                let message =
                    format!("the message is larger than {limit} bytes (optimizer.limits.bodyBytes)");
                connection.refuse(None, &RpcError::new(codes::INVALID_REQUEST, message)).await;
            }
        }
    }
    if let Some(OpenedSession { session, .. }) =
        connection.session.as_ref().filter(|_| !closing.is_cancelled())
    {
        let lived = Duration::from_millis(now_millis().saturating_sub(session.began));
        let (network_transport, mcp_protocol_version) = (telemetry::PIPE, session.revision.as_str());
        let ended = ServerSession { network_transport, mcp_protocol_version };
        edge.engine.metrics().count_server_session(&ended, lived);
    }
    closing.cancel();
    connection.tasks.close();
    connection.tasks.wait().await;
    edge.push.end_session(connection.id);
    drop(connection);
    writer.await.map_err(io::Error::other)??;
    read
}

/// The one connection and its session.
struct Connection {
    edge: Arc<Edge>,
    /// The client.
    principal: Principal,
    /// Id of its session at backends, in both eras. Random: zero is the session of vmcp itself.
    id: SessionId,
    /// The session, since `initialize`.
    session: Option<OpenedSession>,
    /// Cancelled at the end of the input; ends what the client did not ask an answer for.
    closing: CancellationToken,
    sender: mpsc::Sender<Vec<u8>>,
    /// Places for requests whose answer is not written yet. A client that sends and never reads gets no more.
    unanswered: Arc<Semaphore>,
    /// Requests whose answer is not written yet, by id; true once the client has cancelled one, which is then
    /// left without an answer. Over HTTP each POST wants one.
    cancelled: Arc<Mutex<HashMap<Box<str>, bool>>>,
    tasks: TaskTracker,
}

impl Connection {
    /// Handles one line. A trait object: the streams are of the caller's types, and the caller's crate would
    /// compile all kinds of requests for them.
    fn receive(&mut self, line: Bytes) -> BoxFuture<'_, ()> {
        Box::pin(self.handle(line))
    }

    async fn handle(&mut self, line: Bytes) {
        let message = match OwnedMessage::parse(line) {
            Ok(message) => message,
            Err(error) => {
                return self
                    .refuse(error.id.as_deref(), &RpcError::new(error.code(), error.to_string()))
                    .await;
            }
        };
        let era = match headers::classify_stdio(&message) {
            Ok(era) => era,
            Err(refusal) => return self.refuse(message.id(), &refusal.error).await,
        };
        match message {
            OwnedMessage::Request(request) => self.request(request, era).await,
            OwnedMessage::Notification(notification) => self.notified(&notification),
            OwnedMessage::Response(response) => {
                self.answered(Some(response.id()), RpcOutcome::result(response.result()));
            }
            OwnedMessage::Error(error) => self.answered(error.id(), RpcOutcome::error(error.error())),
        }
    }

    /// Handles a notification.
    fn notified(&self, notification: &OwnedNotification) {
        if notification.method() == methods::CANCELLED
            && let Some(id) = notification.params().get("requestId")
            && let Some(cancelled) = self.cancelled.lock().get_mut(id)
        {
            *cancelled = true;
        }
        let revision = self.session.as_ref().map_or(Revision::MODERN, |known| known.session.revision);
        let trace = IncomingTrace { context: trace::of_message(notification.params().meta()), ambient: None };
        let sender = self.sender(revision);
        let mut operation = begin_message(&self.edge, &sender, notification.method(), None, &trace);
        self.edge.notified(self.id, notification);
        operation.settle(None);
    }

    /// Hands the client's answer to the question it belongs to. Stdio has no way to tell the client
    /// of a mistake.
    fn answered(&self, id: Option<&RawValue>, outcome: RpcOutcome) {
        let answered = id.map(|id| self.edge.questions.answer(self.id, id, outcome));
        if let Some(Err(problem)) = answered {
            tracing::debug!(%problem, "a response of the client was ignored");
        }
    }

    /// Begins a request; a task writes its messages and its answer.
    async fn request(&mut self, request: OwnedRequest, era: RequestEra) {
        let engine = &self.edge.engine;
        let snapshot = engine.for_session(engine.snapshot(), Some(self.id)).await;
        engine.prepare(&snapshot, &self.principal).await;
        let style = snapshot.config.optimizer.tool_name_style;
        let mut peer = match era {
            RequestEra::Modern(revision) => Peer::modern(revision, request.params(), style),
            RequestEra::Legacy(_) if request.method() == methods::INITIALIZE => {
                return self.initialize(&request).await;
            }
            RequestEra::Legacy(_) => {
                let Some(session) = &self.session else {
                    let error =
                        RpcError::new(codes::INVALID_REQUEST, "begin with initialize, or speak 2026-07-28");
                    return self.refuse(Some(request.id()), &error).await;
                };
                Peer::legacy(session, style, self.edge.push.router.level(self.id))
            }
        };
        peer.principal = self.principal.clone();
        if peer.era == Era::Modern && request.method() == methods::LISTEN {
            return self.subscribe(&request, &peer).await;
        }
        // Both eras cancel by notification on stdio.
        (peer.session, peer.life) = (Some(self.id), SessionLife::PROCESS);
        peer.transport = telemetry::PIPE;
        let Ok(unanswered) = Arc::clone(&self.unanswered).try_acquire_owned() else {
            let limit = TooManyRequests::OfSession;
            return self.refuse(Some(request.id()), &limit.into()).await;
        };
        let context = trace::of_message(request.params().meta());
        let trace = IncomingTrace { context, ambient: None };
        let (id, cancelled) = (Box::<str>::from(request.id().get()), Arc::clone(&self.cancelled));
        cancelled.lock().insert(id.clone(), false);
        let begin = Conversation::begin(&self.edge, snapshot, peer, trace, request, TAKES);
        let mut conversation = begin.await;
        let sender = self.sender.clone();
        self.tasks.spawn(async move {
            while let Some(step) = conversation.next().await {
                let message = match step {
                    ConversationItem::Message(message) => message,
                    ConversationItem::Answer(response) => {
                        let answer = response.collect().await.body.into_bytes();
                        if cancelled.lock().remove(&id) == Some(true) {
                            break;
                        }
                        answer.into()
                    }
                };
                // A failure means that the client is gone; its requests in flight go on.
                let _ = sender.send(message).await;
            }
            cancelled.lock().remove(&id);
            drop(unanswered);
        });
    }

    /// Handles `initialize`. The first one also opens the push stream.
    async fn initialize(&mut self, request: &OwnedRequest) {
        let mut operation = self.begin(handshake::negotiated(request.params()), request);
        self.edge.engine.learn_legacy_capabilities().await;
        let opened = handshake::initialize(&self.edge, &self.principal, request.params());
        operation::settle(&mut operation, opened.as_ref().map(|_| ()));
        drop(operation);
        match opened {
            Ok((session, _, result)) => {
                let first = self.session.replace(OpenedSession::from(session)).is_none();
                let _ = self.sender.send(rpc::response(request.id(), JsonRope::from(result))).await;
                if first {
                    self.listen();
                }
            }
            Err(error) => self.refuse(Some(request.id()), &error).await,
        }
    }

    /// Begins the operation of a request that has no handler.
    fn begin(&self, revision: Revision, request: &OwnedRequest) -> Operation {
        let trace = IncomingTrace { context: trace::of_message(request.params().meta()), ambient: None };
        begin_message(&self.edge, &self.sender(revision), request.method(), Some(request.id()), &trace)
    }

    /// Returns the client as the sender of a message of this revision.
    fn sender(&self, revision: Revision) -> Sender {
        Sender {
            revision,
            transport: telemetry::PIPE,
            http_version: None,
            session: Some(self.id),
            address: self.principal.address,
            port: None,
        }
    }

    /// Spawns a task that writes the messages of the push stream.
    fn listen(&self) {
        let (edge, sender) = (Arc::clone(&self.edge), self.sender.clone());
        let (principal, id, closing) = (self.principal.clone(), self.id, self.closing.clone());
        self.tasks.spawn(async move {
            // A stream that was ended because the client did not read is opened again: there is no other way
            // to push on stdio.
            while !closing.is_cancelled() {
                let stream = streams::session_stream(&edge.push, id, &principal, SessionLife::PROCESS);
                write_until_gone(stream, &sender, &closing, &edge).await;
            }
        });
    }

    /// Handles `subscriptions/listen`; a task writes its messages.
    async fn subscribe(&self, request: &OwnedRequest, peer: &Peer) {
        let mut operation = self.begin(peer.revision, request);
        let cancel = CancellationToken::new();
        let entered = match self.edge.in_flight.enter(self.id, request.id(), &cancel) {
            Ok(entered) => entered,
            Err(limit) => {
                let error = RpcError::from(limit);
                operation::settle(&mut operation, Err(&error));
                return self.refuse(Some(request.id()), &error).await;
            }
        };
        let push = &self.edge.push;
        let messages = streams::listen_stream(push, peer, request.params(), request.id(), cancel);
        // It ends with the acknowledgment.
        let messages = operation::until_first_message(messages, operation);
        let (sender, closing, edge) = (self.sender.clone(), self.closing.clone(), Arc::clone(&self.edge));
        self.tasks.spawn(async move {
            write_until_gone(messages, &sender, &closing, &edge).await;
            drop(entered);
        });
    }

    /// Writes an error response.
    async fn refuse(&self, id: Option<&RawValue>, error: &RpcError) {
        self.edge.engine.call_observers().refused(&Refusal {
            principal: &self.principal,
            reason: &error.message,
            method: Some("stdio"),
            subject: None,
            session: None,
            trace: None,
        });
        let _ = self.sender.send(rpc::error(id, JsonRope::from(error.to_json()))).await;
    }
}

/// Writes a stream of messages until it ends, or until the client is gone.
async fn write_until_gone(
    messages: impl futures::Stream<Item = Bytes>,
    sender: &mpsc::Sender<Vec<u8>>,
    closing: &CancellationToken,
    edge: &Edge,
) {
    let gone = async {
        closing.cancelled().await;
        // At shutdown the stream ends by itself, behind its last message.
        if edge.closing.is_cancelled() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = write(messages, sender) => {}
        () = gone => {}
    }
}

/// Writes a stream of messages.
async fn write(messages: impl futures::Stream<Item = Bytes>, sender: &mpsc::Sender<Vec<u8>>) {
    let mut messages = std::pin::pin!(messages);
    while let Some(message) = messages.next().await {
        // A failure means that the client is gone; the end of its input ends everything.
        let _ = sender.send(message.into()).await;
    }
}
