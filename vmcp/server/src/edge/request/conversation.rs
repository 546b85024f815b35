//! One request from its begin to its answer, as its client sees it: what the backend sends before the answer, in order, and
//! then the answer. Transports poll it and write what it yields.
//!
//! It runs in whoever polls it; no task stands behind it. A client of an earlier revision that goes away does not cancel
//! its request by that, so what is left of the work is then run to its end by a task.

mod client;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use vmcp_backend::{Event, RpcOutcome};
use vmcp_json::json_rope::JsonRope;
use vmcp_json::object::Object;
use vmcp_wire::codes;
use vmcp_wire::envelope::Request;
use vmcp_wire::era::Era;
use vmcp_wire::keys::INPUT_RESPONSES;
use vmcp_wire::params::Params;
use vmcp_wire::rpc::{self, RpcError};
use vmcp_wire::sealed::request_state::Continuation;

use super::dispatch::{self, RelayedState};
use super::edge::Edge;
use super::encoded_response::EncodedResponse;
use super::parked;
use super::running_call::RunningCall;
use crate::edge::session::peer::Peer;
use crate::edge::session::pending_questions::PendingQuestion;
use crate::edge::session::random::now;
use crate::route::Caller;
use crate::telemetry::traces::TraceContext;
use client::{Client, ResumedRequest};

/// Messages of one request that wait for a slow client; then the backend waits.
const EVENT_QUEUE: usize = 64;

/// What goes to the client next.
#[derive(Debug)]
pub(crate) enum ConversationItem {
    /// A message before the answer: a notification or a question.
    Message(Vec<u8>),
    /// The answer, which is the end.
    Answer(EncodedResponse),
}

/// A request under way; a stream of [`ConversationItem`]s.
pub(crate) struct Conversation {
    client: Client,
    call: RunningCall,
    /// Questions that a client of an earlier revision has on its screen.
    open: Vec<OpenQuestion>,
}

/// A question, and the way back to the backend.
struct OpenQuestion {
    asked: PendingQuestion,
    answer: oneshot::Sender<RpcOutcome>,
}

impl Conversation {
    /// Begins to serve `request`, which came as `message` from `peer`. With `streams` the client takes messages before the
    /// answer.
    pub(crate) async fn begin(
        edge: &Arc<Edge>,
        peer: Peer,
        trace: TraceContext,
        (request, params): (&Request<'_>, &Params<'_>),
        message: Bytes,
        streams: bool,
    ) -> Self {
        let client = Client {
            edge: Arc::clone(edge),
            identity: peer.identity,
            era: peer.era,
            session: peer.session,
            capabilities: peer.client.capabilities.clone(),
            message: message.clone(),
            resumed: None,
        };
        let continues = match client.continuation(request, params) {
            Ok(None) => None,
            Ok(Some(Continuation::Relayed { backend, state })) => {
                Some(RelayedState { backend: backend.into(), state })
            }
            Ok(Some(Continuation::Parked { process, call })) => {
                return match edge.parked.take(process, call).await {
                    Ok(call) => Self::resume(client, call, request, params),
                    Err(error) => Self::refused(client, request, error.to_string()),
                };
            }
            Err(error) => return Self::refused(client, request, error.to_string()),
        };
        let (sender, events) = mpsc::channel(EVENT_QUEUE);
        let cancel = CancellationToken::new();
        let mut facts = peer.client.clone();
        if peer.era == Era::Legacy && !streams {
            // Who takes no stream cannot be asked on one, whatever it declared.
            facts.capabilities = None;
        }
        let caller = Caller {
            identity: peer.identity,
            era: peer.era,
            client: facts,
            trace,
            // On stdio a modern client has one too, by which it cancels; to backends it means state kept for it.
            session: peer.session.filter(|_| peer.era == Era::Legacy),
            events: streams.then_some(sender),
            cancel: cancel.clone(),
            continues: continues.as_ref().map(|relayed| Arc::clone(&relayed.backend)),
        };
        let edge = Arc::clone(edge);
        let work = async move { dispatch::run(&edge, &peer, caller, continues, &message).await };
        Self { client, call: RunningCall::new(Box::pin(work), events, cancel), open: Vec::new() }
    }

    /// A request that carries what cannot be taken.
    fn refused(client: Client, request: &Request<'_>, message: String) -> Self {
        let answer =
            EncodedResponse::error(client.era, request.id, &RpcError::new(codes::INVALID_PARAMS, message));
        Self { client, call: RunningCall::answered(Some(answer)), open: Vec::new() }
    }

    /// Goes on with a call that waited for this request.
    fn resume(mut client: Client, mut call: RunningCall, request: &Request<'_>, params: &Params<'_>) -> Self {
        let responses =
            params.object.get(INPUT_RESPONSES).and_then(|responses| Object::parse(responses).ok());
        call.input_requests.answer(&responses.unwrap_or_default());
        client.resumed = Some(ResumedRequest {
            id: request.id.to_owned(),
            token: params.meta.progress_token().map(ToOwned::to_owned),
            _entered: client
                .session
                .and_then(|session| client.edge.in_flight.enter(session, request.id, &call.cancel)),
        });
        Self { client, call, open: Vec::new() }
    }

    /// Lets the call wait until the client has answered what it is asked with this answer.
    fn park(&mut self) -> EncodedResponse {
        let result = self.call.input_requests.result();
        let call = std::mem::replace(&mut self.call, RunningCall::answered(None));
        let parked = self.client.edge.parked.park(call);
        let sealed = parked.map_err(|_| None).and_then(|continuation| {
            let until = now().saturating_add(parked::PARKED_CALL_TIMEOUT.as_secs());
            self.client.seal(&continuation, until).map_err(Some)
        });
        self.client.ask_for_input(result, sealed)
    }

    /// Passes on what the client answered, and takes back what nobody waits for any more.
    fn poll_questions(&mut self, cx: &mut Context<'_>) -> Option<Vec<u8>> {
        let mut at = 0;
        while let Some(question) = self.open.get_mut(at) {
            if let Poll::Ready(outcome) = question.asked.poll(cx) {
                let question = self.open.swap_remove(at);
                if let Some(outcome) = outcome {
                    // The backend may have gone this moment.
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

    /// What an event is for the client. A question that it cannot be asked is dropped, which tells the backend.
    fn message(&mut self, event: Event) -> Option<Vec<u8>> {
        match event {
            Event::Notification(message) => self.client.notification(&message),
            Event::Question(question) if !self.client.may_be_asked(&question) => None,
            Event::Question(question) if self.client.era == Era::Modern => {
                self.call.input_requests.push(question);
                None
            }
            Event::Question(question) => {
                let asked = self.client.edge.questions.ask(self.client.session?)?;
                let params = question.params.as_deref().map(JsonRope::from);
                let message = rpc::question(asked.id(), &question.method, params);
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
                // All that the backend asked so far is asked at once.
                _ if !this.call.input_requests.is_empty() => {
                    return Poll::Ready(Some(ConversationItem::Answer(this.park())));
                }
                _ => return Poll::Pending,
            }
        }
        // What was sent before the work ended goes before its answer; a question is too late.
        while let Ok(event) = this.call.events.try_recv() {
            if let Event::Notification(message) = event
                && let Some(message) = this.client.notification(&message)
            {
                return Poll::Ready(Some(ConversationItem::Message(message)));
            }
        }
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
        if self.client.era == Era::Legacy
            && let Some(work) = self.call.work.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(work);
        }
    }
}
