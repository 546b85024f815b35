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
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::rpc::RpcError;
use vmcp_wire::{codes, methods};

use crate::answer::{Answer, Content};
pub use crate::call::task_calls::takes_tasks;
use crate::call::{self, Denied};
use crate::caller::{CallContext, Caller};
use crate::router::BackendTarget;
use crate::subject::{self, shown};
use vmcp_engine::access::policy::Item;
use vmcp_engine::telemetry::calls::Origin;

/// Time that a backend has to say if it owns a task, or to list its tasks.
const TASK_LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
const NEXT_CURSOR: &str = "nextCursor";

/// Handles `tasks/get`, `tasks/result`, `tasks/update` and `tasks/cancel`. `params` as the client sent them.
pub async fn relay(context: CallContext<'_>, method: &'static str, params: &OwnedParams) -> Answer {
    if let Err(error) = served(context, method) {
        return Answer::error(&error);
    }
    let task = match subject::subject(params, tasks::TASK_ID) {
        Ok(task) => task,
        Err(error) => return Answer::error(&error),
    };
    let found = match find_owner(context, &task).await {
        Ok(found) => found,
        Err(error) => return Answer::error(&error),
    };
    if let Some(answer) = found.answer.filter(|_| method == methods::TASKS_GET) {
        return Answer::relayed(&found.backend, answer);
    }
    let item = Item::Task(&task);
    let mut target = BackendTarget::read(context.snapshot, &found.backend, method, item);
    target.idempotent = method != methods::TASKS_UPDATE;
    if method == methods::TASKS_RESULT {
        // `tasks/result` waits until the task is done.
        target.deadline = context.snapshot.config.proxy.max_tool_timeout;
    }
    match call::authorize(context, context.start_record(Origin::Client), target, None) {
        Ok(call) => call.relay(params).await,
        Err(Denied) => Answer::error(&not_found(&task)),
    }
}

/// Checks that a backend has tasks, and that the client takes them.
fn served(context: CallContext<'_>, method: &str) -> Result<(), RpcError> {
    let caller = context.caller;
    if !context
        .snapshot
        .declared_capabilities(context.view)
        .any(|(_, capabilities)| capabilities.has_tasks(caller.era))
    {
        return Err(RpcError::method_not_found(method));
    }
    if caller.era == Era::Modern && !takes_tasks(caller) {
        return Err(RpcError::missing_client_capability(TASKS_REQUIRED));
    }
    Ok(())
}

