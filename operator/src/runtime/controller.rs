//! Running a reconciler for every object of a kind.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{FutureExt as _, StreamExt as _};
use kube::runtime::applier;
use kube::runtime::controller::{Action, Error};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt as _};

use super::{Change, Context, Custom, Failure, Guarded, Kind, Retry, Watched, chain, complaint, kind_of};

/// Objects reconciled at the same time, by kind.
const CONCURRENCY: u16 = 8;
/// Changes of one object that come within this time are one.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// How long one reconcile may take.
const DEADLINE: Duration = Duration::from_mins(2);
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_mins(2);
/// The same where the status is written all the same, and should not be old.
const LAST_TOLD_RETRY: Duration = Duration::from_secs(20);
/// A failure that is over by then is not worth a line in the status.
const QUIET_RETRIES: u32 = 2;
/// Nor is one, for a while, that mends itself as a rule.
const SOON_RETRIES: u32 = 10;

/// What makes a controller look at an object.
pub struct Triggers<K: Custom> {
    context: Arc<Context>,
    store: kube::runtime::reflector::Store<Guarded<K>>,
    send: tokio::sync::mpsc::Sender<ObjectRef<Guarded<K>>>,
    receive: tokio::sync::mpsc::Receiver<ObjectRef<Guarded<K>>>,
}

impl<K: Custom> Triggers<K> {
    /// Edits of the objects themselves, and whatever happens to the children that [`Context::apply`] made for them.
    pub fn new(context: &Arc<Context>, kind: &Kind<K>) -> Self {
        let (send, receive) = tokio::sync::mpsc::channel(1024);
        let triggers = Self { context: context.clone(), store: kind.store(), send, receive };
        let (to_self, store, settled) = (triggers.send.clone(), kind.store(), Arc::downgrade(context));
        kind.listen(Box::new(move |change| {
            if store.get(&ObjectRef::from_obj(&change.object)).is_none()
                && let (Some(context), Some(uid)) = (settled.upgrade(), &change.object.meta().uid)
            {
                context.forget(uid);
            }
            let send = to_self.clone();
            let object = change.substantial.then(|| ObjectRef::from_obj(&change.object));
            async move {
                if let Some(object) = object {
                    let _ = send.send(object).await;
                }
            }
            .boxed()
        }));
        let to_owner = triggers.send.clone();
        context.children.listen(
            kind_of::<K>(),
            Box::new(move |namespace, name| {
                let (send, owner) = (to_owner.clone(), ObjectRef::new(name).within(namespace));
                async move { drop(send.send(owner).await) }.boxed()
            }),
        );
        triggers
    }

    /// Changes of another kind: `concerns` names the objects (namespace, name) that have to look.
    #[must_use]
    pub fn on<Other, Concerned>(
        self,
        kind: &Kind<Other>,
        concerns: impl Fn(&Change<Other>, &Context) -> Concerned + Send + Sync + 'static,
    ) -> Self
    where
        Other: Watched,
        Concerned: IntoIterator<Item = (String, String)>,
    {
        let (context, send) = (Arc::downgrade(&self.context), self.send.clone());
        kind.listen(Box::new(move |change| {
            let concerned: Vec<_> = context
                .upgrade()
                .map(|context| concerns(change, &context).into_iter().collect())
                .unwrap_or_default();
            let send = send.clone();
            async move {
                for (namespace, name) in concerned {
                    let _ = send.send(ObjectRef::new(&name).within(&namespace)).await;
                }
            }
            .boxed()
        }));
        self
    }
}

/// Reconciles until `context.shutdown` is cancelled, then lets what is under way come to its end.
///
/// Malformed objects get an event and a condition; errors get a retry that fits their category; panics are errors.
pub async fn run_controller<K, E, Reconciled>(
    triggers: Triggers<K>,
    reconcile: impl Fn(Arc<K>, Arc<Context>) -> Reconciled + Send + Sync + Clone + 'static,
) where
    K: Custom,
    E: Failure,
    Reconciled: Future<Output = Result<Action, E>> + Send + 'static,
{
    let Triggers { context, store, mut receive, .. } = triggers;
    let Some(()) = context.shutdown.run_until_cancelled(context.ready()).await else { return };
    let failures = Arc::new(Failures::default());
    let queue = futures::stream::poll_fn(move |task| receive.poll_recv(task))
        .map(Ok::<_, Infallible>)
        .take_until(context.shutdown.clone().cancelled_owned());
    let gone = failures.clone();
    let config = kube::runtime::controller::Config::default().debounce(DEBOUNCE).concurrency(CONCURRENCY);
    let outcomes = applier(
        move |object: Arc<Guarded<K>>, context: Arc<Context>| {
            reconcile_one(object, context, failures.clone(), reconcile.clone()).boxed()
        },
        |_, never: &Infallible, _| match *never {},
        context,
        store,
        queue,
        config,
    );
    futures::pin_mut!(outcomes);
    while let Some(outcome) = outcomes.next().await {
        // Reconcilers do not fail towards the queue; what is left is that an object is gone.
        if let Err(Error::ObjectNotFound(object)) = outcome {
            gone.forget(&(object.namespace.unwrap_or_default(), object.name));
        }
    }
}

