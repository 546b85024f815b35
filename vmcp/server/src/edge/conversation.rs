//! One request from its begin to its answer, as its client sees it: what the backend sends before the answer, in order, and
//! then the answer. Transports poll it and write what it yields.
//!
//! It runs in whoever polls it; no task stands behind it. A client of an earlier revision that goes away does not cancel
//! its request by that, so what is left of the work is then run to its end by a task.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use vmcp_backend::{Event, Outcome, Question, SessionId};
use vmcp_wire::envelope::{Message, Request};
use vmcp_wire::era::Era;
use vmcp_wire::object::Object;
use vmcp_wire::params::Params;
use vmcp_wire::rpc::{self, RpcError};
use vmcp_wire::splice::Spliced;
use vmcp_wire::state::{Continuation, StateError};
use vmcp_wire::translate::{self, INPUT_RESPONSES, NotificationPlan, REQUEST_STATE, ResultPlan, Translated};
use vmcp_wire::{asking, codes, json, methods};

use super::Edge;
use super::dispatch::{self, Handled, Relayed};
use super::handshake::SERVER_INFO;
use super::in_flight::Entered;
use super::parked::{self, Call};
use super::peer::Peer;
use super::questions::Asked;
use super::random::{now, random};
use crate::identity::Identity;
use crate::route::{Caller, TraceContext};

/// Messages of one request that wait for a slow client; then the backend waits.
const QUEUE: usize = 64;

/// What goes to the client next.
#[derive(Debug)]
pub(super) enum Step {
    /// A message before the answer: a notification or a question.
    Message(Vec<u8>),
    /// The answer, which is the end.
    Answer(Handled),
}

/// What a request does until it has its answer.
pub(super) type Work = Pin<Box<dyn Future<Output = Handled> + Send>>;

/// A request under way; a stream of [`Step`]s.
pub(super) struct Conversation {
    client: Client,
    call: Call,
    /// Questions that a client of an earlier revision has on its screen.
    open: Vec<OpenQuestion>,
}

/// What has to be known of the client after the request has begun.
struct Client {
    edge: Arc<Edge>,
    identity: Identity,
    era: Era,
    session: Option<SessionId>,
    capabilities: Option<Arc<RawValue>>,
    /// Its request.
    message: Bytes,
    /// How it took up a call that had been parked.
    resumed: Option<Resumed>,
}

/// A call that began with another request.
struct Resumed {
    /// The id of the present request.
    id: Box<RawValue>,
    /// Its progress token.
    token: Option<Box<RawValue>>,
    _entered: Option<Entered>,
}

struct OpenQuestion {
    asked: Asked,
    /// The way back to the backend.
    answer: oneshot::Sender<Outcome>,
}

impl Conversation {
    /// Begins to serve `request`, which came as `message` from `peer`. With `streams` the client takes messages before the
    /// answer.
    pub(super) async fn begin(
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
                Some(Relayed { backend: backend.into(), state })
            }
            Ok(Some(Continuation::Parked { process, call })) => {
                return match edge.parked.take(process, call).await {
                    Ok(call) => Self::resume(client, call, request, params),
                    Err(error) => client.refused(request, error.to_string()),
                };
            }
            Err(error) => return client.refused(request, error.to_string()),
        };
        let (sender, events) = mpsc::channel(QUEUE);
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
        Self { client, call: Call::new(Box::pin(work), events, cancel), open: Vec::new() }
    }

    /// Goes on with a call that waited for this request.
    fn resume(mut client: Client, mut call: Call, request: &Request<'_>, params: &Params<'_>) -> Self {
        let responses =
            params.object.get(INPUT_RESPONSES).and_then(|responses| Object::parse(responses).ok());
        call.asked.answer(&responses.unwrap_or_default());
        client.resumed = Some(Resumed {
            id: request.id.to_owned(),
            token: params.meta.progress_token().map(ToOwned::to_owned),
            _entered: client
                .session
                .map(|session| client.edge.in_flight.enter(session, request.id, &call.cancel)),
        });
        Self { client, call, open: Vec::new() }
    }

    /// Lets the call wait until the client has answered what it is asked with this answer.
    fn park(&mut self) -> Handled {
        let result = self.call.asked.result();
        let call = std::mem::replace(&mut self.call, Call::answered(None));
        let parked = self.client.edge.parked.park(call);
        let sealed = parked.map_err(|_| None).and_then(|continuation| {
            let until = now().saturating_add(parked::PATIENCE.as_secs());
            self.client.seal(&continuation, until).map_err(Some)
        });
        self.client.asks(result, sealed)
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
                return Some(taken_back(self.open.swap_remove(at).asked.id()));
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
                self.call.asked.push(question);
                None
            }
            Event::Question(question) => {
                let asked = self.client.edge.questions.ask(self.client.session?)?;
                let params = question.params.as_deref().map(Spliced::from);
                let message = rpc::question(asked.id(), &question.method, params);
                self.open.push(OpenQuestion { asked, answer: question.answer });
                Some(message)
            }
        }
    }
}

impl Client {
    fn refused(self, request: &Request<'_>, message: String) -> Conversation {
        let answer = Handled::error(self.era, request.id, &RpcError::new(codes::INVALID_PARAMS, message));
        Conversation { client: self, call: Call::answered(Some(answer)), open: Vec::new() }
    }

