//! Questions of a backend to its client that wait for an answer.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::sleep;
use vmcp_wire::codes;
use vmcp_wire::envelope::Request;
use vmcp_wire::rpc::{self, RpcError};

use crate::inbound::call_listener::{CallClock, CallListener, ClockPause};
use crate::request::{Question, RpcOutcome, SessionId};

/// Questions open at a time on one connection, which many clients may share. A backend that asks more is
/// refused.
const MAX_OPEN_QUESTIONS: usize = 1000;
/// Part of them that one call may have open, so that one client's abandoned forms silence no other client.
const MAX_OF_CALL: usize = 16;
/// Part of them that all calls of one client session may have open.
const MAX_OF_SESSION: usize = 64;
/// Bytes of these questions together, ids and parameters; a backend that sends more is refused.
const MAX_OPEN_QUESTION_BYTES: usize = 16 * 1024 * 1024;

/// The open questions of one connection.
#[derive(Debug, Default)]
pub(crate) struct OpenQuestions(Mutex<QuestionTable>);

#[derive(Debug, Default)]
struct QuestionTable {
    /// Open questions by the backend's id, as written.
    by_id: HashMap<Box<str>, OpenQuestion>,
    bytes: usize,
    /// Serial of the last question; tells questions apart that use the same id one after the other.
    last: u64,
}

#[derive(Debug)]
struct OpenQuestion {
    serial: u64,
    bytes: usize,
    /// The call that the question belongs to.
    call: Option<u64>,
    /// The client session whose call that is.
    session: Option<SessionId>,
    /// Ends the wait for the answer.
    end: oneshot::Sender<QuestionEnd>,
}

#[derive(Clone, Copy, Debug)]
enum QuestionEnd {
    /// The backend took it back and wants no answer.
    TakenBack,
    /// The call that the question belongs to has ended.
    CallEnded,
}

/// The reason why a question cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuestionRefusal {
    /// A question with this id is open: an answer to this one would be taken for an answer to that.
    Duplicate,
    TooMany,
}

impl OpenQuestions {
    /// Opens a question, which ends with the `call` that it belongs to.
    pub(crate) fn open(
        self: &Arc<Self>,
        request: &Request<'_>,
        call: Option<(u64, &Arc<CallListener>)>,
        answer_timeout: Duration,
    ) -> Result<(Question, PendingAnswer), QuestionRefusal> {
        let (answer, answered) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let bytes = request.id.get().len() + request.params.map_or(0, |params| params.get().len());
        let serial = {
            let mut open = self.0.lock();
            if open.by_id.contains_key(request.id.get()) {
                return Err(QuestionRefusal::Duplicate);
            }
            let session = call.and_then(|(_, listener)| listener.session);
            if open.is_full_for(call.map(|(id, _)| id), session)
                || open.bytes + bytes > MAX_OPEN_QUESTION_BYTES
            {
                return Err(QuestionRefusal::TooMany);
            }
            open.last += 1;
            open.bytes += bytes;
            let entry = OpenQuestion { serial: open.last, bytes, call: call.map(|(id, _)| id), session, end };
            open.by_id.insert(request.id.get().into(), entry);
            open.last
        };
        let question = Question {
            id: Some(request.id.get().into()),
            method: request.method.as_ref().into(),
            params: request.params.map(ToOwned::to_owned),
            answer,
        };
        let pause = call.map(|(_, listener)| CallClock::pause(listener));
        let (questions, id) = (Arc::clone(self), request.id.to_owned());
        Ok((
            question,
            PendingAnswer { questions, id, serial, answered, ended, answer_timeout, _pause: pause },
        ))
    }

    /// Closes a question that the backend took back.
    pub(crate) fn take_back(&self, id: &RawValue) {
        if let Some(entry) = self.0.lock().remove(id) {
            let _ = entry.end.send(QuestionEnd::TakenBack);
        }
    }

    /// Closes the questions of a call that has ended.
    pub(crate) fn end_call(&self, call: u64) {
        let mut open = self.0.lock();
        let QuestionTable { by_id, bytes, .. } = &mut *open;
        for (_, entry) in by_id.extract_if(|_, entry| entry.call == Some(call)) {
            *bytes -= entry.bytes;
            let _ = entry.end.send(QuestionEnd::CallEnded);
        }
    }

    /// True if a question of the call is open.
    pub(crate) fn has_of_call(&self, call: u64) -> bool {
        self.0.lock().by_id.values().any(|entry| entry.call == Some(call))
    }

    fn close(&self, id: &RawValue, serial: u64) {
        let mut open = self.0.lock();
        if open.by_id.get(id.get()).is_some_and(|entry| entry.serial == serial) {
            open.remove(id);
        }
    }
}

impl QuestionTable {
    /// True if the connection, the call or the client session has as many open questions as it may have.
    fn is_full_for(&self, call: Option<u64>, session: Option<SessionId>) -> bool {
        let open = self.by_id.values();
        let of_call = call.map_or(0, |call| open.clone().filter(|entry| entry.call == Some(call)).count());
        let of_session =
            session.map_or(0, |session| open.filter(|entry| entry.session == Some(session)).count());
        self.by_id.len() >= MAX_OPEN_QUESTIONS || of_call >= MAX_OF_CALL || of_session >= MAX_OF_SESSION
    }

    fn remove(&mut self, id: &RawValue) -> Option<OpenQuestion> {
        let entry = self.by_id.remove(id.get())?;
        self.bytes -= entry.bytes;
        Some(entry)
    }
}

