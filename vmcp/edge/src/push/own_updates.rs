//! Background task that tells subscribers of vmcp's own resources when the content changes, as each of them
//! reads it, and ends the subscriptions that policies no longer permit.
//!
//! Rounds are debounced: all changes within [`DEBOUNCE`] make one round, which compares digests.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::time::sleep;
use vmcp_engine::engine::{Snapshot, View};
use vmcp_route::{CallContext, Caller, subscriptions};

use super::server_push::ServerPush;
use super::topics::{Subscriber, Topic};

/// Time after a change in which further ones join it.
const DEBOUNCE: Duration = Duration::from_millis(250);
/// Rest after a round, as a multiple of its time: rounds of up to a second take at most a tenth of a thread.
const REST: u32 = 9;
/// Longest rest after a round, which bounds the delay of updates; longer rounds take a larger share.
const MAX_REST: Duration = Duration::from_secs(10);

/// Runs until the [`ServerPush`] is dropped or the engine stops.
pub(crate) async fn run(push: Weak<ServerPush>) {
    let Some((mut snapshots, mut states, router)) = push
        .upgrade()
        .map(|push| (push.engine.snapshots(), push.engine.events().states(), Arc::clone(&push.router)))
    else {
        return;
    };
    loop {
        let goes_on = tokio::select! {
            changed = snapshots.changed() => changed.is_ok(),
            changed = states.changed() => changed.is_ok(),
            // A change may have come between the first digest and the confirmation of the subscription.
            () = router.own_subscribed.notified() => true,
        };
        if !goes_on {
            return;
        }
        sleep(DEBOUNCE).await;
        snapshots.borrow_and_update();
        states.borrow_and_update();
        // Upgraded for one round only: the task must not keep the state alive.
        let Some(push) = push.upgrade() else { return };
        let begun = Instant::now();
        let subscriptions = subscriptions_of(&push).await;
        // Without the thread the process is going down.
        let _ = tokio::task::spawn_blocking(move || tell(&push, &subscriptions)).await;
        sleep((begun.elapsed() * REST).min(MAX_REST)).await;
    }
}

/// A subscription to an own resource, and the snapshot that its client reads.
type OwnSubscription = (Topic, Subscriber, Arc<Snapshot>);

/// Returns the subscriptions to own resources. A session with listings of its own reads a snapshot of its
/// own.
async fn subscriptions_of(push: &ServerPush) -> Vec<OwnSubscription> {
    let shared = push.engine.snapshot();
    let mut subscriptions = Vec::new();
    for (topic, subscriber) in push.router.topics.of_own_resources() {
        let snapshot = push.engine.for_session(Arc::clone(&shared), subscriber.session()).await;
        subscriptions.push((topic, subscriber, snapshot));
    }
    subscriptions
}

/// A snapshot and a view by their addresses, and the name of a resource.
type DigestKey = (*const Snapshot, *const View, Arc<str>);

/// A view, and the digest of a resource in it.
type ViewedDigest = (Arc<View>, u64);

/// Compares each subscription with the present content. Blocks.
fn tell(push: &ServerPush, subscriptions: &[OwnSubscription]) {
    let topics = &push.router.topics;
    // Clients with equal rights share a view, and read the same. The view is kept, so that no other one takes
    // its address.
    let mut digests: HashMap<DigestKey, ViewedDigest> = HashMap::new();
    for (topic, subscriber, snapshot) in subscriptions {
        let caller = Caller { principal: subscriber.principal.clone(), ..Caller::default() };
        let view = snapshot.view(&caller.principal);
        let call = CallContext { engine: &push.engine, snapshot, view: &view, caller: &caller };
        let content = if subscriptions::may_read_own(call, &topic.name) {
            let known = digests.entry((Arc::as_ptr(snapshot), Arc::as_ptr(&view), Arc::clone(&topic.name)));
            let look = || (Arc::clone(&view), subscriptions::own_content(call, &topic.name));
            Some(known.or_insert_with(look).1)
        } else {
            None
        };
        match content {
            None => topics.remove(subscriber.mailbox.number, topic),
            Some(digest) if topics.tell(topic, subscriber, digest) => {
                push.router.announce_update(&subscriber.mailbox, &topic.name);
            }
            Some(_) => {}
        }
    }
}
