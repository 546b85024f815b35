//! Subscriptions to resources and tasks: `resources/subscribe` of legacy sessions, `subscriptions/listen` of modern clients.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::{join, join_all};
use futures::stream;
use serde_json::value::RawValue;
use tokio::time::timeout;
use vmcp_backend::{Backend, Outcome};
use vmcp_wire::era::Era;
use vmcp_wire::object::Object;
use vmcp_wire::rpc::RpcError;
use vmcp_wire::{codes, json};

use super::Edge;
use super::mailbox::Mailbox;
use super::peer::Peer;
use super::streams::Lists;
use super::topics::{Kind, Topic};
use crate::engine::Snapshot;
use crate::identity::Identity;
use crate::optim::call_arguments::empty_object;
use crate::route::{Answer, Caller, tasks};

/// The filter's keys.
const RESOURCES: &str = "resourceSubscriptions";
const TASKS: &str = "taskIds";
/// How long a client waits to hear what is accepted of its filter. What a backend has not confirmed by then is not.
const CONFIRM: Duration = Duration::from_secs(10);
/// Entries of a filter that are looked at, each kind.
const MOST: usize = 1000;
/// Tasks whose backends are looked for side by side.
const SEARCHES: usize = 16;
/// Subscriptions that are renewed side by side.
const RENEWALS: usize = 16;

/// `resources/subscribe`.
pub(super) async fn subscribe(edge: &Edge, peer: &Peer, params: &Object<'_>) -> Answer {
    let (Some(session), Some(uri)) = (peer.session, params.get_str("uri")) else { return no_uri() };
    let snapshot = edge.engine.snapshot();
    let Some((topic, backend)) = resource(&snapshot, peer.identity, &uri) else {
        let error = RpcError::resource_not_found(&uri, Era::Legacy).to_json();
        let error = RawValue::from_string(error).unwrap_or_default();
        return Answer { outcome: Err(error.into()), era: Era::Legacy, pending: None };
    };
    let kept = edge.listeners.keep(session, peer.expires, *edge.engine.generations().borrow());
    let answer = match edge.listeners.topics.reserve(&kept.mailbox, topic) {
        Ok(None) => Answer::own(empty_object()),
        Ok(Some(reserved)) => match backend.subscribe(&uri).await {
            Ok(outcome) => {
                if matches!(outcome, Outcome::Result(_)) {
                    reserved.keep(backend.clone());
                }
                // Whatever the era of the backend, an empty result is one of the client's own.
                match outcome {
                    Outcome::Result(_) => Answer::own(empty_object()),
                    Outcome::Error(error) => Answer { outcome: Err(error), era: Era::Legacy, pending: None },
                }
            }
            Err(error) => Answer::unanswered(backend.name(), &error),
        },
        Err(full) => Answer::error(&RpcError::new(codes::INVALID_REQUEST, full.to_string())),
    };
    // It may have been ended meanwhile.
    if edge.sessions.has_ended(session) {
        edge.listeners.end(session);
    }
    edge.listeners.tidy(kept);
    answer
}

/// `resources/unsubscribe`. To end what does not exist is no mistake.
pub(super) fn unsubscribe(edge: &Edge, peer: &Peer, params: &Object<'_>) -> Answer {
    let (Some(session), Some(uri)) = (peer.session, params.get_str("uri")) else { return no_uri() };
    if let Some(kept) = edge.listeners.sessions.get(session) {
        let topics = &edge.listeners.topics;
        // Whoever has the resource by now: it was subscribed to where it was then.
        for topic in topics.of(kept.mailbox.number) {
            if topic.kind == Kind::Resource && *topic.name == *uri {
                topics.remove(kept.mailbox.number, &topic);
            }
        }
        edge.listeners.tidy(kept);
    }
    Answer::own(empty_object())
}

fn no_uri() -> Answer {
    Answer::error(&RpcError::new(codes::INVALID_PARAMS, "`params.uri` must be a string"))
}

fn resource<'a>(snapshot: &'a Snapshot, identity: Identity, uri: &str) -> Option<(Topic, &'a Backend)> {
    let resource = snapshot.view(identity).resource(uri)?;
    let (name, backend) = snapshot.backends.get_key_value(resource.backend())?;
    Some((Topic { kind: Kind::Resource, backend: Arc::clone(name), name: uri.into() }, backend))
}

/// The filter of `subscriptions/listen`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) lists: Lists,
    pub(super) resources: Vec<Box<str>>,
    pub(super) tasks: Vec<Box<str>>,
}

/// What is accepted of it.
pub(super) type Accepted = Wanted;

impl Wanted {
    pub(super) fn read(params: &Object<'_>) -> Self {
        let filter =
            params.get("notifications").and_then(|filter| Object::parse(filter).ok()).unwrap_or_default();
        let asked = |key| filter.text(key) == Some("true");
        Self {
            lists: Lists {
                tools: asked("toolsListChanged"),
                resources: asked("resourcesListChanged"),
                prompts: asked("promptsListChanged"),
            },
            resources: strings(filter.get(RESOURCES)),
            tasks: strings(filter.get(TASKS)),
        }
    }

