//! A client of the admin port that every pod of `vmcp` and of the bridge has: `GET /admin/status` with a
//! bearer token.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::Pod;
use vmcp_config::status::StatusReport;
use vmcp_crds::lower::ADMIN_PORT;

/// The longest that a pod may take to answer.
const POLL_TIMEOUT: Duration = Duration::from_secs(3);
/// The largest answer that is read, 256 KiB; a larger one is an error. The pod's image is its owner's choice:
/// many large answers must not exhaust the memory of the operator.
const MAX_ANSWER_BYTES: usize = 256 << 10;

/// Asks pods for their status report, one kept-alive connection a pod.
pub(crate) struct AdminClient(Client<HttpConnector, Empty<Bytes>>);

/// Error of a request for a status report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// The pod has no IP address yet.
    #[error("the pod has no address yet")]
    Address,
    /// The address or the token makes no HTTP request.
    #[error("the request cannot be made")]
    Request(#[from] http::Error),
    /// The port refuses, or a NetworkPolicy drops the packets.
    #[error("the connection to the admin port failed")]
    Connection(#[from] hyper_util::client::legacy::Error),
    /// The answer is not 200; 401 while the kubelet has not yet mounted a new token.
    #[error("the pod answered {0}")]
    Status(StatusCode),
    /// The answer broke off, or was larger than the limit.
    #[error("the answer broke off or was larger than {} KiB", MAX_ANSWER_BYTES >> 10)]
    Body,
    /// The answer is not a status report.
    #[error("the answer is no status report")]
    Report(#[from] serde_json::Error),
    /// The pod did not answer in time.
    #[error("the pod did not answer within {} s", POLL_TIMEOUT.as_secs())]
    Timeout,
}

impl AskError {
    /// Returns true if the pod does not accept the token.
    pub(crate) fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Status(StatusCode::UNAUTHORIZED))
    }

    /// Returns the reason of a condition, and the remedy.
    pub(crate) fn advice(&self) -> (&'static str, String) {
        match self {
            Self::Address => ("NoAddress", "the cluster gives it one soon".to_owned()),
            Self::Timeout => (
                "ConnectionTimedOut",
                format!(
                    "a NetworkPolicy probably drops the packets; allow ingress to port {ADMIN_PORT} from the pods \
                     `app.kubernetes.io/name=vmcp-operator` of the operator's namespace"
                ),
            ),
            Self::Connection(_) | Self::Request(_) => (
                "ConnectionFailed",
                format!(
                    "a service mesh with strict mTLS probably resets it; exclude the port by a pod annotation, with \
                     Istio `traffic.sidecar.istio.io/excludeInboundPorts: \"{ADMIN_PORT}\"`, with Linkerd \
                     `config.linkerd.io/skip-inbound-ports: \"{ADMIN_PORT}\"`"
                ),
            ),
            Self::Status(StatusCode::UNAUTHORIZED) => (
                "TokenRefused",
                "the kubelet mounts a new token within a minute; if this lasts, delete the pod".to_owned(),
            ),
            Self::Status(_) | Self::Report(_) => (
                "AnswerUnusable",
                "the image must be one of vmcp, and of a version near the operator's".to_owned(),
            ),
            Self::Body => (
                "AnswerTooLarge",
                "divide the backends among several VirtualMCPServers, or choose an image of vmcp".to_owned(),
            ),
        }
    }
}

impl Default for AdminClient {
    fn default() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(POLL_TIMEOUT));
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(1)
            .build(connector);
        Self(client)
    }
}

impl AdminClient {
    /// Asks one pod.
    pub(crate) async fn ask(&self, pod: &Pod, token: &[u8]) -> Result<StatusReport, AskError> {
        tokio::time::timeout(POLL_TIMEOUT, self.exchange(pod, token)).await.unwrap_or(Err(AskError::Timeout))
    }

    async fn exchange(&self, pod: &Pod, token: &[u8]) -> Result<StatusReport, AskError> {
        let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref());
        let address: IpAddr = address.and_then(|address| address.parse().ok()).ok_or(AskError::Address)?;
        let authority = SocketAddr::new(address, ADMIN_PORT);
        let request = Request::get(format!("http://{authority}/admin/status"))
            .header(AUTHORIZATION, [b"Bearer ", token].concat());
        let response = self.0.request(request.body(Empty::new())?).await?;
        if response.status() != StatusCode::OK {
            return Err(AskError::Status(response.status()));
        }
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES)
            .collect()
            .await
            .map_err(|_| AskError::Body)?;
        Ok(serde_json::from_slice(&body.to_bytes())?)
    }
}
