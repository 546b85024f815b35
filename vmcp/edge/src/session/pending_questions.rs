//! [`PendingQuestions`]: questions (elicitation, sampling, roots) to legacy clients that are not answered
//! yet.
//!
//! A question goes out on a stream; its answer arrives as a POST of its own, or as a line on stdio, and finds
//! its question here by session and id. Ids are unguessable and begin with the process, so an answer that
//! reaches another process of the same server is told apart from one to a question that never was.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arc_swap::ArcSwap;
use futures::FutureExt as _;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use vmcp_backend::{Question, RpcOutcome, SessionId};
use vmcp_json::json_rope::JsonRope;
use vmcp_json::text;
use vmcp_wire::era::Revision;
use vmcp_wire::{methods, rpc};

use vmcp_engine::access::identity::PrincipalKey;
use vmcp_engine::access::principal_shares::{HeldShare, PrincipalShares};
use vmcp_engine::random::random;
use vmcp_engine::telemetry::TCP;
use vmcp_engine::telemetry::metrics::Metrics;
use vmcp_engine::telemetry::traces::TraceSpan;
use vmcp_route::question_span;

/// Open questions of this process, as a backstop; one more is refused.
const MAX_QUESTIONS: usize = 40_000;
/// Open questions to one principal; one more is refused.
const MAX_QUESTIONS_PER_PRINCIPAL: usize = 10_000;
/// Open questions of one session; one more is refused. More than any user answers, so one backend cannot use
/// up [`MAX_QUESTIONS_PER_PRINCIPAL`].
const MAX_QUESTIONS_PER_SESSION: usize = 64;
/// Prefix of all question ids; the process follows.
const ID_PREFIX: &str = "vmcp-";

/// The open questions of this process.
#[derive(Debug)]
pub(crate) struct PendingQuestions {
    /// Prefix of this process's question ids.
    process: String,
    shares: Arc<PrincipalShares>,
    open: Mutex<QuestionTable>,
    /// The sealed address of this process, at the end of each id; empty if other replicas do not reach it.
    home: ArcSwap<String>,
}

/// Open questions by session and id, each with the way back to the code that waits.
#[derive(Debug, Default)]
struct QuestionTable {
    sessions: HashMap<SessionId, HashMap<Box<str>, OpenQuestion>>,
}

/// The way back to the code that waits, and the question's place in the share of its principal.
#[derive(Debug)]
struct OpenQuestion {
    answer: oneshot::Sender<RpcOutcome>,
    _held: HeldShare,
}

/// An answer that fits no question of this process; refused with HTTP 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnexpectedAnswer {
    #[error(
        "this answers a request of another process of this server; while a client is asked, its requests must reach the process that asks"
    )]
    OtherProcess,
    #[error("this answers no request of this server")]
    Unknown,
}

impl PendingQuestions {
    /// Creates an empty table with a random prefix for its ids.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let process = format!("{ID_PREFIX}{}-", hex::encode(random::<8>()));
        let shares = PrincipalShares::new("questions", MAX_QUESTIONS_PER_PRINCIPAL, MAX_QUESTIONS, metrics);
        Self { process, shares, open: Mutex::default(), home: ArcSwap::default() }
    }

    /// Replaces the sealed address of this process.
    pub(crate) fn set_home(&self, home: String) {
        self.home.store(Arc::new(home));
    }

    /// Returns the sealed address in the id of a question that another process asks.
    pub(crate) fn home_elsewhere<'a>(&self, id: &'a str) -> Option<&'a str> {
        let (_, home) = id.strip_prefix(ID_PREFIX)?.split_once('.')?;
        (!id.starts_with(&self.process)).then_some(home)
    }

    /// Opens a question to a session of a principal; `None` at a limit.
    pub(crate) fn ask(
        self: &Arc<Self>,
        principal: PrincipalKey,
        session: SessionId,
    ) -> Option<PendingQuestion> {
        let mut open = self.lock();
        let of_session = open.sessions.get(&session).map_or(0, HashMap::len);
        let held = self.shares.take(principal).ok().filter(|_| of_session < MAX_QUESTIONS_PER_SESSION);
        let Some(held) = held else {
            tracing::warn!(of_session, "too many unanswered questions to a client; one was refused");
            return None;
        };
        let home = self.home.load();
        let separator = if home.is_empty() { "" } else { "." };
        let id = format!("{}{}{separator}{home}", self.process, hex::encode(random::<16>())).into_boxed_str();
        let (answer, answered) = oneshot::channel();
        open.sessions.entry(session).or_default().insert(id.clone(), OpenQuestion { answer, _held: held });
        let span = TraceSpan::none();
        Some(PendingQuestion { questions: Arc::clone(self), session, id, answered, span })
    }

    /// Hands the client's answer to the code that waits for it. A late answer, to a question that is no
    /// longer open, is no error.
    pub(crate) fn answer(
        &self,
        session: SessionId,
        id: &RawValue,
        outcome: RpcOutcome,
    ) -> Result<(), UnexpectedAnswer> {
        let id = text::unquoted(id.get()).ok_or(UnexpectedAnswer::Unknown)?;
        if !id.starts_with(&self.process) {
            return Err(if id.starts_with(ID_PREFIX) {
                UnexpectedAnswer::OtherProcess
            } else {
                UnexpectedAnswer::Unknown
            });
        }
        if let Some(question) = self.lock().remove(&session, &id) {
            // The waiting side may have gone in the meantime.
            let _ = question.answer.send(outcome);
        }
        Ok(())
    }

    /// Closes all questions to a session that ended; the waiting sides see a closed channel.
    pub(crate) fn close_session(&self, session: SessionId) {
        let _ended = self.lock().sessions.remove(&session);
    }

    fn lock(&self) -> MutexGuard<'_, QuestionTable> {
        self.open.lock()
    }
}

