//! Requests about tasks. A task belongs to the identity that began it: its [id](task_names) opens for
//! that identity alone, and leads to the backend. The tool's own policy is asked again at each request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::value::RawValue;
use vmcp_backend::{Response, RpcOutcome};
use vmcp_json::object::Object;
use vmcp_json::text;
use vmcp_wire::era::Era;
use vmcp_wire::handshake::client_capabilities::TASKS_REQUIRED;
use vmcp_wire::lists::{cursor::BadCursor, tasks, tasks::TaskCursor};
use vmcp_wire::meta::META;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::rpc::RpcError;
use vmcp_wire::{codes, methods};

use crate::answer::Answer;
pub use crate::call::task_calls::takes_tasks;
use crate::call::task_calls::task_names::{self, KnownTask};
use crate::call::{self, Authorized, Denied, hidden};
use crate::caller::{CallContext, Caller};
use crate::router::BackendTarget;
use crate::subject::{self, shown};
use vmcp_engine::access::policy::Item;
use vmcp_engine::engine::IssuedTask;
use vmcp_engine::random::{now, random};
use vmcp_engine::telemetry::calls::Origin;

/// Time that a backend has to tell the state of a task for a list.
const TASK_STATE_TIMEOUT: Duration = Duration::from_secs(10);
/// Tasks on a page of `tasks/list`; their states are asked for concurrently.
const PAGE_SIZE: usize = 50;
/// Purpose of sealed cursors. The number in a cursor counts the tasks of all clients.
const CURSOR_CONTEXT: &[u8] = b"cursor of tasks";
/// Seconds for which a cursor is good.
const CURSOR_LIFETIME_SECS: u64 = 24 * 60 * 60;

/// Handles `tasks/get`, `tasks/result`, `tasks/update` and `tasks/cancel`. `params` as the client sent them.
pub async fn relay(context: CallContext<'_>, method: &'static str, params: &OwnedParams) -> Answer {
    if let Err(error) = served(context, method) {
        return Answer::error(&error);
    }
    let begun = Instant::now();
    let id = match subject::subject(params, tasks::TASK_ID) {
        Ok(id) => id,
        Err(error) => return Answer::error(&error),
    };
    let Some(task) = task_names::open(context, &id) else {
        hidden::record_task(context, &id, method);
        hidden::hold(context, begun).await;
        return Answer::error(&not_found(&id));
    };
    let Ok(call) = authorized(context, &task, method) else {
        hidden::hold(context, begun).await;
        return Answer::error(&not_found(&id));
    };
    task.remember(context, &id);
    match call.call(params).await {
        Ok(Response { outcome: RpcOutcome::Result(result), era }) => {
            let outcome = RpcOutcome::Result(task.named(&id, result));
            Answer::relayed(task.backend, Response { outcome, era })
        }
        Ok(response) => Answer::relayed(task.backend, response),
        Err(error) => Answer::unanswered(task.backend, &error),
    }
}

/// Asks the policy about a request for a task.
fn authorized<'a>(
    context: CallContext<'a>,
    task: &'a KnownTask<'a>,
    method: &'static str,
) -> Result<Authorized<'a>, Denied> {
    let item = Item::Task { tool: task.tool, id: &task.id };
    let mut target = BackendTarget::read(context.snapshot, task.backend, method, item);
    target.idempotent = method != methods::TASKS_UPDATE;
    if method == methods::TASKS_RESULT {
        // `tasks/result` waits until the task is done.
        target.deadline = context.snapshot.config.proxy.max_tool_timeout;
    }
    call::authorize(context, context.start_record(Origin::Client), target, None)
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

/// The answer for an unknown task, a task of another identity, and a denied task.
fn not_found(task: &str) -> RpcError {
    RpcError::new(codes::INVALID_PARAMS, format!("Task not found: {}", shown(task)))
}

/// Handles `tasks/list`: the caller's own tasks that this process knows, with their present states.
pub async fn list(context: CallContext<'_>, params: &OwnedParams) -> Answer {
    let mut declared = context.snapshot.declared_capabilities(context.view);
    if !declared.any(|(_, capabilities)| capabilities.lists_tasks()) {
        return Answer::error(&RpcError::method_not_found(methods::TASKS_LIST));
    }
    let after = match params.get("cursor").filter(|cursor| *cursor != "null") {
        None => 0,
        Some(_) => match opened(context, &params.get_str("cursor").unwrap_or_default()) {
            Some(cursor) => cursor.after,
            None => return Answer::invalid(BadCursor.to_string()),
        },
    };
    let owner = task_names::owner(context);
    let own = context.snapshot.tasks.of_owner(&owner, after, PAGE_SIZE);
    let cursor = own.last().filter(|_| own.len() == PAGE_SIZE).map(|(after, _)| TaskCursor { after: *after });
    // A list takes no messages of backends.
    let caller = &Caller { events: None, ..context.caller.clone() };
    let context = CallContext { caller, ..context };
    let states = join_all(own.iter().map(|(number, task)| state(context, *number, task))).await;
    let listed: Vec<String> = states.into_iter().flatten().collect();
    let next = cursor.map(|cursor| format!(r#","nextCursor":{}"#, text::quoted(&sealed(context, cursor))));
    let page = format!(r#"{{"{}":[{}]{}}}"#, tasks::TASKS, listed.join(","), next.unwrap_or_default());
    Answer::own(RawValue::from_string(page).unwrap_or_default())
}

/// Returns the text of a cursor, which is of use to the caller alone.
fn sealed(context: CallContext<'_>, cursor: TaskCursor) -> String {
    let until = now().saturating_add(CURSOR_LIFETIME_SECS);
    context.snapshot.ring().seal(&random(), cursor.encode().as_bytes(), &bound_to(context), until)
}

/// Returns the cursor that was sealed for the caller.
fn opened(context: CallContext<'_>, text: &str) -> Option<TaskCursor> {
    let opened = context.snapshot.ring().open(text, &bound_to(context), now()).ok()?;
    TaskCursor::decode(std::str::from_utf8(&opened.content).ok()?)
}

fn bound_to(context: CallContext<'_>) -> Vec<u8> {
    [CURSOR_CONTEXT, context.caller.principal.binding().as_slice()].concat()
}

/// Asks the backend of a task for its state, as an entry of a list; `None` for a task that the caller may not
/// reach any more, or whose backend does not answer.
async fn state(context: CallContext<'_>, number: u64, issued: &Arc<IssuedTask>) -> Option<String> {
    let task = task_names::open(context, &issued.shown)?;
    let item = Item::Task { tool: task.tool, id: &task.id };
    let mut target = BackendTarget::read(context.snapshot, task.backend, methods::TASKS_GET, item);
    target.deadline = TASK_STATE_TIMEOUT.min(target.deadline);
    let call = call::authorize(context, context.start_record(Origin::Client), target, None).ok()?;
    let params = format!("{{\"{}\":{}}}", tasks::TASK_ID, text::quoted(&task.id));
    match call.call(&OwnedParams::from_text(params).ok()?).await.ok()?.outcome {
        RpcOutcome::Result(state) => {
            let state = task.named(&issued.shown, state);
            let object = Object::parse(&state).ok()?;
            let mut entry = object.edit();
            entry.remove(META);
            Some(entry.finish().into_cow().into_owned())
        }
        RpcOutcome::Error(_) | RpcOutcome::Arriving(_) => {
            context.snapshot.tasks.forget(number);
            None
        }
    }
}
