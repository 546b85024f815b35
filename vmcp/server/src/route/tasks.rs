//! Routes requests about tasks to the backend that owns the task. The owner is known from the answer that
//! created the task, and else found by asking all backends at once.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::json;
use serde_json::value::RawValue;
use vmcp_backend::{CallError, Response, RpcOutcome};
use vmcp_json::object::Object;
use vmcp_json::text;
use vmcp_wire::era::Era;
use vmcp_wire::handshake::client_capabilities::TASKS_REQUIRED;
use vmcp_wire::lists::{tasks, tasks::TaskCursor};
use vmcp_wire::rpc::RpcError;
use vmcp_wire::{codes, methods};

use super::answer::Answer;
use super::backend::request::{self, Target};
pub(crate) use super::backend::task_calls::takes_tasks;
use super::caller::Caller;
use super::subject::{Subject, shown};
use crate::engine::{Engine, Snapshot};

/// Time that a backend has to say if it owns a task, or to list its tasks.
const TASK_LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
const NEXT_CURSOR: &str = "nextCursor";

/// Handles `tasks/get`, `tasks/result`, `tasks/update` and `tasks/cancel`. `params` as the client sent them.
pub async fn relay(engine: &Engine, caller: &Caller, method: &str, params: &RawValue) -> Answer {
    let snapshot = engine.snapshot();
    if let Err(error) = served(&snapshot, caller, method) {
        return Answer::error(&error);
    }
    let task = match Subject::parse(params, tasks::TASK_ID) {
        Ok(params) => params.subject,
        Err(error) => return Answer::error(&error),
    };
    let found = match find_owner(engine, caller, &task).await {
        Ok(found) => found,
        Err(error) => return Answer::error(&error),
    };
    if let Some(answer) = found.answer.filter(|_| method == methods::TASKS_GET) {
        return Answer::relayed(&found.backend, answer);
    }
    let deadline = match method {
        // `tasks/result` waits until the task is done.
        methods::TASKS_RESULT => snapshot.config.proxy.max_tool_timeout,
        _ => snapshot.tool_timeout(&found.backend),
    };
    let idempotent = method != methods::TASKS_UPDATE;
    let target = Target {
        backend: &found.backend,
        method,
        subject: Some(&task),
        param_headers: Vec::new(),
        deadline,
        idempotent,
    };
    request::relay(engine, &snapshot, caller, target, params).await
}

/// Checks that a backend has tasks, and that the client takes them.
fn served(snapshot: &Snapshot, caller: &Caller, method: &str) -> Result<(), RpcError> {
    if !snapshot
        .declared_capabilities(caller.identity)
        .any(|(_, capabilities)| capabilities.has_tasks(caller.era))
    {
        return Err(RpcError::method_not_found(method));
    }
    if caller.era == Era::Modern && !takes_tasks(caller) {
        return Err(RpcError::missing_client_capability(TASKS_REQUIRED));
    }
    Ok(())
}

/// The owner of a task.
#[derive(Debug)]
pub struct TaskOwner {
    /// The backend that has the task.
    pub backend: Arc<str>,
    /// Its answer to `tasks/get`, if it was asked to find the owner.
    answer: Option<Response>,
}

/// Finds the backend of a task: the recorded one, the only one with tasks, or the one that answers for it.
/// Returns an error if no backend knows the task, or if one that may know it does not answer.
pub async fn find_owner(engine: &Engine, caller: &Caller, task: &str) -> Result<TaskOwner, RpcError> {
    let snapshot = engine.snapshot();
    let candidates = snapshot
        .declared_capabilities(caller.identity)
        .filter(|(_, capabilities)| capabilities.has_tasks(caller.era));
    let candidates: Vec<Arc<str>> = candidates.map(|(name, _)| Arc::clone(name)).collect();
    let known = snapshot.tasks.get(caller.identity, task);
    if let Some(backend) = known.filter(|known| candidates.contains(known)) {
        return Ok(TaskOwner { backend, answer: None });
    }
    if let [only] = candidates.as_slice() {
        return Ok(TaskOwner { backend: Arc::clone(only), answer: None });
    }
    let params = RawValue::from_string(format!("{{\"{}\":{}}}", tasks::TASK_ID, text::quoted(task)));
    let params = params.map_err(|error| RpcError::new(codes::INVALID_PARAMS, error.to_string()))?;
    // The look-up is vmcp's own; messages of asked backends have no receiver.
    let caller = &Caller { events: None, ..caller.clone() };
    let (snapshot, params) = (&*snapshot, &*params);
    let ask = |backend: Arc<str>| async move {
        let target = Target {
            backend: &backend,
            method: methods::TASKS_GET,
            subject: Some(task),
            param_headers: Vec::new(),
            deadline: TASK_LOOKUP_TIMEOUT,
            idempotent: true,
        };
        let answer = request::send(snapshot, caller, engine.metrics(), target, params).await;
        (backend, answer)
    };
    // All at once: the first backend that knows the task ends the look-up.
    let mut asked: FuturesUnordered<_> = candidates.into_iter().map(ask).collect();
    let mut silent = false;
    while let Some((backend, answer)) = asked.next().await {
        match answer {
            Ok(answer @ Response { outcome: RpcOutcome::Result(_), .. }) => {
                snapshot.tasks.learn(caller.identity, task, &backend);
                return Ok(TaskOwner { backend, answer: Some(answer) });
            }
            Ok(_) => {}
            Err(_) => silent = true,
        }
    }
    let task = shown(task);
    Err(if silent {
        let message = format!("task {task}: a backend that may have it does not answer");
        RpcError::new(codes::INTERNAL_ERROR, message)
            .with_data(json!({"category": "unavailable"}).to_string())
    } else {
        RpcError::new(codes::INVALID_PARAMS, format!("Task not found: {task}"))
    })
}

