//! Messages of Codex: replies, notifications of turns, questions.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use super::calls::{AwaitedReply, CallKind, OpenQuestion};
use super::client_side::turn_start;
use super::{Adapter, Effect, MAX_QUESTIONS};
use crate::approval::{self, QuestionKind};
use crate::turn::progress_words;

/// Most characters of an error of Codex that are passed on.
const MAX_ERROR_CHARS: usize = 2000;

impl Adapter {
    pub(super) fn on_codex(&mut self, message: &Value) {
        let params = message.get("params").unwrap_or(&Value::Null);
        match (message.get("method").and_then(Value::as_str), message.get("id")) {
            (Some(method), Some(id)) => self.on_question(method, id, params),
            (Some(method), None) => self.on_notification(method, params),
            (None, Some(id)) => {
                if let Some(awaited) = id.as_u64().and_then(|id| self.awaited.remove(&id)) {
                    let reply = match (message.get("result"), message.get("error")) {
                        (Some(result), None) => Ok(result),
                        (_, error) => Err(error_words(error)),
                    };
                    self.on_reply(awaited, reply);
                }
            }
            (None, None) => {}
        }
    }

    fn on_reply(&mut self, awaited: AwaitedReply, reply: Result<&Value, String>) {
        match (awaited, reply) {
            (AwaitedReply::Handshake(id, revision), Ok(_)) => {
                self.is_initialized = true;
                self.effects.push(Effect::ToCodex(json!({"method": "initialized"})));
                let result = self.server_info(revision);
                self.tell_client(json!({"jsonrpc": "2.0", "id": id, "result": result}));
            }
            (AwaitedReply::Handshake(id, _), Err(error)) => {
                let message = format!("Codex refused the handshake: {error}");
                self.tell_client(
                    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": message}}),
                );
            }
            (AwaitedReply::Thread(call), Ok(result)) => self.start_turn(call, result),
            (AwaitedReply::TurnStart(call), Ok(result)) => self.turn_started(call, result),
            (AwaitedReply::Answer(call), Ok(result)) => self.answer(call, result),
            (AwaitedReply::Thread(call), Err(error)) => self.thread_failed(call, &error),
            (AwaitedReply::TurnStart(call) | AwaitedReply::Answer(call), Err(error)) => {
                self.fail(call, &error);
            }
            (AwaitedReply::Interrupt(call), Err(_)) => self.finish(call, &Value::Null),
            (AwaitedReply::Interrupt(_), Ok(_)) | (AwaitedReply::Ignored, _) => {}
        }
    }

    fn start_turn(&mut self, number: u64, result: &Value) {
        let Some(thread_id) = result.pointer("/thread/id").and_then(Value::as_str) else {
            return self.fail(number, "Codex answered without a thread");
        };
        let Some(call) = self.calls.get_mut(&number) else { return };
        let CallKind::Turn(arguments, turn) = &mut call.kind else { return };
        thread_id.clone_into(&mut turn.thread_id);
        if call.is_cancelled {
            return self.finish(number, &Value::Null);
        }
        let params = turn_start(arguments, thread_id);
        self.ask_codex("turn/start", &params, AwaitedReply::TurnStart(number));
    }

    /// Ends a call whose thread Codex neither starts nor resumes.
    fn thread_failed(&mut self, number: u64, error: &str) {
        let thread_id = self.calls.get(&number).and_then(|call| match &call.kind {
            CallKind::Turn(arguments, _) => arguments.thread_id.clone(),
            CallKind::List | CallKind::Archive(_) => None,
        });
        let words = match thread_id {
            Some(id) if error.contains("is archived") => format!(
                "thread {id} is archived: codex_archive_thread was called for it, or its first turn was \
                 cancelled or took too long; leave thread_id out to begin a new thread, or have `codex unarchive \
                 {id}` run on the machine of vmcp"
            ),
            Some(id) if error.contains("no rollout found") => format!(
                "thread {id} not found: Codex has none of this id; codex_list_threads lists the threads that \
                 can be continued"
            ),
            _ => error.to_owned(),
        };
        self.fail(number, &words);
    }

    fn turn_started(&mut self, number: u64, result: &Value) {
        let Some(turn_id) = result.pointer("/turn/id").and_then(Value::as_str) else {
            return self.fail(number, "Codex answered without a turn");
        };
        let Some(turn) = self.turn_mut(number) else { return };
        turn.turn_id = Some(turn_id.to_owned());
        if let Some(end) = turn.early_end.take() {
            // The end may be that of an earlier turn.
            self.turn_completed(number, &end);
        }
        if self.calls.get(&number).is_some_and(|call| call.is_cancelled) {
            self.cancel(number);
        }
    }

    fn answer(&mut self, number: u64, result: &Value) {
        let Some(call) = self.calls.get(&number) else { return };
        let answer = match &call.kind {
            CallKind::List => thread_page(result),
            CallKind::Archive(thread_id) => json!({
                "success": true,
                "thread_id": thread_id,
                "message": format!("Thread {thread_id} archived"),
            }),
            CallKind::Turn(..) => return,
        };
        self.finish(number, &answer);
    }