/// The answer for a task that no backend knows, and for one whose backend a policy denies.
fn not_found(task: &str) -> RpcError {
    RpcError::new(codes::INVALID_PARAMS, format!("Task not found: {}", shown(task)))
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
pub async fn find_owner(context: CallContext<'_>, task: &str) -> Result<TaskOwner, RpcError> {
    let CallContext { snapshot, view, caller, .. } = context;
    let identity = &caller.principal.identity;
    let candidates =
        snapshot.declared_capabilities(view).filter(|(_, capabilities)| capabilities.has_tasks(caller.era));
    let candidates: Vec<&Arc<str>> = candidates.map(|(name, _)| name).collect();
    let known = snapshot.tasks.get(identity, task);
    if let Some(backend) = known.filter(|known| candidates.contains(&known)) {
        return Ok(TaskOwner { backend, answer: None });
    }
    if let [only] = candidates.as_slice() {
        return Ok(TaskOwner { backend: Arc::clone(only), answer: None });
    }
    let params = OwnedParams::from_text(format!("{{\"{}\":{}}}", tasks::TASK_ID, text::quoted(task)));
    let params = params.map_err(|error| RpcError::new(codes::INVALID_PARAMS, error.to_string()))?;
    // The look-up is vmcp's own; messages of asked backends have no receiver.
    let caller = &Caller { events: None, ..caller.clone() };
    let context = CallContext { caller, ..context };
    let ask = |backend| {
        let mut target = BackendTarget::read(snapshot, backend, methods::TASKS_GET, Item::Task(task));
        target.deadline = TASK_LOOKUP_TIMEOUT;
        // A denied backend has no task that this caller could know of.
        let call = call::authorize(context, context.start_record(Origin::Internal), target, None).ok()?;
        let params = &params;
        Some(async move { (backend, call.call(params).await) })
    };
    // All at once: the first backend that knows the task ends the look-up.
    let mut asked: FuturesUnordered<_> = candidates.into_iter().filter_map(ask).collect();
    let mut silent = false;
    while let Some((backend, answer)) = asked.next().await {
        match answer {
            Ok(answer @ Response { outcome: RpcOutcome::Result(_), .. }) => {
                snapshot.tasks.learn(identity, task, backend);
                return Ok(TaskOwner { backend: Arc::clone(backend), answer: Some(answer) });
            }
            Ok(_) => {}
            Err(_) => silent = true,
        }
    }
    Err(if silent {
        let message = format!("task {}: a backend that may have it does not answer", shown(task));
        RpcError::new(codes::INTERNAL_ERROR, message)
            .with_data(json!({"category": "unavailable"}).to_string())
    } else {
        not_found(task)
    })
}

/// Handles `tasks/list`: the tasks of one backend after those of the other, each page as its backend wrote
/// it.
pub async fn list(context: CallContext<'_>, params: &OwnedParams) -> Answer {
    let unknown = || Answer::error(&RpcError::method_not_found(methods::TASKS_LIST));
    let backends = context
        .snapshot
        .declared_capabilities(context.view)
        .filter(|(_, capabilities)| capabilities.lists_tasks());
    let backends: Vec<&Arc<str>> = backends.map(|(name, _)| name).collect();
    if backends.is_empty() {
        return unknown();
    }
    let start = match params.get("cursor").filter(|cursor| *cursor != "null") {
        None => None,
        Some(_) => match TaskCursor::decode(&params.get_str("cursor").unwrap_or_default()) {
            Some(cursor) => Some(cursor),
            None => return Answer::invalid(vmcp_wire::lists::cursor::BadCursor.to_string()),
        },
    };
    let first = start.as_ref().map(|start| start.server.as_str()).unwrap_or_default();
    let at = backends.partition_point(|backend| &***backend < first);
    let mut left = backends.get(at..).unwrap_or_default();
    let (mut failure, mut all_denied) = (None, !left.is_empty());
    while let Some((backend, after)) = left.split_first() {
        left = after;
        let own = start.as_ref().filter(|start| *start.server == ***backend);
        let own = own.and_then(|start| start.cursor.as_deref());
        let Ok(answer) = page(context, backend, params, own).await else { continue };
        all_denied = false;
        match answer {
            Ok(Response { outcome: RpcOutcome::Result(page), era }) => {
                let next = left.first().map(|next| &***next);
                return Answer {
                    content: Content::Result(paged(context, backend, page, next)),
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
    if all_denied {
        return unknown();
    }
    // A client that has got some pages gets an end of the list, not an error for the backends that cannot be
    // listed.
    let nothing = || Answer::own(RawValue::from_string(r#"{"tasks":[]}"#.to_owned()).unwrap_or_default());
    failure.filter(|_| start.is_none()).unwrap_or_else(nothing)
}

async fn page(
    context: CallContext<'_>,
    backend: &Arc<str>,
    params: &OwnedParams,
    cursor: Option<&str>,
) -> Result<Result<Response, CallError>, Denied> {
    let cursor = cursor.map(text::quoted);
    let mut target = BackendTarget::read(context.snapshot, backend, methods::TASKS_LIST, Item::Tasks);
    target.deadline = TASK_LOOKUP_TIMEOUT.min(target.deadline);
    let call = call::authorize(context, context.start_record(Origin::Client), target, None)?;
    Ok(match params.with(&[("cursor", cursor.as_deref())]) {
        Ok(params) => call.call(&params).await,
        Err(error) => Err(CallError::protocol(error.to_string())),
    })
}

/// Replaces the cursor of a backend's page with one of vmcp's own; `next` is the backend that comes after it.
fn paged(
    context: CallContext<'_>,
    backend: &Arc<str>,
    page: vmcp_wire::payload::Payload,
    next: Option<&str>,
) -> vmcp_wire::payload::Payload {
    let Ok(object) = Object::parse(&page) else { return page };
    for task in tasks::listed(&object) {
        context.snapshot.tasks.learn(&context.caller.principal.identity, &task, backend);
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
