//! [`ListenFilter`]: the filter of `subscriptions/listen`. Read from the request, narrowed to the topics that
//! backends confirm ([`accept`]), and written into the acknowledgement.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{join, join_all};
use serde_json::value::RawValue;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use vmcp_backend::RpcOutcome;
use vmcp_engine::engine::Snapshot;
use vmcp_engine::telemetry::traces::TraceSpan;
use vmcp_json::object::Object;
use vmcp_json::text;
use vmcp_wire::owned::OwnedParams;

use super::mailbox::Mailbox;
use super::server_push::ServerPush;
use super::topics::{Topic, TopicKind};
use vmcp_route::{CallContext, Caller, subscriptions, task_names};

/// Key of the resource URIs in the filter.
const RESOURCES_KEY: &str = "resourceSubscriptions";
/// Key of the task ids in the filter.
const TASKS_KEY: &str = "taskIds";
/// Wait for the confirmation of a backend; an entry that is not confirmed by then is not accepted.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(10);
/// Distinct entries of each array that are read; further ones are ignored and missing in the acknowledgement.
const MAX_ENTRIES: usize = 1000;

/// The lists whose changes a client wants to hear of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WatchedLists {
    pub(crate) tools: bool,
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
}

/// A filter as requested, or the accepted part of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenFilter {
    pub(crate) lists: WatchedLists,
    pub(crate) resources: Vec<Box<str>>,
    pub(crate) tasks: Vec<Box<str>>,
}

impl ListenFilter {
    /// Reads the filter of a request. A malformed part counts as absent.
    pub(crate) fn parse(params: &OwnedParams) -> Self {
        let filter = params.get("notifications").and_then(|filter| Object::parse_valid(filter).ok());
        let filter = filter.unwrap_or_default();
        let asked = |key| filter.text(key) == Some("true");
        Self {
            lists: WatchedLists {
                tools: asked("toolsListChanged"),
                resources: asked("resourcesListChanged"),
                prompts: asked("promptsListChanged"),
            },
            resources: distinct_strings(filter.get(RESOURCES_KEY)),
            tasks: distinct_strings(filter.get(TASKS_KEY)),
        }
    }

    /// Writes the filter as the protocol has it, without empty parts.
    pub(crate) fn to_json(&self) -> String {
        let keys = [
            (self.lists.tools, "toolsListChanged"),
            (self.lists.resources, "resourcesListChanged"),
            (self.lists.prompts, "promptsListChanged"),
        ];
        let lists = keys.iter().filter(|(wanted, _)| *wanted).map(|(_, key)| format!("\"{key}\":true"));
        let named = [(RESOURCES_KEY, &self.resources), (TASKS_KEY, &self.tasks)];
        let named = named.iter().filter(|(_, all)| !all.is_empty()).map(|(key, all)| {
            let all: Vec<_> = all.iter().map(|name| text::quoted(name)).collect();
            format!("\"{key}\":[{}]", all.join(","))
        });
        format!("{{{}}}", lists.chain(named).collect::<Vec<_>>().join(","))
    }
}

/// Returns the distinct strings of a JSON array, sorted, at most [`MAX_ENTRIES`]; none if an element is no
/// string.
fn distinct_strings(array: Option<&RawValue>) -> Vec<Box<str>> {
    let mut strings: Vec<Box<str>> =
        array.and_then(|array| serde_json::from_str(array.get()).ok()).unwrap_or_default();
    strings.sort_unstable();
    strings.dedup();
    strings.truncate(MAX_ENTRIES);
    strings
}

