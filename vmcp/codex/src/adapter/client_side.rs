//! Messages of the MCP client. The adapter speaks the revisions with `initialize`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::calls::{AwaitedReply, Call, CallKind, tool_result};
use super::{Adapter, Effect, MAX_CALLS};
use crate::call_arguments::{ArchiveArguments, ListArguments, Sandbox, TurnArguments};
use crate::tools::{self, ARCHIVE_THREAD, CODEX, LIST_THREADS};
use crate::turn::TurnRecord;

/// Revisions of MCP that the adapter speaks, the newest first.
const REVISIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
/// Notifications that Codex need not send: deltas of texts that come whole at the end.
const UNWANTED: [&str; 6] = [
    "item/agentMessage/delta",
    "item/commandExecution/outputDelta",
    "item/fileChange/outputDelta",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/textDelta",
    "item/plan/delta",
];
/// Error of a turn on a backend without a workspace.
const NO_WORKSPACE: &str = "this backend has neither `cwd` nor `codex.workspaces`, or none of these \
                            directories exists; ask the administrator to name one that exists";
/// JSON-RPC: no such method.
const METHOD_NOT_FOUND: i64 = -32601;
/// JSON-RPC: parameters that do not fit.
const INVALID_PARAMS: i64 = -32602;

impl Adapter {
    pub(super) fn on_client(&mut self, message: &Value) {
        let params = message.get("params").unwrap_or(&Value::Null);
        match (message.get("method").and_then(Value::as_str), message.get("id")) {
            (Some(method), Some(id)) => self.on_request(method, id, params),
            (Some("notifications/cancelled"), None) => {
                let id = params.get("requestId");
                let given_up = self.calls.iter().find(|(_, call)| Some(&call.client_id) == id);
                if let Some(number) = given_up.map(|(number, _)| *number) {
                    self.cancel(number);
                }
            }
            (None, Some(id)) => self.on_answer(id, message),
            _ => {}
        }
    }

    fn on_request(&mut self, method: &str, id: &Value, params: &Value) {
        match method {
            "initialize" => self.initialize(id, params),
            "ping" => self.tell_client(json!({"jsonrpc": "2.0", "id": id, "result": {}})),
            "tools/list" => {
                let tools = tools::list(self.settings.allow_dangerous);
                self.tell_client(json!({"jsonrpc": "2.0", "id": id, "result": tools}));
            }
            "tools/call" => self.call_tool(id, params),
            _ => self.refuse(id, METHOD_NOT_FOUND, "the adapter of Codex has no such method"),
        }
    }

    /// Shakes hands with Codex first: a program other than an app server fails here.
    fn initialize(&mut self, id: &Value, params: &Value) {
        let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let revision = REVISIONS.into_iter().find(|known| *known == asked).unwrap_or("2025-11-25");
        // Without a mode, forms are meant.
        let elicitation = params.pointer("/capabilities/elicitation").and_then(Value::as_object);
        self.can_ask = elicitation.is_some_and(|modes| modes.is_empty() || modes.contains_key("form"));
        if self.is_initialized {
            let result = self.server_info(revision);
            return self.tell_client(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        }
        let handshake = json!({
            "clientInfo": {"name": "vmcp", "title": "vmcp", "version": self.settings.version},
            "capabilities": {"optOutNotificationMethods": UNWANTED},
        });
        self.ask_codex("initialize", &handshake, AwaitedReply::Handshake(id.clone(), revision));
    }

    pub(super) fn server_info(&self, revision: &str) -> Value {
        json!({
            "protocolVersion": revision,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "codex", "title": "Codex", "version": self.settings.version},
        })
    }

    fn call_tool(&mut self, id: &Value, params: &Value) {
        let none = Map::new();
        let arguments = params.get("arguments").and_then(Value::as_object).unwrap_or(&none);
        let begun = match params.get("name").and_then(Value::as_str) {
            Some(CODEX) => self.begin_turn(id, params, arguments),
            Some(LIST_THREADS) => self.list_threads(id, params, arguments),
            Some(ARCHIVE_THREAD) => self.archive_thread(id, params, arguments),
            _ => return self.refuse(id, INVALID_PARAMS, "unknown tool"),
        };
        if let Err(error) = begun {
            self.tell_client(tool_result(id, &json!({"success": false, "error": error}), true));
        }
    }

    fn begin_turn(&mut self, id: &Value, params: &Value, given: &Map<String, Value>) -> Result<(), String> {
        let arguments = TurnArguments::read(given, self.settings.allow_dangerous)?;
        if let Some(thread_id) = &arguments.thread_id
            && self.call_of_thread(thread_id).is_some()
        {
            return Err(format!("thread {thread_id} is busy with another turn; wait for its end"));
        }
        let default = self.settings.workspaces.first().ok_or(NO_WORKSPACE)?;
        // An absolute path replaces the workspace; either is checked once its links are resolved.
        let cwd = arguments.cwd.as_ref().map_or_else(|| default.clone(), |cwd| default.join(cwd));
        let is_continuation = arguments.thread_id.is_some();
        let turn = TurnRecord::new(is_continuation);
        let number = self.begin(id, params, CallKind::Turn(Box::new(arguments), Box::new(turn)))?;
        self.effects.push(Effect::Locate(number, cwd));
        Ok(())
    }