/// Handles `tasks/list`: the tasks of one backend after those of the other, each page as its backend wrote
/// it.
pub async fn list(engine: &Engine, caller: &Caller, params: &RawValue) -> Answer {
    let snapshot = engine.snapshot();
    let backends = snapshot
        .declared_capabilities(caller.identity)
        .filter(|(_, capabilities)| capabilities.lists_tasks());
    let backends: Vec<Arc<str>> = backends.map(|(name, _)| Arc::clone(name)).collect();
    if backends.is_empty() {
        return Answer::error(&RpcError::method_not_found(methods::TASKS_LIST));
    }
    let params = match Object::parse(params) {
        Ok(params) => params,
        Err(error) => return Answer::invalid(format!("`params`: {error}")),
    };
    let start = match params.get("cursor").filter(|cursor| cursor.get() != "null") {
        None => None,
        Some(_) => match TaskCursor::decode(&params.get_str("cursor").unwrap_or_default()) {
            Some(cursor) => Some(cursor),
            None => return Answer::invalid(vmcp_wire::lists::cursor::BadCursor.to_string()),
        },
    };
    let first = start.as_ref().map(|start| start.server.as_str()).unwrap_or_default();
    let at = backends.partition_point(|backend| &**backend < first);
    let mut left = backends.get(at..).unwrap_or_default();
    let mut failure = None;
    while let Some((backend, after)) = left.split_first() {
        left = after;
        let own = start.as_ref().filter(|start| *start.server == **backend);
        let own = own.and_then(|start| start.cursor.as_deref());
        match page(engine, &snapshot, caller, backend, &params, own).await {
            Ok(Response { outcome: RpcOutcome::Result(page), era }) => {
                let next = left.first().map(AsRef::as_ref);
                return Answer {
                    outcome: Ok(paged(&snapshot, caller, backend, page, next)),
                    era,
                    pending: None,
                };
            }
            // The backend refuses its own cursor, which may have expired.
            Ok(answer) if own.is_some() => return Answer::relayed(backend, answer),
            Ok(_) => tracing::warn!(%backend, "the backend refuses to list its tasks"),
            Err(error) => failure = Some(Answer::unanswered(backend, &error)),
        }
    }
    // A client that has got some pages gets an end of the list, not an error for the backends that cannot be
    // listed.
    let nothing = || Answer::own(RawValue::from_string(r#"{"tasks":[]}"#.to_owned()).unwrap_or_default());
    failure.filter(|_| start.is_none()).unwrap_or_else(nothing)
}

async fn page(
    engine: &Engine,
    snapshot: &Snapshot,
    caller: &Caller,
    backend: &str,
    params: &Object<'_>,
    cursor: Option<&str>,
) -> Result<Response, CallError> {
    let mut edit = params.edit();
    match cursor {
        Some(cursor) => _ = edit.set("cursor", text::quoted(cursor)),
        None => _ = edit.remove("cursor"),
    }
    let params =
        edit.finish().into_raw().map_err(|error| CallError::Protocol { reason: error.to_string() })?;
    let deadline = TASK_LOOKUP_TIMEOUT.min(snapshot.tool_timeout(backend));
    let target = Target {
        backend,
        method: methods::TASKS_LIST,
        subject: None,
        param_headers: Vec::new(),
        deadline,
        idempotent: true,
    };
    request::send(snapshot, caller, engine.metrics(), target, &params).await
}

/// Replaces the cursor of a backend's page with one of vmcp's own; `next` is the backend that comes after it.
fn paged(
    snapshot: &Snapshot,
    caller: &Caller,
    backend: &Arc<str>,
    page: vmcp_wire::payload::Payload,
    next: Option<&str>,
) -> vmcp_wire::payload::Payload {
    let Ok(object) = Object::parse(&page) else { return page };
    for task in tasks::listed(&object) {
        snapshot.tasks.learn(caller.identity, &task, backend);
    }
    let cursor = match object.get_str(NEXT_CURSOR) {
        Some(own) => Some(TaskCursor { server: backend.to_string(), cursor: Some(own.into_owned()) }),
        None => next.map(|next| TaskCursor { server: next.to_owned(), cursor: None }),
    };
    let mut edit = object.edit();
    match cursor {
        Some(cursor) => _ = edit.set(NEXT_CURSOR, text::quoted(&cursor.encode())),
        None => _ = edit.remove(NEXT_CURSOR),
    }
    edit.finish().into_raw().map_or_else(|_| page.clone(), Into::into)
}
