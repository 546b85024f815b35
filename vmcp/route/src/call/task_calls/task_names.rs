//! Names of tasks: between a backend, which knows its own ids, and a client, which knows sealed ones.
//!
//! A task belongs to the identity that began it. Its sealed id names backend, tool and the backend's own id,
//! and opens for that identity only, in every process with the same `server.sessionKeys`.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::oneshot;
use vmcp_backend::{CallError, Event, EventMap, Question, RpcOutcome};
use vmcp_json::object::Object;
use vmcp_json::text;
use vmcp_model::catalog::CatalogTool;
use vmcp_wire::lists::tasks;
use vmcp_wire::meta::RELATED_TASK;
use vmcp_wire::payload::Payload;
use vmcp_wire::sealed::task_id::TaskId;

use crate::call::question_source;
use crate::caller::CallContext;
use vmcp_engine::engine::TaskOwner;
use vmcp_engine::random::{now, random};

/// Seconds for which the id of a task is good, from its last issue in a process: 30 days.
const TASK_ID_LIFETIME_SECS: u64 = 30 * 24 * 60 * 60;

/// Returns the owner of the tasks that the caller begins.
pub(crate) fn owner(context: CallContext<'_>) -> TaskOwner {
    TaskOwner::new(&context.caller.principal, context.caller.session)
}

/// Returns the id under which the caller knows, from now on, a task of a tool.
pub(crate) fn issue(context: CallContext<'_>, tool: &CatalogTool, id: &str) -> Result<Arc<str>, CallError> {
    let (owner, name) = (owner(context), &tool.definition.name);
    context.snapshot.tasks.issue(owner, &tool.backend, name, id, || {
        let task = TaskId { backend: tool.backend.to_string(), tool: name.clone(), id: id.to_owned() };
        let until = now().saturating_add(TASK_ID_LIFETIME_SECS);
        let sealed = task.seal(&context.snapshot.ring(), &random(), &owner.binding, until);
        sealed.map_err(|error| CallError::protocol(error.to_string()))
    })
}

/// A task whose id the caller presented, and whose tool is in the caller's view.
#[derive(Debug)]
pub struct KnownTask<'a> {
    /// The backend that has the task.
    pub backend: &'a Arc<str>,
    /// The tool whose call became the task.
    pub tool: &'a Arc<CatalogTool>,
    /// The backend's own id.
    pub id: String,
}

/// Opens the id that the caller presents; `None` for an id that is forged, expired, of another identity, or
/// of a tool or backend outside of the caller's view.
pub fn open<'a>(context: CallContext<'a>, shown: &str) -> Option<KnownTask<'a>> {
    let CallContext { snapshot, view, caller, .. } = context;
    let task = TaskId::open(&snapshot.ring(), shown, &caller.principal.binding(), now()).ok()?;
    let mut declared = snapshot.declared_capabilities(view);
    let (backend, capabilities) = declared.find(|(name, _)| ***name == *task.backend)?;
    let mut tools = view.tools_of(backend, &task.tool).into_iter();
    let tool = tools.find(|tool| tool.definition.name == task.tool)?;
    capabilities.has_tasks(caller.era).then_some(KnownTask { backend, tool, id: task.id })
}

impl KnownTask<'_> {
    /// Records that the caller knows the task: this process lists it, and tells its client of changes.
    pub(crate) fn remember(&self, context: CallContext<'_>, shown: &str) {
        let name = &self.tool.definition.name;
        let shown = || Ok::<_, std::convert::Infallible>(shown.to_owned());
        let _ = context.snapshot.tasks.issue(owner(context), self.backend, name, &self.id, shown);
    }

    /// Puts the id that the caller knows in the place of the backend's own.
    pub(crate) fn named(&self, shown: &str, result: Payload) -> Payload {
        let rename = |id: &str| (id == self.id).then(|| shown.to_owned());
        if !result.contains(&text::quoted(tasks::TASK_ID)) {
            return result;
        }
        tasks::renamed(&result, rename).map_or(result, Payload::from)
    }
}

