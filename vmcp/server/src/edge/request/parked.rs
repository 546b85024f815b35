//! Calls of modern clients that wait for input. A legacy backend asks in the midst of a call; a modern client is asked with
//! the answer to its request, and repeats the request when it knows. Meanwhile the call waits here, its work polled by a
//! task, and the client carries a state that names it.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use vmcp_backend::{Event, Outcome, Question};
use vmcp_wire::json;
use vmcp_wire::object::Object;
use vmcp_wire::splice::Spliced;
use vmcp_wire::state::Continuation;
use vmcp_wire::translate::{INPUT_REQUESTS, RESULT_TYPE};

use super::handled::Handled;
use crate::edge::session::random::random;

/// How long a call waits for its client.
pub(super) const PATIENCE: Duration = Duration::from_mins(5);
/// Calls that may wait at once.
const MOST: usize = 1000;
/// Questions that one call may have open.
const MOST_QUESTIONS: usize = 32;

type CallId = [u8; 16];

/// What a request does until it has its answer.
pub(super) type Work = Pin<Box<dyn Future<Output = Handled> + Send>>;

/// The calls that wait in this process.
pub(super) struct Parked {
    process: [u8; 8],
    patience: Duration,
    calls: Mutex<HashMap<CallId, oneshot::Sender<oneshot::Sender<Call>>>>,
}

/// What is left of a request: its work, what the backend sends meanwhile, and in the end its answer.
pub(super) struct Call {
    /// Gone when it is done; then there is an answer.
    pub(super) work: Option<Work>,
    pub(super) answer: Option<Handled>,
    pub(super) events: mpsc::Receiver<Event>,
    /// Questions that a modern client will be asked with the next answer.
    pub(super) asked: Asked,
    pub(super) cancel: CancellationToken,
}

/// Why a call cannot be taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotParked {
    #[error(
        "the call that `requestState` names waits in another process of this server; repeat the request without requestState and inputResponses"
    )]
    Elsewhere,
    #[error(
        "the call that `requestState` names waits no longer; repeat the request without requestState and inputResponses"
    )]
    Gone,
}

impl Parked {
    /// No calls yet; each will wait for its client this long.
    pub(super) fn new(patience: Duration) -> Self {
        Self { process: random(), patience, calls: Mutex::default() }
    }

    /// Lets a call wait; what the client is to carry. Gives the call back when too many wait already.
    pub(super) fn park(self: &Arc<Self>, mut call: Call) -> Result<Continuation, Box<Call>> {
        let id = random();
        let (take, mut taken) = oneshot::channel::<oneshot::Sender<Call>>();
        {
            let mut calls = self.lock();
            if calls.len() >= MOST {
                tracing::warn!(
                    limit = MOST,
                    "too many calls wait for input from their clients; one was refused"
                );
                return Err(Box::new(call));
            }
            calls.insert(id, take);
        }
        let parked = Arc::clone(self);
        tokio::spawn(async move {
            let back = tokio::select! {
                biased;
                back = &mut taken => back.ok(),
                () = call.run() => None,
                () = tokio::time::sleep(parked.patience) => None,
            };
            parked.lock().remove(&id);
            if let Some(back) = back {
                // A client that left in this moment drops the call, which cancels it.
                let _ = back.send(call);
            }
        });
        Ok(Continuation::Parked { process: self.process, call: id })
    }

    /// Takes a call up.
    pub(super) async fn take(&self, process: [u8; 8], call: CallId) -> Result<Call, NotParked> {
        if process != self.process {
            return Err(NotParked::Elsewhere);
        }
        let take = self.lock().remove(&call).ok_or(NotParked::Gone)?;
        let (sender, receiver) = oneshot::channel();
        take.send(sender).map_err(|_| NotParked::Gone)?;
        receiver.await.map_err(|_| NotParked::Gone)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallId, oneshot::Sender<oneshot::Sender<Call>>>> {
        self.calls.lock()
    }
}

impl Call {
    /// A request that is being worked on.
    pub(super) fn new(work: Work, events: mpsc::Receiver<Event>, cancel: CancellationToken) -> Self {
        Self { work: Some(work), answer: None, events, asked: Asked::default(), cancel }
    }

    /// One that has its answer.
    pub(super) fn answered(answer: Option<Handled>) -> Self {
        let (events, cancel) = (mpsc::channel(1).1, CancellationToken::new());
        Self { work: None, answer, events, asked: Asked::default(), cancel }
    }

