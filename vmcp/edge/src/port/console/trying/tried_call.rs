//! [`TriedCall`]: a call of the console, which asks the operator in place of a client.
//!
//! The call is that of a legacy client, to which questions come while the call is under way: the router puts
//! the questions of a modern server to it too, and repeats the request with the answers.

use std::collections::VecDeque;
use std::future::ready;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use vmcp_backend::{ClientFacts, Event, EventReceiver, EventSender, Question, RpcOutcome, event_queue};
use vmcp_engine::access::identity::Principal;
use vmcp_engine::access::policy::Policy;
use vmcp_engine::engine::Engine;
use vmcp_route::Caller;
use vmcp_wire::methods;

use crate::port::admin::operator_call::{self, OperatorAnswer, OperatorCall};

/// Questions that the console answers: forms and addresses.
const CAPABILITIES: &str = r#"{"elicitation":{"form":{},"url":{}}}"#;
/// Questions of a call that the page has not read; a further one is refused, or waits.
const EVENT_QUEUE: usize = 64;
/// Open questions of a call; a further one is refused.
const MAX_QUESTIONS: usize = 32;
/// Refused requests that the page names.
const MAX_REFUSED: usize = 10;
/// Characters of the method of a refused request.
const MAX_METHOD_CHARS: usize = 64;

/// The end of a call.
pub(super) type TriedEnd = serde_json::Result<OperatorAnswer>;

/// A call under way. Dropping it cancels the call.
pub(super) struct TriedCall {
    work: AbortOnDropHandle<TriedEnd>,
    events: EventReceiver,
    /// True once no event can come.
    is_silent: bool,
    /// Number and question, in the order they were asked.
    open: VecDeque<(u64, Question)>,
    /// Number of the newest question.
    last: u64,
    refused: Vec<String>,
    /// The policy that judged the call.
    policy: Arc<dyn Policy>,
}

/// The next thing that a person sees of a call.
pub(super) enum Step {
    /// The call has ended. Beside its end, the methods of requests that were refused.
    Ended(TriedEnd, Vec<String>),
    /// Questions are open, and the server waits.
    Asks(TriedCall),
}

/// Returns a sender to the same queue that drops notifications: while a person thinks, progress and log
/// messages would fill the queue, and keep a question out.
fn of_questions(sender: &EventSender) -> EventSender {
    sender.mapped(Arc::new(|event: Event| matches!(event, Event::Question(_)).then_some(event)))
}

impl TriedCall {
    /// Begins a call for `principal`.
    pub(super) fn begin(engine: Engine, principal: Principal, call: OperatorCall) -> TriedCall {
        let (sender, events) = event_queue(EVENT_QUEUE);
        let sender = of_questions(&sender);
        let capabilities = RawValue::from_string(CAPABILITIES.to_owned()).ok().map(Arc::from);
        let caller = Caller {
            principal,
            client: ClientFacts { capabilities, ..ClientFacts::default() },
            events: Some(sender),
            confirmed: call.confirmed,
            ..Caller::default()
        };
        let policy = Arc::clone(&engine.snapshot().policy);
        let work = async move { operator_call::call_for(&engine, &caller, &call).await };
        TriedCall {
            work: AbortOnDropHandle::new(tokio::spawn(work)),
            events,
            is_silent: false,
            open: VecDeque::new(),
            last: 0,
            refused: Vec::new(),
            policy,
        }
    }

    /// Waits until the call ends, or its server waits for an answer.
    pub(super) async fn next(mut self) -> Step {
        loop {
            // A server may have taken a question back.
            self.open.retain(|(_, question)| !question.answer.is_closed());
            tokio::select! {
                // Everything that was asked so far comes before the end, and before the page.
                biased;
                event = self.events.recv(), if !self.is_silent => match event {
                    Some(Event::Question(question)) => self.ask(question),
                    Some(Event::Notification(_)) => {}
                    None => self.is_silent = true,
                },
                ended = &mut self.work => {
                    // The task neither panics nor is aborted before this is dropped.
                    let ended = ended.unwrap_or_else(|error| {
                        Ok(OperatorAnswer::Error(json!({ "message": error.to_string() })))
                    });
                    return Step::Ended(ended, self.refused);
                }
                () = ready(()), if !self.open.is_empty() => return Step::Asks(self),
            }
        }
    }

    /// Keeps an elicitation; dropping another question tells its server that it is refused.
    fn ask(&mut self, question: Question) {
        if *question.method == *methods::ELICIT && self.open.len() < MAX_QUESTIONS {
            self.last += 1;
            self.open.push_back((self.last, question));
        } else if self.refused.len() < MAX_REFUSED {
            self.refused.push(question.method.chars().take(MAX_METHOD_CHARS).collect());
        }
    }

    /// Returns the number and the parameters of the question that a person is asked first.
    pub(super) fn first(&self) -> Option<(u64, Option<&RawValue>)> {
        self.open.front().map(|(number, question)| (*number, question.params.as_deref()))
    }

    /// Returns the number of questions that follow the first one.
    pub(super) fn further(&self) -> usize {
        self.open.len().saturating_sub(1)
    }

    /// Returns the methods of requests that were refused.
    pub(super) fn refused(&self) -> &[String] {
        &self.refused
    }

    /// Hands the answer to the question with this number to its server; false if that question is closed.
    pub(super) fn answer(&mut self, number: u64, answer: &Value) -> bool {
        let Some(at) = self.open.iter().position(|(known, _)| *known == number) else { return false };
        let Some((_, question)) = self.open.remove(at) else { return false };
        let Ok(answer) = RawValue::from_string(answer.to_string()) else { return false };
        question.answer.send(RpcOutcome::result(&answer)).is_ok()
    }

    /// Returns true if the policies have changed since they judged the call.
    pub(super) fn is_outdated(&self, policy: &Arc<dyn Policy>) -> bool {
        !Arc::ptr_eq(&self.policy, policy)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn notifications_keep_no_question_out() {
        let (sender, mut events) = event_queue(EVENT_QUEUE);
        let sender = of_questions(&sender);
        for _ in 0..=EVENT_QUEUE {
            let message = RawValue::from_string("{}".to_owned()).unwrap();
            sender.try_send(Event::Notification(message)).unwrap();
        }
        let (answer, _answered) = oneshot::channel();
        let question = Question { id: None, method: methods::ELICIT.into(), params: None, answer };
        sender.try_send(Event::Question(question)).unwrap();
        assert!(matches!(events.try_recv(), Some(Event::Question(_))));
        assert!(events.try_recv().is_none());
    }
}
