//! The loop of a controller: a debounced queue, reconciles with a timeout, retries with exponential backoff.
//!
//! Each object is reconciled by one task at a time; an object that changes meanwhile is reconciled once more
//! afterwards.

mod backoff;
mod triggers;

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{FutureExt as _, StreamExt as _};
use kube::ResourceExt as _;
use kube::runtime::applier;
use kube::runtime::controller::{Action, Error};
use kube::runtime::reflector::ObjectRef;
use opentelemetry::trace::Status;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use self::backoff::{FIRST_PAUSE, FailureCounts, MAX_PAUSE_IN_STATUS, pause};
pub(crate) use self::triggers::Requeue;
pub use self::triggers::Triggers;
use super::context::Context;
use super::failure::{Failure, Retry};
use super::tell::{is_paused, report_failure, report_malformed, report_paused};
use super::watch::{CustomResource, Parsed, kind_of};
use vmcp_error_chain::error_chain;

/// Objects of one kind that are reconciled at the same time.
const CONCURRENCY: u16 = 8;
/// Changes of one object within this time become one reconcile.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// The longest that one reconcile may take; then it is dropped and counts as failed.
const RECONCILE_TIMEOUT: Duration = Duration::from_mins(2);
/// Failures in a row that are not written into the status: most are over by then.
const QUIET_FAILURES: u32 = 2;
/// [`Retry::Soon`] failures in a row that are neither logged nor counted as errors.
const QUIET_SOON_FAILURES: u32 = 10;

/// Reconciles until `context.shutdown` is cancelled, then waits for reconciles that are under way.
///
/// A malformed object gets a condition and an event, an error a retry by its category; a panic or a timeout
/// is an error.
pub async fn run_controller<K, E, Reconciled>(
    triggers: Triggers<K>,
    reconcile: impl Fn(Arc<K>, Arc<Context>) -> Reconciled + Send + Sync + Clone + 'static,
) where
    K: CustomResource,
    E: Failure,
    Reconciled: Future<Output = Result<Action, E>> + Send + 'static,
{
    let Triggers { context, store, mut receive, .. } = triggers;
    let Some(()) = context.shutdown.run_until_cancelled(context.ready()).await else { return };
    let failures = Arc::new(FailureCounts::default());
    let queue = futures::stream::poll_fn(move |task| receive.poll_recv(task))
        .map(Ok::<_, Infallible>)
        .take_until(context.shutdown.clone().cancelled_owned());
    let gone = failures.clone();
    let config = kube::runtime::controller::Config::default().debounce(DEBOUNCE).concurrency(CONCURRENCY);
    let results = applier(
        move |object: Arc<Parsed<K>>, context: Arc<Context>| {
            reconcile_one(object, context, failures.clone(), reconcile.clone()).boxed()
        },
        |_, never: &Infallible, _| match *never {},
        context,
        store,
        queue,
        config,
    );
    futures::pin_mut!(results);
    while let Some(result) = results.next().await {
        // `reconcile_one` turns every failure into an action; the one error left is an object that is gone.
        if let Err(Error::ObjectNotFound(object)) = result {
            gone.forget(&(object.namespace.unwrap_or_default(), object.name));
        }
    }
}

/// Reconciles one object and turns the result into the next action.
async fn reconcile_one<K, E, Reconciled>(
    object: Arc<Parsed<K>>,
    context: Arc<Context>,
    failures: Arc<FailureCounts>,
    reconcile: impl Fn(Arc<K>, Arc<Context>) -> Reconciled,
) -> Result<Action, Infallible>
where
    K: CustomResource,
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
            return Ok(match report_malformed(&context, object.as_ref(), &invalid.error).await {
                Ok(()) => Action::await_change(),
                Err(error) => {
                    let error = error_chain(&error);
                    tracing::debug!(object = %reference, error, "cannot write into the status that the object is malformed");
                    Action::requeue(pause(failures.count(&key)))
                }
            });
        }
    };
    if object.meta().deletion_timestamp.is_some() {
        // The garbage collector deletes the children by their owner references.
        failures.forget(&key);
        return Ok(Action::await_change());
    }
    if is_paused(&*object) {
        return Ok(match report_paused(&context, object.as_ref()).await {
            Ok(()) => {
                failures.forget(&key);
                Action::await_change()
            }
            Err(error) => {
                let error = error_chain(&error);
                tracing::debug!(object = %reference, error, "cannot write into the status that the object is paused");
                Action::requeue(pause(failures.count(&key)))
            }
        });
    }
    let work = AssertUnwindSafe(reconcile(object.clone(), context.clone())).catch_unwind();
    let (category, message, retry, in_status) = match tokio::time::timeout(RECONCILE_TIMEOUT, work).await {
        Ok(Ok(Ok(action))) => {
            failures.forget(&key);
            context.metrics.reconciled(kind, "ok", started.elapsed());
            return Ok(action);
        }
        Ok(Ok(Err(error))) => (error.category(), error_chain(&error), error.retry(), error.is_in_status()),
        Ok(Err(_)) => {
            let message = "the operator panicked, which is a bug; its log has the place".to_owned();
            ("Panic", message, Retry::Backoff, false)
        }
        Err(_) => {
            let message = format!("the reconcile was not done within {} s", RECONCILE_TIMEOUT.as_secs());
            ("Timeout", message, Retry::Backoff, false)
        }
    };
    if retry == Retry::NotNeeded {
        tracing::debug!(kind, object = %reference, error = message, "the namespace is being deleted, not trying again");
        failures.forget(&key);
        return Ok(Action::await_change());
    }
    let attempt = failures.count(&key);
    if retry == Retry::Soon && attempt <= QUIET_SOON_FAILURES {
        context.metrics.reconciled(kind, "again", started.elapsed());
        return Ok(Action::requeue(FIRST_PAUSE));
    }
    context.metrics.reconciled(kind, "error", started.elapsed());
    context.metrics.failed(kind, category);
    tracing::warn!(kind, object = %reference, category, attempt, error = message, "reconcile failed");
    // The span of the reconcile is kube's.
    tracing::Span::current().set_status(Status::error(category));
    let lasts = retry == Retry::WhenEdited || attempt > QUIET_FAILURES;
    // A replica that lost the lease must not write, not even that it lost the lease.
    if lasts && !in_status && category != "NotLeader" {
        report_failure(&context, object.as_ref(), category, &message).await;
    }
    Ok(match retry {
        Retry::WhenEdited | Retry::NotNeeded => Action::await_change(),
        Retry::Soon | Retry::Backoff if in_status => Action::requeue(pause(attempt).min(MAX_PAUSE_IN_STATUS)),
        Retry::Soon | Retry::Backoff => Action::requeue(pause(attempt)),
    })
}