    fn list_threads(&mut self, id: &Value, params: &Value, given: &Map<String, Value>) -> Result<(), String> {
        let ListArguments { limit, cursor } = ListArguments::read(given)?;
        let number = self.begin(id, params, CallKind::List)?;
        // All providers and all kinds of sources: Codex else lists threads of its own windows only.
        let kinds = ["cli", "vscode", "exec", "appServer"];
        let page = json!({"limit": limit, "cursor": cursor, "modelProviders": [], "sourceKinds": kinds});
        self.ask_codex("thread/list", &page, AwaitedReply::Answer(number));
        Ok(())
    }

    fn archive_thread(
        &mut self,
        id: &Value,
        params: &Value,
        given: &Map<String, Value>,
    ) -> Result<(), String> {
        let ArchiveArguments { thread_id } = ArchiveArguments::read(given)?;
        if self.call_of_thread(&thread_id).is_some() {
            return Err(format!("thread {thread_id} is busy with a turn; wait for its end"));
        }
        let number = self.begin(id, params, CallKind::Archive(thread_id.clone()))?;
        self.ask_codex("thread/archive", &json!({"threadId": thread_id}), AwaitedReply::Answer(number));
        Ok(())
    }

    fn begin(&mut self, id: &Value, params: &Value, kind: CallKind) -> Result<u64, String> {
        if !self.is_initialized {
            return Err("Codex is not ready yet".to_owned());
        }
        if self.calls.len() >= MAX_CALLS {
            return Err(format!("{MAX_CALLS} calls of Codex are under way; wait for the end of one"));
        }
        let number = self.next_number();
        let progress_token = params.pointer("/_meta/progressToken").cloned();
        let call = Call { client_id: id.clone(), progress_token, progress: 0, is_cancelled: false, kind };
        self.calls.insert(number, call);
        Ok(number)
    }

    /// Starts or resumes the thread of a call, in a directory within the workspaces.
    pub(super) fn on_located(&mut self, number: u64, path: Result<PathBuf, String>) {
        let cwd = match path.and_then(|path| self.within_workspaces(path)) {
            Ok(cwd) => cwd,
            Err(error) => return self.fail(number, &error),
        };
        let Some(call) = self.calls.get_mut(&number) else { return };
        if call.is_cancelled {
            self.calls.remove(&number);
            return;
        }
        let CallKind::Turn(arguments, _) = &mut call.kind else { return };
        arguments.cwd = Some(cwd.clone());
        let mut params = json!({
            "cwd": cwd,
            "approvalPolicy": arguments.approval_policy,
            "sandbox": arguments.sandbox.mode(),
            "model": arguments.model,
        });
        let method = match &arguments.thread_id {
            None => "thread/start",
            Some(thread_id) => {
                if let Some(params) = params.as_object_mut() {
                    params.insert("threadId".to_owned(), thread_id.as_str().into());
                    // The history of a long thread is larger than any message may be.
                    params.insert("excludeTurns".to_owned(), true.into());
                }
                "thread/resume"
            }
        };
        self.ask_codex(method, &params, AwaitedReply::Thread(number));
    }

    fn within_workspaces(&self, path: PathBuf) -> Result<String, String> {
        let is_within = |workspace: &PathBuf| path.starts_with(workspace);
        if !self.settings.workspaces.iter().any(is_within) {
            let known = self.settings.workspaces.iter().map(|path: &PathBuf| path.display().to_string());
            let known = known.collect::<Vec<_>>().join(", ");
            return Err(format!("cwd is outside of the workspaces of this backend ({known})"));
        }
        path.into_os_string().into_string().map_err(|_| "cwd is not UTF-8".to_owned())
    }

    /// Takes the client's answer to a question.
    fn on_answer(&mut self, id: &Value, message: &Value) {
        let Some(question) = id.as_u64().and_then(|id| self.questions.remove(&id)) else { return };
        let result = if let Some(result) = message.get("result") {
            question.kind.answer(result)
        } else {
            self.note(question.call, "the client could not ask the user");
            question.kind.declined()
        };
        self.effects.push(Effect::ToCodex(json!({"id": question.codex_id, "result": result})));
    }

    /// Adds a note about a declined question to the result of a call.
    pub(super) fn note(&mut self, call: u64, reason: &str) {
        if let Some(turn) = self.turn_mut(call) {
            turn.note(format!("a question of Codex was declined: {reason}"));
        }
    }

    fn refuse(&mut self, id: &Value, code: i64, message: &str) {
        self.tell_client(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}));
    }
}

/// Returns the parameters of `turn/start`. They repeat sandbox and policy: for a thread that is loaded,
/// Codex ignores those of `thread/resume`.
pub(super) fn turn_start(arguments: &TurnArguments, thread_id: &str) -> Value {
    let mut params = json!({
        "threadId": thread_id,
        "input": [{"type": "text", "text": arguments.prompt}],
        "cwd": arguments.cwd.as_deref().map(Path::new),
        "approvalPolicy": arguments.approval_policy,
        "sandboxPolicy": {"type": Sandbox::policy(arguments.sandbox)},
    });
    if let (Some(model), Some(params)) = (&arguments.model, params.as_object_mut()) {
        params.insert("model".to_owned(), model.as_str().into());
    }
    params
}