    /// What a modern client carried back, if this is the repetition of a request.
    fn continuation(
        &self,
        request: &Request<'_>,
        params: &Params<'_>,
    ) -> Result<Option<Continuation>, StateError> {
        if self.era == Era::Legacy || !methods::may_require_input(&request.method) {
            return Ok(None);
        }
        let Some(state) = params.object.text(REQUEST_STATE) else { return Ok(None) };
        // What is no string is no state of ours either.
        let state = json::unquoted(state).unwrap_or_default();
        let binding = dispatch::binding(self.identity, request, params);
        Continuation::open(&self.edge.ring(), &state, &binding, now()).map(Some)
    }

    fn seal(&self, continuation: &Continuation, until: u64) -> Result<String, StateError> {
        let Ok(Message::Request(request)) = Message::parse(&self.message) else {
            return Err(StateError::Content);
        };
        let Ok(params) = Params::parse(request.params) else { return Err(StateError::Content) };
        let binding = dispatch::binding(self.identity, &request, &params);
        continuation.seal(&self.edge.ring(), &random(), &binding, until)
    }

    /// The answer that asks, with the state that the client is to carry; an error without one.
    fn asks(&self, result: Spliced<'_>, sealed: Result<String, Option<StateError>>) -> Handled {
        let Ok(Message::Request(request)) = Message::parse(&self.message) else {
            return dispatch::internal_error();
        };
        let state = match sealed {
            Ok(state) => state,
            Err(problem) => {
                let message = problem.map_or_else(
                    || "too many calls wait for input from their clients; try again later".to_owned(),
                    |problem| problem.to_string(),
                );
                return Handled::error(self.era, request.id, &RpcError::new(codes::INTERNAL_ERROR, message));
            }
        };
        let Ok(result) = result.into_raw() else { return dispatch::internal_error() };
        let plan = ResultPlan {
            from: Era::Modern,
            to: Era::Modern,
            server_info: Some(SERVER_INFO),
            request_state: Some(&state),
            ..ResultPlan::default()
        };
        match translate::result(&request.method, &result, &plan) {
            Ok(result) => Handled::ok(rpc::response(request.id, result)),
            Err(_) => dispatch::internal_error(),
        }
    }

    /// A notification in the terms of the client's era, if there are any.
    fn notification(&self, message: &RawValue) -> Option<Vec<u8>> {
        let Ok(Message::Notification(notification)) = Message::parse(message.get().as_bytes()) else {
            return None;
        };
        let mut plan = NotificationPlan { to: self.era, ..NotificationPlan::default() };
        if let Some(resumed) = self.resumed.as_ref().filter(|_| notification.method == methods::PROGRESS) {
            plan.progress_token = Some(resumed.token.as_deref()?);
        }
        match translate::notification(&notification.method, notification.params, &plan) {
            Ok(Translated::Params(params)) => Some(rpc::notification(&notification.method, params)),
            Ok(Translated::Dropped) | Err(_) => None,
        }
    }

    fn may_be_asked(&self, question: &Question) -> bool {
        asking::may_ask(self.capabilities.as_deref(), &question.method, question.params.as_deref())
    }

    /// An answer under the id of the present request.
    fn under_present_id(&self, handled: Handled) -> Handled {
        let Some(resumed) = &self.resumed else { return handled };
        let Handled { status, body } = handled;
        let body = body.into_bytes();
        let body = match Message::parse(&body) {
            Ok(Message::Response(response)) => rpc::response(&resumed.id, response.result),
            Ok(Message::Error(error)) => rpc::error(Some(&resumed.id), error.error),
            _ => return dispatch::internal_error(),
        };
        Handled { status, body: body.into() }
    }
}

fn taken_back(id: &str) -> Vec<u8> {
    let params = serde_json::json!({"requestId": id, "reason": "nobody waits for the answer any more"});
    rpc::notification(methods::CANCELLED, Some(Spliced::from(params.to_string())))
}

impl Stream for Conversation {
    type Item = Step;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Step>> {
        let this = self.get_mut();
        while let Some(work) = &mut this.call.work {
            if let Poll::Ready(handled) = work.as_mut().poll(cx) {
                (this.call.work, this.call.answer) = (None, Some(handled));
                break;
            }
            if let Some(message) = this.poll_questions(cx) {
                return Poll::Ready(Some(Step::Message(message)));
            }
            match this.call.events.poll_recv(cx) {
                Poll::Ready(Some(event)) => {
                    if let Some(message) = this.message(event) {
                        return Poll::Ready(Some(Step::Message(message)));
                    }
                }
                // All that the backend asked so far is asked at once.
                _ if !this.call.asked.is_empty() => return Poll::Ready(Some(Step::Answer(this.park()))),
                _ => return Poll::Pending,
            }
        }
        // What was sent before the work ended goes before its answer; a question is too late.
        while let Ok(event) = this.call.events.try_recv() {
            if let Event::Notification(message) = event
                && let Some(message) = this.client.notification(&message)
            {
                return Poll::Ready(Some(Step::Message(message)));
            }
        }
        if let Some(question) = this.open.pop() {
            return Poll::Ready(Some(Step::Message(taken_back(question.asked.id()))));
        }
        Poll::Ready(this.call.answer.take().map(|answer| Step::Answer(this.client.under_present_id(answer))))
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