impl QuestionTable {
    /// Removes one question, and its session with the last one.
    fn remove(&mut self, session: &SessionId, id: &str) -> Option<OpenQuestion> {
        let of_session = self.sessions.get_mut(session)?;
        let answer = of_session.remove(id)?;
        if of_session.is_empty() {
            self.sessions.remove(session);
        }
        Some(answer)
    }
}

/// The way to a client, as telemetry names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientNetwork {
    /// Revision of the protocol.
    pub(crate) revision: Revision,
    /// `tcp` or `pipe`.
    pub(crate) transport: &'static str,
    /// Version of HTTP.
    pub(crate) http_version: Option<&'static str>,
}

/// An open question; dropping it closes it.
#[derive(Debug)]
pub(crate) struct PendingQuestion {
    questions: Arc<PendingQuestions>,
    session: SessionId,
    id: Box<str>,
    answered: oneshot::Receiver<RpcOutcome>,
    /// The span of the question, once it is sent.
    span: TraceSpan,
}

impl PendingQuestion {
    /// Encodes a question for the client, under the id by which the client answers. Begins its span, of kind
    /// CLIENT, which ends with the answer.
    pub(crate) fn message(&mut self, question: &Question, client: Option<ClientNetwork>) -> Vec<u8> {
        let (span, traced) = question_span::sent(question, |open| {
            open.text("jsonrpc.request.id", &self.id);
            open.text("mcp.session.id", &hex::encode(self.session));
            if let Some(client) = client {
                open.text("mcp.protocol.version", client.revision.as_str());
                open.text("network.transport", client.transport);
                open.optional("network.protocol.name", (client.transport == TCP).then_some("http"));
                open.optional("network.protocol.version", client.http_version);
            }
        });
        self.span = span;
        let params = traced.as_deref().or(question.params.as_deref());
        rpc::question(&self.id, &question.method, params.map(JsonRope::from))
    }

    /// Encodes the `notifications/cancelled` that withdraws this question from the client.
    pub(crate) fn cancellation(&self) -> Vec<u8> {
        let params =
            serde_json::json!({"requestId": self.id, "reason": "nobody waits for the answer any more"});
        rpc::notification(methods::CANCELLED, Some(params.to_string().into()))
    }

    /// Polls for the client's answer; `None` if the session ended.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<RpcOutcome>> {
        let outcome = ready!(self.answered.poll_unpin(cx)).ok();
        // The span ends here, before that of the backend's question.
        question_span::mark(&mem::take(&mut self.span), outcome.as_ref());
        Poll::Ready(outcome)
    }
}

impl Drop for PendingQuestion {
    fn drop(&mut self) {
        self.questions.lock().remove(&self.session, &self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmcp_engine::access::identity::Principal;

    fn id(text: &str) -> Box<RawValue> {
        RawValue::from_string(text::quoted(text)).unwrap()
    }

    fn anyone() -> PrincipalKey {
        Principal::default().key()
    }

    fn yes() -> RpcOutcome {
        RpcOutcome::result(&RawValue::from_string("{}".into()).unwrap())
    }

    #[tokio::test]
    async fn an_answer_finds_its_question_and_no_other() {
        let questions = Arc::new(PendingQuestions::new(&Metrics::new()));
        let mut asked = questions.ask(anyone(), [1; 16]).unwrap();
        let answer = |session, text: &str| questions.answer(session, &id(text), yes());
        assert_eq!(answer([2; 16], &asked.id), Ok(()), "an answer from another session counts as late");
        assert!(asked.answered.try_recv().is_err());
        assert_eq!(answer([1; 16], &asked.id), Ok(()));
        assert!(asked.answered.try_recv().is_ok());
        assert_eq!(answer([1; 16], &asked.id), Ok(()), "late");
        assert_eq!(answer([1; 16], "7"), Err(UnexpectedAnswer::Unknown));
        let other = Arc::new(PendingQuestions::new(&Metrics::new()));
        assert_eq!(
            answer([1; 16], &other.ask(anyone(), [1; 16]).unwrap().id),
            Err(UnexpectedAnswer::OtherProcess)
        );
        drop(asked);
        assert!(questions.lock().sessions.is_empty());
    }

    #[test]
    fn one_session_cannot_use_up_the_room_of_all() {
        let questions = Arc::new(PendingQuestions::new(&Metrics::new()));
        let asked: Vec<_> =
            (0..MAX_QUESTIONS_PER_SESSION).filter_map(|_| questions.ask(anyone(), [1; 16])).collect();
        assert_eq!(asked.len(), MAX_QUESTIONS_PER_SESSION);
        assert!(questions.ask(anyone(), [1; 16]).is_none());
        assert!(questions.ask(anyone(), [2; 16]).is_some());
        drop(asked);
        assert!(questions.ask(anyone(), [1; 16]).is_some());
    }
}