/// Returns the change of events that a backend sends to the caller: questions name the backend, or are
/// dropped if it may ask nothing, which tells the backend; related tasks get the ids that the caller knows,
/// and in the answers of the caller those of the backend.
pub(crate) fn of_events(context: CallContext<'_>, backend: &Arc<str>) -> EventMap {
    let (issued, owner, backend) = (Arc::clone(&context.snapshot.tasks), owner(context), Arc::clone(backend));
    // A bridge stands for its one program.
    let names_backend = !context.snapshot.bridge;
    let is_silent = question_source::is_silent(context, &backend);
    Arc::new(move |event| {
        if is_silent && question_source::asks(&event) {
            return None;
        }
        let event = if names_backend { question_source::named(event, &backend)? } else { event };
        Some(named(event, |id| issued.shown_to(&owner, &backend, id)))
    })
}

/// Puts the ids that a client knows into an event of a backend.
pub fn named(event: Event, shown: impl Fn(&str) -> Option<Arc<str>>) -> Event {
    match event {
        Event::Notification(message) if may_relate(message.get()) => {
            let params = Object::parse(&message).ok().and_then(|message| message.get("params"));
            let params = params.and_then(|params| tasks::related_renamed(params, rename(&shown)));
            Event::Notification(params.and_then(|params| with_params(&message, &params)).unwrap_or(message))
        }
        Event::Question(question)
            if question.params.as_ref().is_some_and(|params| may_relate(params.get())) =>
        {
            Event::Question(named_question(question, &shown))
        }
        event => event,
    }
}

/// True if a JSON text may have the key of a related task, as it is or with escapes: PHP writes `\/` for `/`.
fn may_relate(json: &str) -> bool {
    json.contains(RELATED_TASK) || json.contains("\\/") || json.contains("\\u")
}

fn rename(shown: &impl Fn(&str) -> Option<Arc<str>>) -> impl Fn(&str) -> Option<String> {
    move |id| shown(id).map(|shown| shown.to_string())
}

/// Returns a message with other parameters.
pub fn with_params(message: &RawValue, params: &RawValue) -> Option<Box<RawValue>> {
    let message = Object::parse(message).ok()?;
    let mut edit = message.edit();
    edit.set("params", params.get().to_owned());
    edit.finish().into_raw().ok()
}

/// Renames the task that a question is related to, and renames it back in the answer.
fn named_question(question: Question, shown: &impl Fn(&str) -> Option<Arc<str>>) -> Question {
    let Question { id: own_id, method, params, answer } = question;
    let related = params.as_deref().and_then(related_task);
    let params = params.map(|params| tasks::related_renamed(&params, rename(shown)).unwrap_or(params));
    let Some((id, shown)) = related.and_then(|id| Some((id.clone(), shown(&id)?))) else {
        return Question { id: own_id, method, params, answer };
    };
    let (sender, answered) = oneshot::channel();
    tokio::spawn(async move {
        let mut answer = answer;
        let outcome = tokio::select! {
            outcome = answered => outcome,
            // The backend waits no longer; the dropped receiver tells the client.
            () = answer.closed() => return,
        };
        let own = |named: &str| (*named == *shown).then(|| id.clone());
        let outcome = match outcome {
            Ok(RpcOutcome::Result(result)) if may_relate(result.get()) => {
                RpcOutcome::Result(tasks::related_renamed(&result, own).map_or(result, Payload::from))
            }
            Ok(outcome) => outcome,
            Err(_) => return,
        };
        // The backend may have gone in the meantime.
        let _ = answer.send(outcome);
    });
    Question { id: own_id, method, params, answer: sender }
}

fn related_task(params: &RawValue) -> Option<String> {
    let meta = Object::parse(Object::parse(params).ok()?.get(vmcp_wire::meta::META)?).ok()?;
    let related = Object::parse(meta.get(RELATED_TASK)?).ok()?;
    related.get_str(tasks::TASK_ID).map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_related_task_is_renamed_also_under_an_escaped_key() {
        for key in [
            RELATED_TASK,
            r"io.modelcontextprotocol\/related-task",
            r"\u0069o.modelcontextprotocol/related-task",
        ] {
            let message = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"_meta":{{"{key}":{{"taskId":"b-1"}}}}}}}}"#
            );
            let event = Event::Notification(RawValue::from_string(message).unwrap());
            let renamed = named(event, |id| (id == "b-1").then(|| "sealed".into()));
            let Event::Notification(message) = renamed else { panic!("a notification") };
            assert!(message.get().contains("sealed") && !message.get().contains("b-1"), "{}", message.get());
        }
    }
}