    fn on_notification(&mut self, method: &str, params: &Value) {
        let thread_id = params.get("threadId").and_then(Value::as_str);
        let Some(number) = thread_id.and_then(|thread_id| self.call_of_thread(thread_id)) else { return };
        match method {
            "item/started" | "item/completed" => {
                let Some(item) = params.get("item") else { return };
                if method == "item/completed" {
                    self.turn_mut(number).into_iter().for_each(|turn| turn.take_item(item));
                } else {
                    self.turn_mut(number).into_iter().for_each(|turn| turn.announce(item));
                    self.report_progress(number, item);
                }
            }
            "thread/tokenUsage/updated" => {
                if let (Some(turn), Some(usage)) = (self.turn_mut(number), params.get("tokenUsage")) {
                    turn.take_usage(usage);
                }
            }
            "serverRequest/resolved" => {
                let id = params.get("requestId");
                let resolved = self.questions.iter().find(|(_, question)| Some(&question.codex_id) == id);
                if let Some(id) = resolved.map(|(id, _)| *id) {
                    self.questions.remove(&id);
                    self.withdraw(id);
                }
            }
            "turn/completed" => self.turn_completed(number, params.get("turn").unwrap_or(&Value::Null)),
            _ => {}
        }
    }

    fn turn_completed(&mut self, number: u64, completed: &Value) {
        let id = completed.get("id").and_then(Value::as_str);
        let Some(turn) = self.turn_mut(number) else { return };
        match (&turn.turn_id, id) {
            // Another turn of the thread, such as an interrupted one.
            (Some(own), Some(id)) if own != id => return,
            // The turn of this call, if the reply to `turn/start` follows; else an earlier one.
            (None, _) => return turn.early_end = Some(completed.clone()),
            _ => {}
        }
        if let Some(usage) = completed.get("usage").filter(|usage| !usage.is_null()) {
            turn.take_usage(usage);
        }
        let error = match completed.get("status").and_then(Value::as_str) {
            Some("failed") => Some(error_words(completed.get("error"))),
            Some("interrupted") => Some("the turn was interrupted".to_owned()),
            _ => None,
        };
        let result = turn.result(error.as_deref());
        self.finish(number, &result);
    }

    fn report_progress(&mut self, number: u64, item: &Value) {
        let Some(words) = progress_words(item) else { return };
        let Some(call) = self.calls.get_mut(&number).filter(|call| !call.is_cancelled) else { return };
        let Some(token) = call.progress_token.clone() else { return };
        call.progress = call.progress.wrapping_add(1);
        let params =
            json!({"progressToken": token, "progress": call.progress, "message": format!("Codex {words}")});
        self.tell_client(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
    }

    /// Asks the client a question of Codex, or declines it.
    fn on_question(&mut self, method: &str, id: &Value, params: &Value) {
        let thread_id = params.get("threadId").and_then(Value::as_str);
        let call = thread_id.and_then(|thread_id| self.call_of_thread(thread_id));
        let Some(kind) = QuestionKind::of_method(method) else {
            if let Some(call) = call {
                self.note(call, &format!("vmcp does not answer `{method}`"));
            }
            let result = match method {
                // Grants nothing.
                "item/permissions/requestApproval" => json!({"id": id, "result": {"permissions": {}}}),
                _ => json!({"id": id, "error": {"code": -32601, "message": "vmcp does not answer this"}}),
            };
            return self.effects.push(Effect::ToCodex(result));
        };
        let Some(call) = call else {
            // A thread of no call, such as that of a sub-agent.
            return self.effects.push(Effect::ToCodex(json!({"id": id, "result": kind.declined()})));
        };
        if self.calls.get(&call).is_some_and(|call| call.is_cancelled) {
            return self.effects.push(Effect::ToCodex(json!({"id": id, "result": kind.cancelled()})));
        }
        let item = params.get("itemId").and_then(Value::as_str);
        let changes = item.and_then(|item| self.turn_mut(call)?.changes(item).cloned());
        let asked = if !self.can_ask {
            Err("the client cannot ask the user (it declares no elicitation)")
        } else if self.questions.len() >= MAX_QUESTIONS {
            Err("too many questions are open")
        } else {
            approval::question(kind, params, changes.as_ref())
        };
        match asked {
            Ok(question) => {
                let number = self.next_number();
                self.questions.insert(number, OpenQuestion { call, codex_id: id.clone(), kind });
                self.tell_client(json!({
                    "jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": question,
                }));
            }
            Err(reason) => {
                self.note(call, reason);
                self.effects.push(Effect::ToCodex(json!({"id": id, "result": kind.declined()})));
            }
        }
    }
}

/// Returns the result of `codex_list_threads` for one of `thread/list`.
fn thread_page(result: &Value) -> Value {
    let listed = result.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let threads = listed.iter().map(|thread| {
        let field = |name: &str| thread.get(name).cloned().unwrap_or(Value::Null);
        let created_at = thread.get("createdAt").and_then(Value::as_u64).and_then(rfc3339);
        json!({
            "id": field("id"),
            "preview": field("preview"),
            "model_provider": field("modelProvider"),
            "created_at": created_at,
        })
    });
    let threads = threads.collect::<Vec<_>>();
    let next_cursor = result.get("nextCursor").cloned().unwrap_or(Value::Null);
    json!({"success": true, "threads": threads, "next_cursor": next_cursor})
}

/// Returns a time of RFC 3339 for seconds since the Unix epoch.
fn rfc3339(seconds: u64) -> Option<String> {
    // The end of the year 9999, the last one of four digits.
    let seconds = Some(seconds).filter(|seconds| *seconds <= 253_402_300_799)?;
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?;
    Some(humantime::format_rfc3339_seconds(time).to_string())
}

fn error_words(error: Option<&Value>) -> String {
    let words = error.and_then(|error| error.get("message")).and_then(Value::as_str);
    words.unwrap_or("Codex gave no reason").chars().take(MAX_ERROR_CHARS).collect()
}
