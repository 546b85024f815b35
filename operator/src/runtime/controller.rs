//! Running a reconciler for every object of a kind.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Resource, ResourceExt as _,
    api::{ApiResource, DynamicObject},
    runtime::{
        applier,
        controller::{Action, Error},
        reflector::ObjectRef,
    },
};
use serde_json::{Value, json};

use super::{
    Change, Conditions, Context, Custom, Failure, Guarded, Kind, Retry, Verb, Watched, chain, kind_of,
};

/// Objects reconciled at the same time, by kind.
const CONCURRENCY: u16 = 8;
/// Changes of one object that come within this time are one.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// How long one reconcile may take.
const DEADLINE: Duration = Duration::from_mins(2);
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_mins(2);
/// A failure that is over by then is not worth a line in the status.
const QUIET_RETRIES: u32 = 2;

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
            report_malformed(&context, object.as_ref(), &invalid.error, &failures).await;
            return Ok(Action::await_change());
        }
    };
    if object.meta().deletion_timestamp.is_some() {
        failures.forget(&key);
        return Ok(Action::await_change());
    }
    let work = AssertUnwindSafe(reconcile(object.clone(), context.clone())).catch_unwind();
    let (category, message, retry) = match tokio::time::timeout(DEADLINE, work).await {
        Ok(Ok(Ok(action))) => {
            failures.forget(&key);
            context.metrics.reconciled(kind, "ok", started.elapsed());
            return Ok(action);
        }
        Ok(Ok(Err(error))) => (error.category(), chain(&error), error.retry()),
        Ok(Err(_)) => {
            ("Panic", "the operator made a mistake; its log tells where".to_owned(), Retry::Backoff)
        }
        Err(_) => ("Timeout", format!("not done within {} s", DEADLINE.as_secs()), Retry::Backoff),
    };
    if retry == Retry::Soon {
        context.metrics.reconciled(kind, "again", started.elapsed());
        return Ok(Action::requeue(FIRST_RETRY));
    }
    context.metrics.reconciled(kind, "error", started.elapsed());
    context.metrics.failed(kind, category);
    let attempt = failures.count(&key);
    tracing::warn!(kind, object = %reference, category, attempt, error = message, "reconcile failed");
    if category != "NotLeader" && (retry == Retry::WhenEdited || attempt > QUIET_RETRIES) {
        report_failure(&context, object.as_ref(), category, &message).await;
    }
    Ok(match retry {
        Retry::WhenEdited => Action::await_change(),
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
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(object.clone()).or_default();
        *count = count.saturating_add(1);
        *count
    }

    fn forget(&self, object: &(String, String)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(object);
    }
}

/// Says in the object's own status why it could not be reconciled. Best effort: the next attempt says it again.
async fn report_failure<K: Custom>(context: &Context, object: &K, category: &'static str, message: &str) {
    let object_as_json = serde_json::to_value(object).unwrap_or_default();
    let mut status = object_as_json.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    let before = status.get("conditions").cloned().unwrap_or_default();
    let before: Vec<Condition> = serde_json::from_value(before).unwrap_or_default();
    let mut conditions = Conditions::new(&before, object.meta().generation.unwrap_or_default());
    for condition in &before {
        conditions.keep(&condition.type_);
    }
    conditions.set("Ready", false, category, message);
    let conditions = conditions.finish();
    context.tell_transitions(object, &before, &conditions).await;
    status.insert("conditions".into(), serde_json::to_value(conditions).unwrap_or_default());
    if let Err(error) = context.write_status(object, &status).await {
        tracing::debug!(object = object.name_any(), error = %chain(&error), "the failure could not be written to the status");
    }
}

/// The object cannot be read as its type: probably it was written under another version of its definition.
async fn report_malformed<K: Custom>(
    context: &Context,
    object: &Guarded<K>,
    error: &str,
    failures: &Failures,
) {
    let reference = ObjectRef::from_obj(object);
    let kind = kind_of::<K>();
    context.metrics.failed(kind, "Malformed");
    tracing::warn!(kind, object = %reference, error, "malformed object");
    // Its own status cannot be compared: what is said once in the life of the process is enough.
    if failures.count(&(object.namespace().unwrap_or_default(), object.name_any())) > 1 {
        return;
    }
    let error = path_of_mistake(context, object).await.unwrap_or_else(|| error.to_owned());
    let message =
        format!("this object cannot be read as {kind}: {error}; correct the field and apply it again");
    let mut conditions = Conditions::new(&[], object.meta().generation.unwrap_or_default());
    conditions.set("Ready", false, "Malformed", &message);
    let conditions = conditions.finish();
    context.tell_transitions(object, &[], &conditions).await;
    let status: Value = json!({ "phase": "Failed", "conditions": conditions });
    if let Err(error) = context.patch_status(object, status).await {
        tracing::debug!(object = %reference, error = %chain(&error), "the failure could not be written to the status");
    }
}

/// The watch knows that an object is malformed, not where: it is read once more to tell.
async fn path_of_mistake<K: Custom>(context: &Context, object: &Guarded<K>) -> Option<String> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let api: Api<DynamicObject> =
        Api::namespaced_with(context.client.clone(), &namespace, &ApiResource::erase::<K>(&()));
    let found = context.call(Verb::Get, kind_of::<K>(), &name, api.get(&name)).await.ok()?;
    let found = serde_json::to_value(found).ok()?;
    Some(serde_path_to_error::deserialize::<_, K>(found).err()?.to_string())
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
