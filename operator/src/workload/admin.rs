//! What a pod's admin port says: `GET /admin/status`, of the server and of the bridge.

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

/// How long a pod may take to answer.
const DEADLINE: Duration = Duration::from_secs(3);
/// The largest answer that is read: a thousand backends fit many times.
const LIMIT: usize = 8 << 20;

/// Asks pods how they are.
pub struct AdminClient(Client<HttpConnector, Empty<Bytes>>);

/// Why a pod did not say how it is.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It has none yet.
    #[error("it has no address")]
    Address,
    /// Not reached with an address.
    #[error("the request cannot be made")]
    Request(#[from] http::Error),
    /// Nobody listens there, or a NetworkPolicy is in the way.
    #[error("the connection failed")]
    Connection(#[from] hyper_util::client::legacy::Error),
    /// Such as 401.
    #[error("it answered {0}")]
    Status(StatusCode),
    /// Cut off.
    #[error("its answer broke off or was larger than {} MiB", LIMIT >> 20)]
    Body,
    /// Not ours.
    #[error("its answer is no status report")]
    Report(#[from] serde_json::Error),
    /// Too slow.
    #[error("it did not answer within {} s", DEADLINE.as_secs())]
    Deadline,
}

impl Default for AdminClient {
    fn default() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(DEADLINE));
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(1)
            .build(connector);
        Self(client)
    }
}

impl AdminClient {
    /// Asks one pod.
    pub async fn ask(&self, pod: &Pod, token: &[u8]) -> Result<StatusReport, AskError> {
        tokio::time::timeout(DEADLINE, self.exchange(pod, token)).await.unwrap_or(Err(AskError::Deadline))
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
        let body = Limited::new(response.into_body(), LIMIT).collect().await.map_err(|_| AskError::Body)?;
        Ok(serde_json::from_slice(&body.to_bytes())?)
    }
}
