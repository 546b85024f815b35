//! Background task of server push: renews subscriptions after a reload of the configuration, ends those that
//! its policies no longer permit, and removes expired sessions.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use vmcp_backend::{Backend, RpcOutcome};

use super::server_push::ServerPush;
use super::topics::{Topic, TopicKind};
use crate::access::policy::Item;
use crate::edge::session::random;
use crate::route::{CallContext, Caller, subscriptions};

/// Interval at which expired sessions are removed.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);
/// Subscriptions that are renewed concurrently.
const MAX_CONCURRENT_RENEWALS: usize = 16;

/// Runs until the [`ServerPush`] is dropped or the engine stops.
pub(crate) async fn run(push: Weak<ServerPush>) {
    let Some(mut configurations) = push.upgrade().map(|push| push.engine.configurations()) else { return };
    let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
    loop {
        let reconfigured = tokio::select! {
            _ = sweep.tick() => false,
            changed = configurations.changed() => match changed {
                Ok(()) => true,
                Err(_) => return,
            },
        };
        // Upgraded for one round only: the task must not keep the state alive.
        let Some(push) = push.upgrade() else { return };
        if reconfigured {
            withdraw_denied(&push).await;
            renew(&push).await;
        }
        for expired in push.router.sessions.expired(random::now()) {
            push.end_session(expired);
        }
    }
}

/// Moves subscriptions, and the registrations of sessions, to the backends of the present configuration. A
/// subscription whose new backend refuses it is removed.
async fn renew(push: &ServerPush) {
    let snapshot = push.engine.snapshot();
    let backends = Arc::clone(&snapshot.backends);
    for registered in push.router.sessions.all() {
        registered.announce_listening(&backends);
        if let Some(level) = registered.level() {
            backends.values().for_each(|backend| backend.set_log_level(registered.session, level));
        }
    }
    let topics = &push.router.topics;
    let outdated = topics.outdated(|topic, old| backends.get(&topic.backend).is_some_and(|new| new.is(old)));
    stream::iter(outdated)
        .for_each_concurrent(MAX_CONCURRENT_RENEWALS, async |(topic, subscriber)| {
            let caller = Caller { principal: subscriber.principal.clone(), ..Caller::default() };
            push.engine.prepare(&snapshot, &caller.principal.identity).await;
            let view = snapshot.view(&caller.principal.identity);
            let context =
                CallContext { engine: &push.engine, snapshot: &snapshot, view: &view, caller: &caller };
            let renewed =
                if backends.contains_key(&topic.backend) { subscribe(context, &topic).await } else { None };
            match renewed {
                Some(new) => topics.recount(&topic, &subscriber, new),
                None => topics.remove(subscriber.mailbox.number, &topic),
            }
        })
        .await;
}

/// Ends the subscriptions that the policies in force do not permit.
async fn withdraw_denied(push: &ServerPush) {
    let snapshot = push.engine.snapshot();
    if !snapshot.policy.restricts() {
        return;
    }
    for (topic, subscriber) in push.router.topics.outdated(|_, _| false) {
        let caller = Caller { principal: subscriber.principal.clone(), ..Caller::default() };
        push.engine.prepare(&snapshot, &caller.principal.identity).await;
        let view = snapshot.view(&caller.principal.identity);
        let context = CallContext { engine: &push.engine, snapshot: &snapshot, view: &view, caller: &caller };
        let item = match topic.kind {
            TopicKind::Resource => Item::Resource(&topic.name),
            TopicKind::Task => Item::Task(&topic.name),
        };
        if !subscriptions::is_allowed(context, &topic.backend, item) {
            push.router.topics.remove(subscriber.mailbox.number, &topic);
        }
    }
}

/// Subscribes to a topic at the present backend of its name; `None` if there is none, or it or a policy
/// refuses.
async fn subscribe(context: CallContext<'_>, topic: &Topic) -> Option<Backend> {
    match topic.kind {
        TopicKind::Resource => {
            let call = subscriptions::resource_of(context, &topic.backend, &topic.name)?;
            let (backend, outcome) = call.subscribe().await.ok()?;
            matches!(outcome, RpcOutcome::Result(_)).then(|| backend.clone())
        }
        TopicKind::Task => {
            let call = subscriptions::task(context, &topic.backend, &topic.name)?;
            call.watch_task().ok().cloned()
        }
    }
}
