//! Background task of server push: renews subscriptions after a reload of the configuration, ends those that
//! its policies no longer permit, and removes expired sessions.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use tokio::time::timeout;
use vmcp_backend::{Backend, RpcOutcome};
use vmcp_wire::era::Era;

use super::server_push::ServerPush;
use super::topics::{Subscriber, Topic, TopicKind};
use vmcp_engine::access::policy::Item;
use vmcp_engine::random;
use vmcp_route::{CallContext, Caller, subscriptions, task_names};

/// Interval at which expired sessions are removed, and subscriptions renewed whose backend did not answer.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);
/// Subscriptions that are renewed concurrently.
const MAX_CONCURRENT_RENEWALS: usize = 16;

/// Runs until the [`ServerPush`] is dropped or the engine stops.
pub(crate) async fn run(push: Weak<ServerPush>) {
    // A renewal may wait for a backend; sessions expire meanwhile.
    tokio::join!(sweep(&push), follow_configurations(&push));
}

/// Removes expired sessions.
async fn sweep(push: &Weak<ServerPush>) {
    let mut interval = tokio::time::interval(SWEEP_INTERVAL);
    loop {
        interval.tick().await;
        // Upgraded for one round only: the task must not keep the state alive.
        let Some(push) = push.upgrade() else { return };
        for expired in push.router.sessions.expired(random::now()) {
            push.end_session(expired);
        }
    }
}

/// Moves what clients asked for to the backends of each configuration.
async fn follow_configurations(push: &Weak<ServerPush>) {
    let Some(mut configurations) = push.upgrade().map(|push| push.engine.configurations()) else { return };
    loop {
        let reconfigured = match timeout(SWEEP_INTERVAL, configurations.changed()).await {
            Ok(Ok(())) => true,
            Ok(Err(_)) => return,
            Err(_) => false,
        };
        let Some(push) = push.upgrade() else { return };
        if reconfigured {
            withdraw_denied(&push).await;
            move_sessions(&push);
        }
        renew(&push).await;
    }
}

/// Registers the sessions of this process with the backends of the present configuration.
fn move_sessions(push: &ServerPush) {
    let backends = Arc::clone(&push.engine.snapshot().backends);
    for registered in push.router.sessions.all() {
        registered.announce_listening(&backends);
        if let Some(level) = registered.level() {
            backends.values().for_each(|backend| backend.set_log_level(registered.session, level));
        }
    }
}

/// Moves subscriptions to the backends of the present configuration, and tells each subscriber to look: what
/// changed in between was announced to nobody. One whose new backend does not answer is tried again in the
/// next round; one that it refuses, or that has no backend any more, is removed.
async fn renew(push: &ServerPush) {
    let snapshot = push.engine.snapshot();
    let backends = Arc::clone(&snapshot.backends);
    let topics = &push.router.topics;
    let outdated = topics.outdated(|topic, old| backends.get(&topic.backend).is_some_and(|new| new.is(old)));
    stream::iter(outdated)
        .for_each_concurrent(MAX_CONCURRENT_RENEWALS, async |(topic, subscriber)| {
            let caller = caller(&topic, &subscriber);
            push.engine.prepare(&snapshot, &caller.principal).await;
            let view = snapshot.view(&caller.principal);
            let context =
                CallContext { engine: &push.engine, snapshot: &snapshot, view: &view, caller: &caller };
            let renewal = if backends.contains_key(&topic.backend) {
                subscribe(context, &topic, subscriber.shown.as_deref()).await
            } else {
                Renewal::Refused
            };
            match renewal {
                Renewal::Renewed(new) => topics.recount(&topic, &subscriber, new),
                Renewal::Unanswered => return,
                Renewal::Refused => topics.remove(subscriber.mailbox.number, &topic),
            }
            if topic.kind == TopicKind::Resource {
                push.router.announce_update(&subscriber.mailbox, &topic.name);
            }
        })
        .await;
}

/// Returns the client of a subscription; only modern clients subscribe to tasks.
fn caller(topic: &Topic, subscriber: &Subscriber) -> Caller {
    let era = if topic.kind == TopicKind::Task { Era::Modern } else { Era::Legacy };
    Caller { principal: subscriber.principal.clone(), era, ..Caller::default() }
}

/// Ends the subscriptions that the policies in force do not permit.
async fn withdraw_denied(push: &ServerPush) {
    let snapshot = push.engine.snapshot();
    if !snapshot.policy.restricts_some() {
        return;
    }
    for (topic, subscriber) in push.router.topics.outdated(|_, _| false) {
        let caller = caller(&topic, &subscriber);
        push.engine.prepare(&snapshot, &caller.principal).await;
        let view = snapshot.view(&caller.principal);
        let context = CallContext { engine: &push.engine, snapshot: &snapshot, view: &view, caller: &caller };
        let is_allowed = match (topic.kind, &subscriber.shown) {
            (TopicKind::Resource, _) => {
                subscriptions::is_allowed(context, &topic.backend, Item::Resource(&topic.name))
            }
            (TopicKind::Task, Some(shown)) => task_names::open(context, shown).is_some_and(|task| {
                let item = Item::Task { tool: task.tool, id: &task.id };
                subscriptions::is_allowed(context, &topic.backend, item)
            }),
            (TopicKind::Task, None) | (TopicKind::Own, _) => false,
        };
        if !is_allowed {
            push.router.topics.remove(subscriber.mailbox.number, &topic);
        }
    }
}

/// The outcome of subscribing to a topic at another backend.
enum Renewal {
    Renewed(Backend),
    /// The backend is not connected, or did not answer.
    Unanswered,
    /// The backend or a policy refuses.
    Refused,
}

/// Subscribes to a topic at the present backend of its name.
async fn subscribe(context: CallContext<'_>, topic: &Topic, shown: Option<&str>) -> Renewal {
    match topic.kind {
        TopicKind::Resource => {
            let Some(call) = subscriptions::resource_of(context, &topic.backend, &topic.name) else {
                return Renewal::Refused;
            };
            match call.subscribe().await {
                Ok((backend, RpcOutcome::Result(_))) => Renewal::Renewed(backend.clone()),
                Ok(_) => Renewal::Refused,
                Err(_) => Renewal::Unanswered,
            }
        }
        TopicKind::Task => {
            let Some(task) = shown.and_then(|shown| task_names::open(context, shown)) else {
                return Renewal::Refused;
            };
            let Some(call) = subscriptions::task(context, &task) else { return Renewal::Refused };
            let watched = call.watch_task().await;
            watched.map_or(Renewal::Refused, |backend| Renewal::Renewed(backend.clone()))
        }
        // No backend counts it, so none can be outdated.
        TopicKind::Own => Renewal::Refused,
    }
}