    /// Works on; never ends, since an answer waits as a question does.
    async fn run(&mut self) {
        if let Some(work) = &mut self.work {
            let handled = work.await;
            (self.work, self.answer) = (None, Some(handled));
        }
        std::future::pending::<()>().await;
    }
}

/// What a call wants to know of its client.
#[derive(Debug, Default)]
pub(super) struct Asked {
    open: Vec<(String, Question)>,
    last: u32,
}

impl Asked {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Adds a question, unless there are too many.
    pub(super) fn push(&mut self, question: Question) {
        if self.open.len() < MOST_QUESTIONS {
            self.last += 1;
            self.open.push((format!("q{}", self.last), question));
        }
    }

    /// Passes on the answers that there are; the other questions stay open.
    pub(super) fn answer(&mut self, responses: &Object<'_>) {
        let open = std::mem::take(&mut self.open);
        for (key, question) in open {
            match responses.get(&key).filter(|response| json::is_object(response.get())) {
                // The backend may have taken the question back.
                Some(response) => drop(question.answer.send(Outcome::result(response))),
                None => self.open.push((key, question)),
            }
        }
    }

    /// The questions as a result, without the state.
    pub(super) fn result(&self) -> Spliced<'static> {
        let requests: Vec<String> = self.open.iter().map(|(key, question)| request(key, question)).collect();
        let requests = requests.join(",");
        format!("{{\"{RESULT_TYPE}\":\"input_required\",\"{INPUT_REQUESTS}\":{{{requests}}}}}").into()
    }
}

fn request(key: &str, question: &Question) -> String {
    let params = question.params.as_deref().map(|params| format!(",\"params\":{params}"));
    format!("\"{key}\":{{\"method\":{}{}}}", json::quoted(&question.method), params.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    fn call(work: impl Future<Output = Handled> + Send + 'static) -> Call {
        Call::new(Box::pin(work), mpsc::channel(1).1, CancellationToken::new())
    }

    fn named(continuation: &Continuation) -> ([u8; 8], CallId) {
        let Continuation::Parked { process, call } = continuation else { panic!("{continuation:?}") };
        (*process, *call)
    }

    #[tokio::test]
    async fn a_parked_call_works_on_and_is_taken_up_once() {
        let parked = Arc::new(Parked::new(PATIENCE));
        let (done, is_done) = oneshot::channel();
        let work = async move {
            let _ = done.send(());
            Handled::ok(b"{}".to_vec())
        };
        let Ok(continuation) = parked.park(call(work)) else { panic!("there is room") };
        let (process, id) = named(&continuation);
        is_done.await.unwrap();
        assert_eq!(parked.take([0; 8], id).await.err(), Some(NotParked::Elsewhere));
        let taken = parked.take(process, id).await;
        assert!(taken.is_ok());
        assert_eq!(parked.take(process, id).await.err(), Some(NotParked::Gone));
    }

    #[tokio::test]
    async fn a_call_whose_client_does_not_come_back_is_dropped() {
        let parked = Arc::new(Parked::new(Duration::from_millis(1)));
        let (held, dropped) = oneshot::channel::<()>();
        let work = async move {
            let _held = held;
            std::future::pending().await
        };
        let Ok(continuation) = parked.park(call(work)) else { panic!("there is room") };
        let (process, id) = named(&continuation);
        assert!(dropped.await.is_err(), "dropped without a word");
        assert_eq!(parked.take(process, id).await.err(), Some(NotParked::Gone));
    }

    #[test]
    fn questions_keep_their_keys_until_they_are_answered() {
        let mut asked = Asked::default();
        let ask = |asked: &mut Asked, params: &str| {
            let (answer, answered) = oneshot::channel();
            let params = RawValue::from_string(params.into()).ok();
            asked.push(Question { method: "elicitation/create".into(), params, answer });
            answered
        };
        let mut first = ask(&mut asked, r#"{"message":"1"}"#);
        let mut second = ask(&mut asked, r#"{"message":"2"}"#);
        asked.answer(&Object::parse_str(r#"{"q2":{"action":"accept"},"q1":7,"other":{}}"#).unwrap());
        assert!(second.try_recv().is_ok() && first.try_recv().is_err());
        let _third = ask(&mut asked, "{}");
        assert_eq!(
            asked.result().into_cow(),
            r#"{"resultType":"input_required","inputRequests":{"q1":{"method":"elicitation/create","params":{"message":"1"}},"q3":{"method":"elicitation/create","params":{}}}}"#
        );
    }
}