/// Subscribes a mailbox to the entries of `wanted` that exist and that their backends confirm. Returns these.
pub(crate) async fn accept(
    push: Arc<ServerPush>,
    caller: Caller,
    mailbox: Arc<Mailbox>,
    wanted: ListenFilter,
) -> ListenFilter {
    let begun = Instant::now();
    let snapshot = push.engine.snapshot();
    push.engine.prepare(&snapshot, &caller.principal).await;
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine: &push.engine, snapshot: &snapshot, view: &view, caller: &caller };
    let topics = &push.router.topics;
    let reserve = |kind, backend: &Arc<str>, name: &str, shown: Option<&str>| {
        let topic = Topic { kind, backend: Arc::clone(backend), name: name.into() };
        let shown = shown.map(Arc::from);
        topics.reserve(&mailbox, topic, caller.principal.clone(), None, shown).ok().flatten()
    };
    let (own, resources): (Vec<_>, Vec<_>) =
        wanted.resources.into_iter().partition(|uri| subscriptions::is_own(context, uri));
    let resources = join_all(resources.into_iter().map(async |uri| {
        let (backend, call) = subscriptions::resource(context, &uri)?;
        let reservation = reserve(TopicKind::Resource, backend, &uri, None)?;
        match timeout(CONFIRM_TIMEOUT, call.subscribe()).await {
            Ok(Ok((backend, RpcOutcome::Result(_)))) => {
                reservation.confirm(backend.clone());
                Some(uri)
            }
            Ok(_) | Err(_) => None,
        }
    }));
    let tasks = join_all(wanted.tasks.into_iter().map(async |id| {
        let task = task_names::open(context, &id)?;
        let call = subscriptions::task(context, &task)?;
        let reservation = reserve(TopicKind::Task, task.backend, &task.id, Some(&id))?;
        let backend = call.watch_task().await.ok()?.clone();
        reservation.confirm(backend);
        Some(id)
    }));
    let own = accept_own(&push, &snapshot, &caller, &mailbox, own);
    let (tasks, (resources, own)) = join(tasks, join(resources, own)).await;
    let tasks = tasks.into_iter().flatten().collect();
    let mut resources: Vec<_> = resources.into_iter().flatten().chain(own).collect();
    resources.sort_unstable();
    subscriptions::hold(context, begun).await;
    ListenFilter { lists: wanted.lists, resources, tasks }
}

/// Subscribes a mailbox to own resources of vmcp; returns the subscribed ones. Their servers and tools
/// are listed in a thread that may block.
async fn accept_own(
    push: &Arc<ServerPush>,
    snapshot: &Arc<Snapshot>,
    caller: &Caller,
    mailbox: &Arc<Mailbox>,
    uris: Vec<Box<str>>,
) -> Vec<Box<str>> {
    if uris.is_empty() {
        return uris;
    }
    let (push, snapshot) = (Arc::clone(push), Arc::clone(snapshot));
    let (caller, mailbox, span) = (caller.clone(), Arc::clone(mailbox), TraceSpan::current());
    let accepted = spawn_blocking(move || {
        let _entered = span.enter();
        let view = snapshot.view(&caller.principal);
        let context = CallContext { engine: &push.engine, snapshot: &snapshot, view: &view, caller: &caller };
        let accepts = |uri: &str| {
            let (topic, principal) = (Topic::own(uri), caller.principal.clone());
            let reserved = push.router.topics.reserve(&mailbox, topic, principal, None, None);
            let reservation = reserved.ok().flatten()?;
            reservation.confirm_own(subscriptions::own_digest(context, uri)?);
            Some(())
        };
        let accepted: Vec<_> = uris.into_iter().filter(|uri| accepts(uri).is_some()).collect();
        if !accepted.is_empty() {
            push.router.own_subscribed.notify_one();
        }
        accepted
    });
    // Without the thread the process is going down.
    accepted.await.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_read_and_written() {
        let params = r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourcesListChanged":"true",
            "resourceSubscriptions":["b","a","b"],"taskIds":["t"]}}"#;
        let wanted = ListenFilter::parse(&OwnedParams::from_text(params).unwrap());
        assert_eq!(wanted.lists, WatchedLists { tools: true, ..WatchedLists::default() });
        assert_eq!(
            wanted.to_json(),
            r#"{"toolsListChanged":true,"resourceSubscriptions":["a","b"],"taskIds":["t"]}"#
        );
        for odd in ["{}", r#"{"notifications":[]}"#, r#"{"notifications":{"resourceSubscriptions":[1]}}"#] {
            assert_eq!(ListenFilter::parse(&OwnedParams::from_text(odd).unwrap()).to_json(), "{}");
        }
    }
}