    pub(super) fn to_json(&self) -> String {
        let keys = [
            (self.lists.tools, "toolsListChanged"),
            (self.lists.resources, "resourcesListChanged"),
            (self.lists.prompts, "promptsListChanged"),
        ];
        let lists = keys.iter().filter(|(wanted, _)| *wanted).map(|(_, key)| format!("\"{key}\":true"));
        let named = [(RESOURCES, &self.resources), (TASKS, &self.tasks)];
        let named = named.iter().filter(|(_, all)| !all.is_empty()).map(|(key, all)| {
            let all: Vec<_> = all.iter().map(|name| json::quoted(name)).collect();
            format!("\"{key}\":[{}]", all.join(","))
        });
        format!("{{{}}}", lists.chain(named).collect::<Vec<_>>().join(","))
    }
}

/// The strings of an array, each once.
fn strings(array: Option<&RawValue>) -> Vec<Box<str>> {
    let mut strings: Vec<Box<str>> =
        array.and_then(|array| serde_json::from_str(array.get()).ok()).unwrap_or_default();
    strings.sort_unstable();
    strings.dedup();
    strings.truncate(MOST);
    strings
}

/// Subscribes a `mailbox` to what is `wanted`, as far as there is such a thing and its backend agrees.
pub(super) async fn accept(
    edge: Arc<Edge>,
    caller: Caller,
    mailbox: Arc<Mailbox>,
    wanted: Wanted,
) -> Accepted {
    let snapshot = edge.engine.snapshot();
    let (snapshot, topics) = (&*snapshot, &edge.listeners.topics);
    let resources = join_all(wanted.resources.into_iter().map(async |uri| {
        let (topic, backend) = resource(snapshot, caller.identity, &uri)?;
        let reserved = topics.reserve(&mailbox, topic).ok()??;
        match timeout(CONFIRM, backend.subscribe(&uri)).await {
            Ok(Ok(Outcome::Result(_))) => {
                reserved.keep(backend.clone());
                Some(uri)
            }
            Ok(Ok(Outcome::Error(_)) | Err(_)) | Err(_) => None,
        }
    }));
    let tasks = wanted.tasks.into_iter().map(async |id| {
        let home = timeout(CONFIRM, tasks::home(&edge.engine, &caller, &id)).await.ok()?.ok()?;
        let backend = snapshot.backends.get(&home.backend)?;
        let topic = Topic { kind: Kind::Task, backend: home.backend, name: (&*id).into() };
        let reserved = topics.reserve(&mailbox, topic).ok()??;
        backend.watch_task(&id).ok()?;
        reserved.keep(backend.clone());
        Some(id)
    });
    let tasks = stream::iter(tasks).buffered(SEARCHES).collect::<Vec<_>>();
    let (resources, tasks) = join(resources, tasks).await;
    Accepted {
        lists: wanted.lists,
        resources: resources.into_iter().flatten().collect(),
        tasks: tasks.into_iter().flatten().collect(),
    }
}

/// Moves subscriptions, and what backends know of sessions, to the backends of the present configuration.
pub(super) async fn renew(edge: &Edge) {
    let backends = Arc::clone(&edge.engine.snapshot().backends);
    for kept in edge.listeners.sessions.all() {
        kept.announce(&backends);
        if let Some(level) = kept.level() {
            backends.values().for_each(|backend| backend.set_log_level(kept.session, level));
        }
    }
    let topics = &edge.listeners.topics;
    let outdated = topics.outdated(|topic, old| backends.get(&topic.backend).is_some_and(|new| new.is(old)));
    stream::iter(outdated)
        .for_each_concurrent(RENEWALS, async |(topic, subscriber)| {
            let renewed = match (backends.get(&topic.backend), topic.kind) {
                (None, _) => None,
                (Some(new), Kind::Resource) => {
                    let outcome = new.subscribe(&topic.name).await;
                    matches!(outcome, Ok(Outcome::Result(_))).then_some(new)
                }
                (Some(new), Kind::Task) => new.watch_task(&topic.name).ok().map(|()| new),
            };
            match renewed {
                Some(new) => topics.recount(&topic, &subscriber, new.clone()),
                None => topics.remove(subscriber.mailbox.number, &topic),
            }
        })
        .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_read_and_written() {
        let params = r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourcesListChanged":"true",
            "resourceSubscriptions":["b","a","b"],"taskIds":["t"]}}"#;
        let wanted = Wanted::read(&Object::parse_str(params).unwrap());
        assert_eq!(wanted.lists, Lists { tools: true, ..Lists::default() });
        assert_eq!(
            wanted.to_json(),
            r#"{"toolsListChanged":true,"resourceSubscriptions":["a","b"],"taskIds":["t"]}"#
        );
        for odd in ["{}", r#"{"notifications":[]}"#, r#"{"notifications":{"resourceSubscriptions":[1]}}"#] {
            assert_eq!(Wanted::read(&Object::parse_str(odd).unwrap()).to_json(), "{}");
        }
    }
}
