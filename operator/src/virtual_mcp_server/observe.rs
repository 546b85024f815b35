//! What the pods say: `GET /admin/status` of each.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use tokio::sync::Semaphore;
use vmcp_model::status::StatusReport;

use crate::{
    runtime::{Metrics, chain},
    workload::admin::AdminClient,
};

/// Pods that are asked at the same time.
const CONCURRENCY: usize = 32;
/// How long an answer stands in for one that failed to come, so that one lost packet changes no status.
const STALE: Duration = Duration::from_secs(30);

/// Asks pods, and remembers what they said last.
pub(super) struct Observer {
    client: AdminClient,
    permits: Semaphore,
    last: Mutex<HashMap<String, (Instant, Arc<StatusReport>)>>,
}

/// A pod, and what it said.
#[derive(Debug, Clone)]
pub(super) struct Observed {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Whether it is ready.
    pub ready: bool,
    /// What it said, if it is ready.
    pub report: Option<Arc<StatusReport>>,
    /// Why it said nothing this time. There may be a report of a moment ago all the same.
    pub failure: Option<String>,
}

impl Observer {
    pub(super) fn new() -> Self {
        Self { client: AdminClient::default(), permits: Semaphore::new(CONCURRENCY), last: Mutex::default() }
    }

    /// Asks all ready pods.
    pub(super) async fn observe(
        &self,
        pods: Vec<Arc<Pod>>,
        token: &[u8],
        metrics: &Metrics,
    ) -> Vec<Observed> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, (at, _)| at.elapsed() < STALE);
        stream::iter(pods)
            .map(|pod| self.observe_one(pod, token, metrics))
            .buffered(CONCURRENCY)
            .collect()
            .await
    }

    async fn observe_one(&self, pod: Arc<Pod>, token: &[u8], metrics: &Metrics) -> Observed {
        if !is_ready(&pod) {
            return Observed { pod, ready: false, report: None, failure: None };
        }
        let uid = pod.uid().unwrap_or_default();
        let polled = {
            // The semaphore is never closed.
            let _permit = self.permits.acquire().await;
            self.client.ask(&pod, Some(token)).await
        };
        metrics.polled(if polled.is_ok() { "ok" } else { "error" });
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (report, failure) = match polled {
            Ok(report) => {
                let report = Arc::new(report);
                last.insert(uid, (Instant::now(), report.clone()));
                (Some(report), None)
            }
            Err(error) => {
                let failure = chain(&error);
                tracing::debug!(pod = pod.name_any(), error = failure, "a pod did not say how it is");
                (last.get(&uid).map(|(_, report)| report.clone()), Some(failure))
            }
        };
        drop(last);
        Observed { pod, ready: true, report, failure }
    }
}

/// Whether a pod takes requests.
fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.is_some_and(|conditions| {
            conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        })
}
