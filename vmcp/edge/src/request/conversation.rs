//! [`Conversation`]: one request as its client sees it: messages of the backend before the answer, in order,
//! then the answer.
//!
//! A conversation is a stream that its transport polls; no task runs it. A legacy client that disconnects has
//! not cancelled its request, so dropping the conversation spawns a task for the rest of the work. Dropping
//! the conversation of a modern client cancels the request.

mod client;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use vmcp_backend::{Event, RpcOutcome, event_queue};
use vmcp_json::object::Object;
use vmcp_wire::codes;
use vmcp_wire::era::Era;
use vmcp_wire::keys::INPUT_RESPONSES;
use vmcp_wire::owned::OwnedRequest;
use vmcp_wire::rpc::RpcError;
use vmcp_wire::sealed::request_state::Continuation;

use super::client_state::parked;
use super::client_state::relayed_state::RelayedState;
use super::dispatch::Dispatch;
use super::edge::Edge;
use super::encoded_response::EncodedResponse;
use super::lists;
use super::running_call::{CallRights, RunningCall};
use crate::session::peer::Peer;
use crate::session::pending_questions::{ClientNetwork, PendingQuestion};
use client::{Client, ResumedRequest};
use vmcp_engine::engine::Snapshot;
use vmcp_engine::random::now;
use vmcp_engine::telemetry::calls::Refusal;
use vmcp_engine::telemetry::traces::{IncomingTrace, TraceContext};
use vmcp_route::{Caller, Consent};

/// Events of one request that wait for a slow client; beyond them the backend waits (backpressure).
const EVENT_QUEUE: usize = 64;

/// The next item for the client.
#[derive(Debug)]
pub(crate) enum ConversationItem {
    /// A message before the answer: a notification or a question.
    Message(Vec<u8>),
    /// The answer; the last item.
    Answer(EncodedResponse),
}

/// Parts of an answer that a client and the transport to it can take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AcceptedMessages {
    /// Messages before the answer.
    pub(crate) messages: bool,
    /// A large answer while it arrives.
    pub(crate) arriving: bool,
}

/// A request in flight; a stream of [`ConversationItem`]s.
pub(crate) struct Conversation {
    client: Client,
    call: RunningCall,
    /// Questions that a legacy client has not answered yet.
    open: Vec<OpenQuestion>,
}

/// A question to the client, with the channel that answers the backend.
struct OpenQuestion {
    asked: PendingQuestion,
    answer: oneshot::Sender<RpcOutcome>,
}

impl Conversation {
    /// Begins to serve `request`, which came from `peer`.
    pub(crate) async fn begin(
        edge: &Arc<Edge>,
        snapshot: Arc<Snapshot>,
        peer: Peer,
        trace: IncomingTrace,
        request: OwnedRequest,
        takes: AcceptedMessages,
    ) -> Self {
        let client = Client {
            edge: Arc::clone(edge),
            principal: peer.principal.clone(),
            era: peer.era,
            session: peer.session,
            network: ClientNetwork {
                revision: peer.revision,
                transport: peer.transport,
                http_version: peer.http_version,
            },
            capabilities: peer.client.capabilities.clone(),
            request: request.clone(),
            resumed: None,
        };
        let mut consented = None;
        let continues = match client.continuation() {
            Ok(None) => None,
            Ok(Some(Continuation::Relayed { backend, state, consent })) => {
                // Taken by the first use; another asks the user again.
                consented = consent.and_then(|consent| edge.consents.take(&consent));
                Some(RelayedState { backend: backend.into(), state })
            }
            Ok(Some(Continuation::Parked { process, call, home: _ })) => {
                return match edge.parked.take(process, call).await {
                    // The answers would reach a backend that the client may no longer call.
                    Ok(call) if call.is_outdated(&peer.principal, &snapshot) => {
                        call.cancel.cancel();
                        let message =
                            "the policies or your rights have changed since the call began; make it again";
                        Self::refused(client, message.to_owned())
                    }
                    Ok(call) => Self::resume(client, call),
                    Err(error) => Self::refused(client, error.to_string()),
                };
            }
            Err(error) => return Self::refused(client, error.to_string()),
        };
        let (sender, events) = event_queue(EVENT_QUEUE);
        let cancel = CancellationToken::new();
        let mut facts = peer.client.clone();
        if peer.era == Era::Legacy && !takes.messages {
            // A client that accepts no stream cannot be asked on one, whatever capabilities it declared.
            facts.capabilities = None;
        }
        let caller = Caller {
            principal: peer.principal.clone(),
            forwarded: peer.forwarded.clone(),
            era: peer.era,
            client: facts,
            // The dispatch sets both: it begins the span of the request.
            trace: TraceContext::default(),
            trace_id: None,
            // On stdio a modern client has a session too, for cancellation; to backends a session would mean
            // state.
            session: peer.session.filter(|_| peer.era == Era::Legacy),
            context: lists::context_handle(request.params()),
            events: takes.messages.then_some(sender),
            takes_arriving: takes.arriving,
            confirmed: false,
            consent: Consent::to(consented),
            cancel: cancel.clone(),
            continues: continues.as_ref().map(|relayed| Arc::clone(&relayed.backend)),
        };
        let edge = Arc::clone(edge);
        let rights = Some(CallRights::new(&peer.principal, &snapshot));
        let work = async move {
            Dispatch { edge: &edge, snapshot: &snapshot, peer: &peer, request: &request }
                .run(caller, trace, continues)
                .await
        };
        let call = RunningCall { rights, ..RunningCall::new(Box::pin(work), events, cancel) };
        Self { client, call, open: Vec::new() }
    }

