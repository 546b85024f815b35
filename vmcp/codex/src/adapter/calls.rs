//! Calls under way: [`Call`], and the ends that a call has.

use serde_json::{Value, json};

use super::{Adapter, Effect};
use crate::approval::QuestionKind;
use crate::call_arguments::TurnArguments;
use crate::turn::TurnRecord;

/// A call of a tool.
#[derive(Debug)]
pub(super) struct Call {
    /// The id of the client's request.
    pub(super) client_id: Value,
    pub(super) progress_token: Option<Value>,
    pub(super) progress: u64,
    /// The client has given up: nothing is answered, and the turn is interrupted.
    pub(super) is_cancelled: bool,
    pub(super) kind: CallKind,
}

#[derive(Debug)]
pub(super) enum CallKind {
    /// A turn; the arguments are those of the call.
    Turn(Box<TurnArguments>, Box<TurnRecord>),
    List,
    /// The id of the thread.
    Archive(String),
}

/// A request to Codex that waits for its reply.
#[derive(Debug)]
pub(super) enum AwaitedReply {
    /// The handshake; the id of the client's `initialize`, and the revision that is answered.
    Handshake(Value, &'static str),
    /// `thread/start` or `thread/resume` for a call.
    Thread(u64),
    /// `turn/start` for a call.
    TurnStart(u64),
    /// `thread/list` or `thread/archive` for a call.
    Answer(u64),
    /// `turn/interrupt` for a cancelled call. An error ends the call: its turn may have ended before.
    Interrupt(u64),
    /// Nothing depends on the reply.
    Ignored,
}

/// A question of Codex that the client is asked.
#[derive(Debug)]
pub(super) struct OpenQuestion {
    pub(super) call: u64,
    /// The id of Codex's request.
    pub(super) codex_id: Value,
    pub(super) kind: QuestionKind,
}

impl Adapter {
    /// Ends a call with its result, an object; a failure is one with `success: false`.
    pub(super) fn finish(&mut self, number: u64, result: &Value) {
        self.close_questions(number);
        let Some(call) = self.calls.remove(&number) else { return };
        if call.is_cancelled {
            if let CallKind::Turn(arguments, turn) = &call.kind
                && arguments.thread_id.is_none()
                && !turn.thread_id.is_empty()
            {
                self.archive_unanswered(&turn.thread_id);
            }
            return;
        }
        let is_error = result.get("success").and_then(Value::as_bool) != Some(true);
        self.tell_client(tool_result(&call.client_id, result, is_error));
    }

    /// Archives a new thread whose call the client has given up: without an answer the thread gets no owner.
    fn archive_unanswered(&mut self, thread_id: &str) {
        self.ask_codex("thread/archive", &json!({"threadId": thread_id}), AwaitedReply::Ignored);
    }

    /// Ends a call that failed.
    pub(super) fn fail(&mut self, number: u64, error: &str) {
        let Some(call) = self.calls.get(&number) else { return };
        let result = match &call.kind {
            // Codex has confirmed the thread: it can be continued.
            CallKind::Turn(_, turn) if !turn.thread_id.is_empty() => turn.result(Some(error)),
            CallKind::Archive(thread_id) => json!({"success": false, "thread_id": thread_id, "error": error}),
            CallKind::Turn(..) | CallKind::List => json!({"success": false, "error": error}),
        };
        self.finish(number, &result);
    }

    /// Interrupts a call that the client has given up. The call stays until Codex has ended its turn, so that
    /// its thread is taken so long.
    pub(super) fn cancel(&mut self, number: u64) {
        self.close_questions(number);
        let Some(call) = self.calls.get_mut(&number) else { return };
        call.is_cancelled = true;
        if let CallKind::Turn(_, turn) = &call.kind
            && let Some(turn_id) = &turn.turn_id
        {
            let params = json!({"threadId": turn.thread_id, "turnId": turn_id});
            self.ask_codex("turn/interrupt", &params, AwaitedReply::Interrupt(number));
        }
    }

    /// Answers the open questions of a call, and takes them back from the client.
    pub(super) fn close_questions(&mut self, call: u64) {
        let open = self.questions.iter().filter(|(_, question)| question.call == call);
        for id in open.map(|(id, _)| *id).collect::<Vec<_>>() {
            if let Some(question) = self.questions.remove(&id) {
                let result = question.kind.cancelled();
                self.effects.push(Effect::ToCodex(json!({"id": question.codex_id, "result": result})));
                self.withdraw(id);
            }
        }
    }

    /// Tells the client that a question needs no answer any more.
    pub(super) fn withdraw(&mut self, id: u64) {
        self.tell_client(json!({
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": id, "reason": "Codex needs no answer any more"},
        }));
    }

    /// Returns the call whose turn runs in a thread.
    pub(super) fn call_of_thread(&self, thread_id: &str) -> Option<u64> {
        let has_thread = |call: &Call| match &call.kind {
            CallKind::Turn(arguments, turn) => {
                turn.thread_id == thread_id || arguments.thread_id.as_deref() == Some(thread_id)
            }
            CallKind::List | CallKind::Archive(_) => false,
        };
        self.calls.iter().find(|(_, call)| has_thread(call)).map(|(number, _)| *number)
    }

    /// Returns the record of a turn.
    pub(super) fn turn_mut(&mut self, number: u64) -> Option<&mut TurnRecord> {
        match &mut self.calls.get_mut(&number)?.kind {
            CallKind::Turn(_, turn) => Some(turn),
            CallKind::List | CallKind::Archive(_) => None,
        }
    }
}

/// Returns the answer of `tools/call`.
pub(super) fn tool_result(id: &Value, result: &Value, is_error: bool) -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": id,
        "result": {
            "content": [{"type": "text", "text": result.to_string()}],
            "structuredContent": result,
            "isError": is_error,
        },
    })
}