/// Waits for the answer to one question.
#[derive(Debug)]
pub(crate) struct PendingAnswer {
    questions: Arc<OpenQuestions>,
    id: Box<RawValue>,
    serial: u64,
    answered: oneshot::Receiver<RpcOutcome>,
    ended: oneshot::Receiver<QuestionEnd>,
    answer_timeout: Duration,
    _pause: Option<ClockPause>,
}

impl PendingAnswer {
    /// Returns the message that answers the question; `None` if the backend wants none any more.
    pub(crate) async fn answer(mut self) -> Option<Bytes> {
        let refusal = tokio::select! {
            answered = &mut self.answered => match answered {
                Ok(RpcOutcome::Result(result)) => return Some(rpc::response(&self.id, &*result).into()),
                Ok(RpcOutcome::Error(error)) => return Some(rpc::error(Some(&self.id), &*error).into()),
                Ok(RpcOutcome::Arriving(_)) | Err(_) => {
                    "the client cannot be asked: it is not listening or did not answer"
                }
            },
            end = &mut self.ended => match end {
                Ok(QuestionEnd::CallEnded) => "the client cannot be asked: the request that this belongs to has ended",
                Ok(QuestionEnd::TakenBack) | Err(_) => return None,
            },
            () = sleep(self.answer_timeout) => "the client did not answer in time",
        };
        Some(refused(&self.id, refusal))
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        self.questions.close(&self.id, self.serial);
    }
}

/// Refuses a question that no client is asked.
pub(crate) fn refused(id: &RawValue, reason: &str) -> Bytes {
    rpc::error(Some(id), RpcError::new(codes::METHOD_NOT_FOUND, reason).to_json()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(
        questions: &Arc<OpenQuestions>,
        id: &str,
        call: Option<u64>,
    ) -> Result<(Question, PendingAnswer), QuestionRefusal> {
        ask_session(questions, id, call, None)
    }

    fn ask_session(
        questions: &Arc<OpenQuestions>,
        id: &str,
        call: Option<u64>,
        session: Option<SessionId>,
    ) -> Result<(Question, PendingAnswer), QuestionRefusal> {
        let id = RawValue::from_string(id.to_owned()).unwrap();
        let request = Request { id: &id, method: "roots/list".into(), params: None };
        let listener = Arc::new(CallListener { session, ..CallListener::default() });
        questions.open(&request, call.map(|call| (call, &listener)), Duration::from_mins(1))
    }

    fn text(answer: Option<Bytes>) -> String {
        String::from_utf8(answer.expect("an answer").into()).unwrap()
    }

    #[tokio::test]
    async fn an_answer_carries_the_backends_id() {
        let questions = Arc::default();
        let (question, waiting) = ask(&questions, r#""q\u00e9""#, None).unwrap();
        let roots = RawValue::from_string(r#"{"roots":[]}"#.to_owned()).unwrap();
        question.answer.send(RpcOutcome::Result(roots.into())).unwrap();
        let expected = r#"{"jsonrpc":"2.0","id":"q\u00e9","result":{"roots":[]}}"#;
        assert_eq!(text(waiting.answer().await), expected);
        let (question, waiting) = ask(&questions, "7", None).unwrap();
        drop(question);
        let refusal = text(waiting.answer().await);
        assert!(refusal.contains(r#""id":7"#) && refusal.contains("-32601"), "{refusal}");
        let open = questions.0.lock();
        assert_eq!((open.by_id.len(), open.bytes), (0, 0));
    }

    #[tokio::test]
    async fn it_ends_with_its_call_or_when_it_is_taken_back() {
        let questions = Arc::default();
        let (of_call, waiting_of_call) = ask(&questions, "1", Some(7)).unwrap();
        let (taken, waiting_taken) = ask(&questions, "2", Some(8)).unwrap();
        questions.end_call(7);
        questions.take_back(&waiting_taken.id);
        // The id is free again while the first one that had it still ends.
        let (again, _waiting_again) = ask(&questions, "2", None).unwrap();
        assert!(text(waiting_of_call.answer().await).contains("has ended"));
        assert_eq!(waiting_taken.answer().await, None);
        assert!(of_call.answer.is_closed() && taken.answer.is_closed() && !again.answer.is_closed());
        assert_eq!(questions.0.lock().by_id.len(), 1);
    }

    #[tokio::test]
    async fn ids_are_unique_and_questions_bounded() {
        let questions = Arc::default();
        let open: Vec<_> =
            (0..MAX_OPEN_QUESTIONS).map(|id| ask(&questions, &id.to_string(), None).unwrap()).collect();
        assert_eq!(ask(&questions, "3", None).unwrap_err(), QuestionRefusal::Duplicate);
        assert_eq!(ask(&questions, "1000", None).unwrap_err(), QuestionRefusal::TooMany);
        drop(open);
        assert!(ask(&questions, "3", None).is_ok());
    }

    #[tokio::test]
    async fn one_client_has_only_its_share() {
        let questions = Arc::default();
        let mut open = Vec::new();
        let mut ask = |call: u64, session: Option<SessionId>| {
            let asked = ask_session(&questions, &open.len().to_string(), Some(call), session);
            asked.map(|asked| open.push(asked))
        };
        for _ in 0..MAX_OF_CALL {
            ask(1, None).unwrap();
        }
        assert_eq!(ask(1, None).unwrap_err(), QuestionRefusal::TooMany);
        ask(2, None).unwrap();
        let hoarder = Some([1; 16]);
        for call in 0..MAX_OF_SESSION as u64 {
            ask(100 + call, hoarder).unwrap();
        }
        assert_eq!(ask(300, hoarder).unwrap_err(), QuestionRefusal::TooMany);
        ask(301, Some([2; 16])).unwrap();
    }
}
