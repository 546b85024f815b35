//! What the pods say: `GET /admin/status` of each.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{Request, StatusCode, header::AUTHORIZATION};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use tokio::sync::Semaphore;
use vmcp_crds::lower::ADMIN_PORT;
use vmcp_model::status::StatusReport;

use crate::runtime::{Metrics, chain};

/// How long a pod may take to answer.
const DEADLINE: Duration = Duration::from_secs(3);
/// Pods that are asked at the same time.
const CONCURRENCY: usize = 32;
/// The largest answer that is read: a thousand backends fit many times.
const LIMIT: usize = 8 << 20;
/// How long an answer stands in for one that failed to come, so that one lost packet changes no status.
const STALE: Duration = Duration::from_secs(30);

/// Asks pods, and remembers what they said last.
pub(super) struct Observer {
    client: Client<HttpConnector, Empty<Bytes>>,
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

#[derive(Debug, thiserror::Error)]
enum PollError {
    #[error("it has no address")]
    Address,
    #[error("the request cannot be made")]
    Request(#[from] http::Error),
    #[error("the connection failed")]
    Connection(#[from] hyper_util::client::legacy::Error),
    #[error("it answered {0}")]
    Status(StatusCode),
    #[error("its answer broke off or was larger than {} MiB", LIMIT >> 20)]
    Body,
    #[error("its answer is no status report")]
    Report(#[from] serde_json::Error),
    #[error("it did not answer within {} s", DEADLINE.as_secs())]
    Deadline,
}

impl Observer {
    pub(super) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(DEADLINE));
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(1)
            .build(connector);
        Self { client, permits: Semaphore::new(CONCURRENCY), last: Mutex::default() }
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
            let poll = tokio::time::timeout(DEADLINE, self.poll(&pod, token)).await;
            poll.unwrap_or(Err(PollError::Deadline))
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

    async fn poll(&self, pod: &Pod, token: &[u8]) -> Result<StatusReport, PollError> {
        let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref());
        let address: IpAddr = address.and_then(|address| address.parse().ok()).ok_or(PollError::Address)?;
        let authority = SocketAddr::new(address, ADMIN_PORT);
        let mut bearer = b"Bearer ".to_vec();
        bearer.extend_from_slice(token);
        let request = Request::get(format!("http://{authority}/admin/status"))
            .header(AUTHORIZATION, bearer)
            .body(Empty::new())?;
        let response = self.client.request(request).await?;
        if response.status() != StatusCode::OK {
            return Err(PollError::Status(response.status()));
        }
        let body = Limited::new(response.into_body(), LIMIT).collect().await.map_err(|_| PollError::Body)?;
        Ok(serde_json::from_slice(&body.to_bytes())?)
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
