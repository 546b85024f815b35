//! Threads of Codex behind the tools of a backend with `transport: codex`: each belongs to the principal that
//! started it, and for any other one it does not exist. A result names the thread's session.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use vmcp_backend::{CallError, Response, RpcOutcome};
use vmcp_codex::{LIST_THREADS, TOOLS};
use vmcp_wire::era::Era;
use vmcp_wire::owned::OwnedParams;

use crate::answer::tool_result;
use crate::caller::CallContext;
use crate::router::BackendTarget;
use vmcp_engine::access::policy::Item;

/// A call of one of Codex's tools.
pub(super) struct CodexCall<'a> {
    context: CallContext<'a>,
    is_list: bool,
    arguments: Map<String, Value>,
}

impl<'a> CodexCall<'a> {
    /// Returns the call, if the target is a tool of an app server of Codex.
    pub(super) fn read(
        context: CallContext<'a>,
        target: &BackendTarget<'_>,
        params: &OwnedParams,
    ) -> Option<CodexCall<'a>> {
        let Item::Tool(tool) = target.item else { return None };
        context.snapshot.backends.get(target.backend)?.spec().codex.as_ref()?;
        let name = tool.definition.name.as_str();
        if !TOOLS.contains(&name) {
            return None;
        }
        let arguments = params.get("arguments").and_then(|text| serde_json::from_str(text).ok());
        Some(CodexCall { context, is_list: name == LIST_THREADS, arguments: arguments.unwrap_or_default() })
    }

    /// Returns the answer to a call that names a thread out of the caller's reach.
    pub(super) async fn refusal(&self) -> Result<Option<Response>, CallError> {
        let Some(thread_id) = self.arguments.get("thread_id").and_then(Value::as_str) else {
            return Ok(None);
        };
        if !self.reachable(vec![thread_id.to_owned()]).await?.is_empty() {
            return Ok(None);
        }
        let refused = json!({"success": false, "thread_id": thread_id, "error": "thread not found"});
        Ok(Some(Response { outcome: RpcOutcome::result(&failed(&refused)), era: Era::Legacy }))
    }

    /// Completes the answer: with the session of the thread, and without threads of others.
    pub(super) async fn complete(&self, response: Response) -> Response {
        let Response { outcome: RpcOutcome::Result(result), era } = response else { return response };
        let changed = match serde_json::from_str(result.get()) {
            Ok(parsed) if self.is_list => self.listed(parsed).await,
            Ok(parsed) => self.tracked(parsed).await,
            Err(_) => None,
        };
        match changed {
            Some(changed) => Response { outcome: RpcOutcome::result(&changed), era },
            // Nothing to add. A list is never passed on unread.
            None if !self.is_list => Response { outcome: RpcOutcome::Result(result), era },
            None => {
                let withheld = json!({"success": false, "error": "the threads cannot be read"});
                Response { outcome: RpcOutcome::result(&failed(&withheld)), era }
            }
        }
    }

    async fn tracked(&self, mut result: Value) -> Option<Box<RawValue>> {
        let mut told = result.get("structuredContent")?.clone();
        let thread_id = told.get("thread_id")?.as_str()?.to_owned();
        let session_id = told.get_mut("session_id")?;
        let settings = &self.context.snapshot.config.optimizer.session_hooks;
        let sessions = self.context.engine.agent_sessions();
        let cwd = self.arguments.get("cwd").and_then(Value::as_str);
        let principal = &self.context.caller.principal;
        match sessions.session_of_thread(principal, settings, &thread_id, cwd).await {
            Ok(id) => *session_id = id.into(),
            Err(error) => tracing::warn!(%error, "a thread of Codex has no session"),
        }
        replace(&mut result, told);
        to_raw_value(&result).ok()
    }

    async fn listed(&self, mut result: Value) -> Option<Box<RawValue>> {
        let mut told = result.get("structuredContent")?.clone();
        if let Some(threads) = told.get_mut("threads").and_then(Value::as_array_mut) {
            let id = |thread: &Value| thread.get("id").and_then(Value::as_str).map(str::to_owned);
            let reachable = self.reachable(threads.iter().filter_map(id).collect()).await.ok()?;
            threads.retain(|thread| id(thread).is_some_and(|id| reachable.contains(&id)));
        }
        replace(&mut result, told);
        to_raw_value(&result).ok()
    }

    async fn reachable(&self, threads: Vec<String>) -> Result<Vec<String>, CallError> {
        let sessions = self.context.engine.agent_sessions();
        let reachable = sessions.reachable_threads(&self.context.caller.principal, threads).await;
        reachable.map_err(|error| CallError::unsent(error.to_string()))
    }
}

/// Makes the result of a call that failed.
fn failed(told: &Value) -> Box<RawValue> {
    // A JSON value cannot fail to serialize.
    tool_result::failure(&to_raw_value(told).unwrap_or_default())
}

/// Replaces the object of a result, in both of its forms.
fn replace(result: &mut Value, told: Value) {
    if let Some(text) = result.pointer_mut("/content/0/text") {
        *text = told.to_string().into();
    }
    if let Some(result) = result.as_object_mut() {
        result.insert("structuredContent".to_owned(), told);
    }
}
