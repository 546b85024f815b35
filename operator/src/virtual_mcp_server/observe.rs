//! What the pods say: `GET /admin/status` of each.

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

use crate::runtime::{Metrics, chain};
use crate::workload::admin::{AdminClient, AskError};

/// Pods that are asked at the same time.
const CONCURRENCY: usize = 32;
/// How long an answer stands in for one that failed to come, so that one lost packet changes no status.
const STALE: Duration = Duration::from_secs(30);

/// Asks pods, and remembers what they said last, and whom they said it to.
pub(super) struct Observer {
    client: AdminClient,
    permits: Semaphore,
    last: Mutex<HashMap<String, Last>>,
}

/// What a pod said last.
#[derive(Clone)]
struct Last {
    at: Instant,
    report: Arc<StatusReport>,
    token: Vec<u8>,
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
        self.last.lock().retain(|_, last| last.at.elapsed() < STALE);
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
        let last = self.last.lock().get(&uid).cloned();
        let polled = self.ask(&pod, token, last.as_ref()).await;
        metrics.polled(if polled.is_ok() { "ok" } else { "error" });
        match polled {
            Ok(said) => {
                let report = Some(said.report.clone());
                self.last.lock().insert(uid, said);
                Observed { pod, ready: true, report, failure: None }
            }
            Err(error) => {
                let failure = chain(&error);
                tracing::debug!(pod = pod.name_any(), error = failure, "a pod did not say how it is");
                Observed { pod, ready: true, report: last.map(|last| last.report), failure: Some(failure) }
            }
        }
    }

    /// A pod takes a new token when the kubelet brings it, and until then the one that it took last.
    async fn ask(&self, pod: &Pod, token: &[u8], last: Option<&Last>) -> Result<Last, AskError> {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        let mut token = token;
        let mut said = self.client.ask(pod, token).await;
        if let (Err(AskError::Status(StatusCode::UNAUTHORIZED)), Some(last)) = (&said, last)
            && last.token != token
        {
            token = &last.token;
            said = self.client.ask(pod, token).await;
        }
        said.map(|report| Last { at: Instant::now(), report: Arc::new(report), token: token.to_vec() })
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
