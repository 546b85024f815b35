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
use vmcp_wire::asking;
use vmcp_wire::envelope::Message;
use vmcp_wire::era::Era;
use vmcp_wire::methods;
use vmcp_wire::rpc;
use vmcp_wire::splice::Spliced;
use vmcp_wire::translate::{self, NotificationPlan, Translated};

use super::Edge;
use super::dispatch::{self, Handled};
use super::peer::Peer;
use super::questions::{Asked, Questions};
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

type Work = Pin<Box<dyn Future<Output = Handled> + Send>>;

/// A request under way; a stream of [`Step`]s.
pub(super) struct Conversation {
    client: Client,
    /// Gone when it is done.
    work: Option<Work>,
    events: mpsc::Receiver<Event>,
    open: Vec<OpenQuestion>,
    answer: Option<Handled>,
}

/// What has to be known of the client after the request has begun.
struct Client {
    questions: Arc<Questions>,
    era: Era,
    session: Option<SessionId>,
    capabilities: Option<Arc<RawValue>>,
}

/// A question that the client has on its screen.
struct OpenQuestion {
    asked: Asked,
    /// The way back to the backend.
    answer: oneshot::Sender<Outcome>,
}

impl Conversation {
    /// Begins to serve `message`, a request of `peer`. With `streams` the client takes messages before the answer.
    pub(super) fn begin(
        edge: &Arc<Edge>,
        peer: Peer,
        trace: TraceContext,
        message: Bytes,
        streams: bool,
    ) -> Self {
        let (sender, events) = mpsc::channel(QUEUE);
        let caller = Caller {
            identity: peer.identity,
            client: peer.client.clone(),
            trace,
            session: peer.session,
            events: streams.then_some(sender),
            cancel: CancellationToken::new(),
        };
        let client = Client {
            questions: Arc::clone(&edge.questions),
            era: peer.era,
            session: peer.session,
            capabilities: peer.client.capabilities.clone(),
        };
        let edge = Arc::clone(edge);
        let work = async move { dispatch::run(&edge, &peer, caller, &message).await };
        Self { client, work: Some(Box::pin(work)), events, open: Vec::new(), answer: None }
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
            Event::Question(question) => {
                let asked = self.client.ask(&question)?;
                let params = question.params.as_deref().map(Spliced::from);
                let message = rpc::question(asked.id(), &question.method, params);
                self.open.push(OpenQuestion { asked, answer: question.answer });
                Some(message)
            }
        }
    }
}

impl Client {
    /// A notification in the terms of the client's era, if there are any.
    fn notification(&self, message: &RawValue) -> Option<Vec<u8>> {
        let Ok(Message::Notification(notification)) = Message::parse(message.get().as_bytes()) else {
            return None;
        };
        let plan = NotificationPlan { to: self.era, ..NotificationPlan::default() };
        match translate::notification(&notification.method, notification.params, &plan) {
            Ok(Translated::Params(params)) => Some(rpc::notification(&notification.method, params)),
            Ok(Translated::Dropped) | Err(_) => None,
        }
    }

    fn ask(&self, question: &Question) -> Option<Asked> {
        let session = self.session.filter(|_| self.era == Era::Legacy)?;
        let declared = self.capabilities.as_deref();
        let may = asking::may_ask(declared, &question.method, question.params.as_deref());
        may.then(|| self.questions.ask(session)).flatten()
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
        while let Some(work) = &mut this.work {
            // In this order: what the work sent before it ended goes before its answer.
            let done = work.as_mut().poll(cx);
            if let Some(message) = this.poll_questions(cx) {
                return Poll::Ready(Some(Step::Message(message)));
            }
            match (this.events.poll_recv(cx), done) {
                (Poll::Ready(Some(event)), done) => {
                    if let Poll::Ready(handled) = done {
                        (this.work, this.answer) = (None, Some(handled));
                    }
                    if let Some(message) = this.message(event) {
                        return Poll::Ready(Some(Step::Message(message)));
                    }
                }
                (_, Poll::Ready(handled)) => (this.work, this.answer) = (None, Some(handled)),
                (_, Poll::Pending) => return Poll::Pending,
            }
        }
        while let Ok(event) = this.events.try_recv() {
            if let Event::Notification(message) = event
                && let Some(message) = this.client.notification(&message)
            {
                return Poll::Ready(Some(Step::Message(message)));
            }
        }
        if let Some(question) = this.open.pop() {
            return Poll::Ready(Some(Step::Message(taken_back(question.asked.id()))));
        }
        Poll::Ready(this.answer.take().map(Step::Answer))
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        if self.client.era == Era::Legacy
            && let Some(work) = self.work.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(work);
        }
    }
}