    /// Answers a request whose `requestState` cannot be used.
    fn refused(client: Client, message: String) -> Self {
        client.edge.engine.call_observers().refused(&Refusal {
            principal: &client.principal,
            reason: &format!("requestState: {message}"),
            method: Some(client.request.method()),
            subject: client.request.subject().as_deref(),
            session: client.session,
            trace: None,
        });
        let answer = EncodedResponse::error(
            client.era,
            client.request.id(),
            &RpcError::new(codes::INVALID_PARAMS, message),
        );
        Self { client, call: RunningCall::answered(Some(answer)), open: Vec::new() }
    }

    /// Resumes a parked call with the answers that this request carries.
    fn resume(mut client: Client, mut call: RunningCall) -> Self {
        let (id, params) = (client.request.id(), client.request.params());
        let responses = params.get(INPUT_RESPONSES).and_then(|responses| Object::parse_valid(responses).ok());
        call.input_requests.answer(&responses.unwrap_or_default());
        client.resumed = Some(ResumedRequest {
            token: params
                .meta()
                .progress_token()
                .and_then(|token| RawValue::from_string(token.to_owned()).ok()),
            _entered: client
                .session
                .and_then(|session| client.edge.in_flight.enter(session, id, &call.cancel).ok()),
        });
        Self { client, call, open: Vec::new() }
    }

    /// Parks the call and returns the `input_required` answer that carries its open questions.
    fn park(&mut self) -> EncodedResponse {
        let result = self.call.input_requests.result();
        let call = std::mem::replace(&mut self.call, RunningCall::answered(None));
        let home = self.client.edge.home_address();
        let parked = self.client.edge.parked.park(self.client.principal.key(), call, home);
        let sealed = parked.map_err(|_| None).and_then(|continuation| {
            let until = now().saturating_add(parked::PARKED_CALL_TIMEOUT.as_secs());
            self.client.seal(&continuation, until).map_err(Some)
        });
        self.client.ask_for_input(result, sealed)
    }

    /// Forwards answers of the client to the backend. Returns a cancellation for the client if the backend no
    /// longer waits for an answer.
    fn poll_questions(&mut self, cx: &mut Context<'_>) -> Option<Vec<u8>> {
        let mut at = 0;
        while let Some(question) = self.open.get_mut(at) {
            if let Poll::Ready(outcome) = question.asked.poll(cx) {
                let question = self.open.swap_remove(at);
                if let Some(outcome) = outcome {
                    // The backend may have gone in the meantime.
                    let _ = question.answer.send(outcome);
                }
            } else if question.answer.poll_closed(cx).is_ready() {
                return Some(self.open.swap_remove(at).asked.cancellation());
            } else {
                at += 1;
            }
        }
        None
    }

    /// Encodes an event for the client. A question that the client cannot be asked is dropped, which tells
    /// the backend; one to a modern client is collected for the `input_required` answer.
    fn message(&mut self, event: Event) -> Option<Vec<u8>> {
        match event {
            Event::Notification(message) => self.client.notification(&message),
            Event::Question(question) if !self.client.may_be_asked(&question) => None,
            Event::Question(question) if self.client.era == Era::Modern => {
                self.call.input_requests.push(question);
                None
            }
            Event::Question(question) => {
                let mut asked =
                    self.client.edge.questions.ask(self.client.principal.key(), self.client.session?)?;
                let message = asked.message(&question, Some(self.client.network));
                self.open.push(OpenQuestion { asked, answer: question.answer });
                Some(message)
            }
        }
    }
}

impl Stream for Conversation {
    type Item = ConversationItem;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ConversationItem>> {
        let this = self.get_mut();
        while let Some(work) = &mut this.call.work {
            if let Poll::Ready(response) = work.as_mut().poll(cx) {
                (this.call.work, this.call.answer) = (None, Some(response));
                break;
            }
            if let Some(message) = this.poll_questions(cx) {
                return Poll::Ready(Some(ConversationItem::Message(message)));
            }
            match this.call.events.poll_recv(cx) {
                Poll::Ready(Some(event)) => {
                    if let Some(message) = this.message(event) {
                        return Poll::Ready(Some(ConversationItem::Message(message)));
                    }
                }
                // The backend waits and no event is left: everything it asked so far goes into one
                // `input_required` answer.
                _ if !this.call.input_requests.is_empty() => {
                    return Poll::Ready(Some(ConversationItem::Answer(this.park())));
                }
                _ => return Poll::Pending,
            }
        }
        // Notifications that the backend sent before its answer still precede it; a question is too late.
        while let Some(event) = this.call.events.try_recv() {
            if let Event::Notification(message) = event
                && let Some(message) = this.client.notification(&message)
            {
                return Poll::Ready(Some(ConversationItem::Message(message)));
            }
        }
        // Questions that are still open are withdrawn before the answer.
        if let Some(question) = this.open.pop() {
            return Poll::Ready(Some(ConversationItem::Message(question.asked.cancellation())));
        }
        Poll::Ready(
            this.call
                .answer
                .take()
                .map(|answer| ConversationItem::Answer(this.client.under_present_id(answer))),
        )
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // Modern clients cancel by closing the stream; the dropped work cancels its token.
        if self.client.era == Era::Legacy
            && let Some(work) = self.call.work.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(work);
        }
    }
}