async fn reconcile_one<K, E, Reconciled>(
    object: Arc<Guarded<K>>,
    context: Arc<Context>,
    failures: Arc<Failures>,
    reconcile: impl Fn(Arc<K>, Arc<Context>) -> Reconciled,
) -> Result<Action, Infallible>
where
    K: Custom,
    E: Failure,
    Reconciled: Future<Output = Result<Action, E>> + Send,
{
    let kind = kind_of::<K>();
    let reference = ObjectRef::from_obj(object.as_ref());
    let key = (object.namespace().unwrap_or_default(), object.name_any());
    let started = Instant::now();
    let object = match &object.0 {
        Ok(object) => object.clone(),
        Err(invalid) => {
            context.metrics.reconciled(kind, "malformed", started.elapsed());
            context.metrics.failed(kind, "Malformed");
            return Ok(match complaint::of_malformed(&context, object.as_ref(), &invalid.error).await {
                Ok(()) => Action::await_change(),
                Err(error) => {
                    tracing::debug!(object = %reference, error = %chain(&error), "that it is malformed could not be written to the status");
                    Action::requeue(pause(failures.count(&key)))
                }
            });
        }
    };
    if object.meta().deletion_timestamp.is_some() {
        failures.forget(&key);
        return Ok(Action::await_change());
    }
    let work = AssertUnwindSafe(reconcile(object.clone(), context.clone())).catch_unwind();
    let (category, message, retry, told) = match tokio::time::timeout(DEADLINE, work).await {
        Ok(Ok(Ok(action))) => {
            failures.forget(&key);
            context.metrics.reconciled(kind, "ok", started.elapsed());
            return Ok(action);
        }
        Ok(Ok(Err(error))) => (error.category(), chain(&error), error.retry(), error.is_told()),
        Ok(Err(_)) => {
            ("Panic", "the operator made a mistake; its log tells where".to_owned(), Retry::Backoff, false)
        }
        Err(_) => ("Timeout", format!("not done within {} s", DEADLINE.as_secs()), Retry::Backoff, false),
    };
    if retry == Retry::NotNeeded {
        tracing::debug!(kind, object = %reference, error = message, "its namespace is being deleted");
        failures.forget(&key);
        return Ok(Action::await_change());
    }
    let attempt = failures.count(&key);
    if retry == Retry::Soon && attempt <= SOON_RETRIES {
        context.metrics.reconciled(kind, "again", started.elapsed());
        return Ok(Action::requeue(FIRST_RETRY));
    }
    context.metrics.reconciled(kind, "error", started.elapsed());
    context.metrics.failed(kind, category);
    tracing::warn!(kind, object = %reference, category, attempt, error = message, "reconcile failed");
    let is_news = retry == Retry::WhenEdited || attempt > QUIET_RETRIES;
    if is_news && !told && category != "NotLeader" {
        complaint::of_failure(&context, object.as_ref(), category, &message).await;
    }
    Ok(match retry {
        Retry::WhenEdited | Retry::NotNeeded => Action::await_change(),
        Retry::Soon | Retry::Backoff if told => Action::requeue(pause(attempt).min(LAST_TOLD_RETRY)),
        Retry::Soon | Retry::Backoff => Action::requeue(pause(attempt)),
    })
}

/// Doubles with each attempt, up to the cap.
fn pause(attempt: u32) -> Duration {
    FIRST_RETRY.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(LAST_RETRY)
}

/// How often each object failed in a row.
#[derive(Default)]
struct Failures(Mutex<HashMap<(String, String), u32>>);

impl Failures {
    fn count(&self, object: &(String, String)) -> u32 {
        let mut failures = self.0.lock();
        let count = failures.entry(object.clone()).or_default();
        *count = count.saturating_add(1);
        *count
    }

    fn forget(&self, object: &(String, String)) {
        self.0.lock().remove(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_cap() {
        assert_eq!(pause(1), FIRST_RETRY);
        assert_eq!(pause(3), FIRST_RETRY * 4);
        assert_eq!(pause(1000), LAST_RETRY);
    }
}
