//! Step 5 of a reconcile, observe: the status report of every ready pod, from `GET /admin/status`.
//!
//! A pod that fails to answer once keeps its last report for 30 s, so that one lost packet changes no status.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use tokio::sync::Semaphore;
use vmcp_config::status::StatusReport;

use crate::runtime::Metrics;
use crate::workload::admin::{AdminClient, AskError};
use vmcp_error_chain::error_chain;

/// The most pods that are asked at the same time, over all servers.
const MAX_POLLS: usize = 32;
/// The time for which a report stands in for one that failed to come.
const MAX_REPORT_AGE: Duration = Duration::from_secs(30);

/// Asks pods, and remembers the last report of each with the token that the pod accepted.
pub(super) struct Observer {
    client: AdminClient,
    permits: Semaphore,
    /// By uid of the pod.
    last: Mutex<HashMap<String, LastReport>>,
}

/// The last report of a pod.
#[derive(Clone)]
struct LastReport {
    at: Instant,
    report: Arc<StatusReport>,
    /// The token that the pod accepted.
    token: Vec<u8>,
}

/// A pod with its report.
#[derive(Debug, Clone)]
pub(super) struct ObservedPod {
    /// The pod.
    pub pod: Arc<Pod>,
    /// True if the pod takes requests.
    pub ready: bool,
    /// The report, if the pod is ready and answered within [`MAX_REPORT_AGE`].
    pub report: Option<Arc<StatusReport>>,
    /// The error, if the pod did not answer this time; an older report may stand in.
    pub failure: Option<String>,
}

impl Observer {
    /// Makes an observer that has asked no pod yet.
    pub(super) fn new() -> Self {
        Self { client: AdminClient::default(), permits: Semaphore::new(MAX_POLLS), last: Mutex::default() }
    }

    /// Asks all ready pods; the result has all pods, in the same order.
    pub(super) async fn observe(
        &self,
        pods: Vec<Arc<Pod>>,
        token: &[u8],
        metrics: &Metrics,
    ) -> Vec<ObservedPod> {
        self.last.lock().retain(|_, last| last.at.elapsed() < MAX_REPORT_AGE);
        stream::iter(pods)
            .map(|pod| self.observe_one(pod, token, metrics))
            .buffered(MAX_POLLS)
            .collect()
            .await
    }

    async fn observe_one(&self, pod: Arc<Pod>, token: &[u8], metrics: &Metrics) -> ObservedPod {
        if !is_ready(&pod) {
            return ObservedPod { pod, ready: false, report: None, failure: None };
        }
        let uid = pod.uid().unwrap_or_default();
        let last = self.last.lock().get(&uid).cloned();
        let polled = self.ask(&pod, token, last.as_ref()).await;
        metrics.polled(if polled.is_ok() { "ok" } else { "error" });
        match polled {
            Ok(answer) => {
                let report = Some(answer.report.clone());
                self.last.lock().insert(uid, answer);
                ObservedPod { pod, ready: true, report, failure: None }
            }
            Err(error) => {
                let failure = error_chain(&error);
                tracing::debug!(pod = pod.name_any(), error = failure, "cannot read the status of a pod");
                ObservedPod { pod, ready: true, report: last.map(|last| last.report), failure: Some(failure) }
            }
        }
    }

    /// Asks one pod, at 401 once more with the token that it accepted last: it takes a new one only when the
    /// kubelet has mounted it.
    async fn ask(&self, pod: &Pod, token: &[u8], last: Option<&LastReport>) -> Result<LastReport, AskError> {
        // Fails only if the semaphore is closed, which it never is.
        let _permit = self.permits.acquire().await;
        let mut token = token;
        let mut answer = self.client.ask(pod, token).await;
        if let (Err(AskError::Status(StatusCode::UNAUTHORIZED)), Some(last)) = (&answer, last)
            && last.token != token
        {
            token = &last.token;
            answer = self.client.ask(pod, token).await;
        }
        answer.map(|report| LastReport {
            at: Instant::now(),
            report: Arc::new(report),
            token: token.to_vec(),
        })
    }
}

/// Returns true if the pod takes requests: ready, and not being deleted.
fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.is_some_and(|conditions| {
            conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        })
}
