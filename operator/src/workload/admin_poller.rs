//! Polls of the admin port of pods, in a task of their own: a reconcile reads the last report and never waits
//! for a pod.
//!
//! Each pod has its own schedule. A pod that does not answer is asked with exponential backoff, so that many
//! unreachable pods delay neither the reachable ones nor a controller. A report with news, and the first
//! and last failure in a row, make the controller reconcile the pod's owner.

mod schedule;

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use tokio::sync::Notify;
use vmcp_config::rules::trusted_tools::TrustedTools;
use vmcp_config::status::StatusReport;

use self::schedule::{Ask, Owner, PodAnswer, Schedule};
pub(crate) use self::schedule::{PollFailure, PollPlan};
use crate::runtime::{Context, Requeue};
use crate::workload::admin::AdminClient;
use vmcp_error_chain::error_chain;

/// The most pods that are asked at the same time; others wait for their turn.
const MAX_POLLS: usize = 64;
/// The longest wait for the next due pod, after which the schedule is looked at again.
const MAX_SLEEP: Duration = Duration::from_mins(1);

/// A poller for the pods of one kind of resource.
pub(crate) struct AdminPoller {
    client: AdminClient,
    schedule: Mutex<Schedule>,
    /// Wakes the task after a change of the schedule.
    changed: Notify,
}

/// The last that is known of one pod.
#[derive(Debug, Clone, Default)]
pub(crate) struct PolledPod {
    /// The last report, unless it is too old.
    pub(crate) report: Option<Arc<StatusReport>>,
    /// The time at which that report came.
    pub(crate) reported_at: Option<Instant>,
    /// The failure, if the pod did not answer several times in a row.
    pub(crate) failure: Option<PollFailure>,
    /// The pod's trusted definitions of tools, where they differ from the kept ones.
    pub(crate) trusted: Option<Arc<TrustedTools>>,
    /// The reason for which those definitions could not be read several times in a row.
    pub(crate) trust_unread: Option<String>,
}

impl AdminPoller {
    /// Makes a poller without pods.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { client: AdminClient::default(), schedule: Mutex::default(), changed: Notify::new() })
    }

    /// Schedules polls of `pods` by `plan`, in place of all other pods of the owner (namespace, name);
    /// returns the last that is known of each, in the same order.
    pub(crate) fn observe(
        &self,
        owner: &Owner,
        pods: &[Arc<Pod>],
        token: &[u8],
        plan: PollPlan<'_>,
    ) -> Vec<PolledPod> {
        let (polled, sooner) = self.schedule.lock().observe(owner, pods, token, plan, Instant::now());
        if sooner {
            self.changed.notify_one();
        }
        polled
    }

    /// Polls until the shutdown.
    pub(crate) async fn run(&self, context: &Context, requeue: &Requeue) {
        let poll = async {
            let mut asking = FuturesUnordered::new();
            loop {
                let free = MAX_POLLS.saturating_sub(asking.len());
                let (due, next) = self.schedule.lock().take_due(free, Instant::now());
                asking.extend(due.into_iter().map(|ask| self.ask(ask, context, requeue)));
                let pause = next.map_or(MAX_SLEEP, |next| next.saturating_duration_since(Instant::now()));
                // With all slots taken, only an answer makes room.
                let pause = if asking.len() < MAX_POLLS { pause.min(MAX_SLEEP) } else { MAX_SLEEP };
                tokio::select! {
                    Some(()) = asking.next() => {}
                    () = self.changed.notified() => {}
                    () = tokio::time::sleep(pause) => {}
                }
            }
        };
        context.shutdown.run_until_cancelled(poll).await;
    }

    async fn ask(&self, ask: Ask, context: &Context, requeue: &Requeue) {
        let Ask { pod, owner, tokens, .. } = &ask;
        let (uid, name) = (pod.uid().unwrap_or_default(), pod.name_any());
        let now = context.resources.pods.get(&pod.namespace().unwrap_or_default(), &name);
        if now.and_then(|now| now.uid()).as_deref() != Some(&uid) {
            self.schedule.lock().forget(&uid);
            return;
        }
        let mut answer = Err(super::admin::AskError::Address);
        for token in tokens {
            // A pod takes a new token only when the kubelet has mounted it: until then, the one before.
            answer = self.client.ask(pod, token).await.map(|report| (report, token.clone()));
            if !answer.as_ref().is_err_and(super::admin::AskError::is_unauthorized) {
                break;
            }
        }
        context.metrics.polled(if answer.is_ok() { "ok" } else { "error" });
        if let Err(error) = &answer {
            tracing::debug!(pod = name, error = error_chain(error), "cannot read the status of a pod");
        }
        let answer = match answer {
            Ok((report, token)) => {
                let trusted = self.trusted_tools(&ask, &report, &token).await;
                Ok(PodAnswer { report, token, trusted })
            }
            Err(error) => Err(error),
        };
        if self.schedule.lock().answered(&uid, answer, Instant::now()) {
            requeue(&owner.0, &owner.1).await;
        }
    }

    /// Asks a pod for its trusted definitions of tools where they are news; `None` if they are not. After a
    /// failure the next poll tries again.
    async fn trusted_tools(
        &self,
        ask: &Ask,
        report: &StatusReport,
        token: &[u8],
    ) -> Option<Result<TrustedTools, String>> {
        if !ask.wants_trust(&report.trusted_tools) {
            return None;
        }
        let read = self.client.trusted_tools(&ask.pod, token).await;
        Some(read.map_err(|error| {
            let (pod, error) = (ask.pod.name_any(), error_chain(&error));
            tracing::warn!(pod, error, "cannot read the trusted definitions of a pod");
            error
        }))
    }
}
