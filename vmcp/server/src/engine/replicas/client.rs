//! HTTP calls to the admin ports of other replicas, with the admin token that all replicas share.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::form_urlencoded;
use vmcp_config::Config;
use vmcp_error_chain::error_chain;

use super::report::ReplicaReport;
use crate::telemetry::tool_metrics::Filter;

/// Time limit of one exchange.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Most bytes of a report: 5,000 learned pairs of 384 dimensions take 25 MB.
const MAX_REPORT_BYTES: usize = 64 << 20;

/// Fetches the report of a replica.
pub(super) async fn report(
    config: &Config,
    address: SocketAddr,
    learned_after: i64,
) -> Result<ReplicaReport, String> {
    let path = format!("/admin/replica?learned_after={learned_after}");
    let body = exchange(config, address, Method::GET, &path).await?;
    serde_json::from_slice(&body).map_err(|error| error.to_string())
}

/// Makes a replica forget metrics of tools; what it does not hear, it still counts.
pub(super) async fn reset(config: &Config, address: SocketAddr, filter: &Filter) {
    if let Err(reason) = exchange(config, address, Method::POST, &reset_path(filter)).await {
        tracing::warn!(%address, reason, "metrics of tools were not reset at another replica");
    }
}

fn reset_path(filter: &Filter) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("scope", "own");
    query.extend_pairs(filter.backend.iter().map(|backend| ("server", backend)));
    query.extend_pairs(filter.tool.iter().map(|tool| ("tool", tool)));
    format!("/admin/tool-metrics/reset?{}", query.finish())
}

async fn exchange(config: &Config, address: SocketAddr, method: Method, path: &str) -> Result<Bytes, String> {
    let work = async {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error_chain(&error))?;
        // Ends with the sender.
        tokio::spawn(async move { drop(connection.await) });
        let mut request =
            Request::builder().method(method).uri(path).header(header::HOST, address.to_string());
        if let Some(token) = config.server.admin_tokens.first() {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
        let answer = sender.send_request(request).await.map_err(|error| error_chain(&error))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_REPORT_BYTES).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        if status.is_success() { Ok(body) } else { Err(format!("it answered {status}")) }
    };
    timeout(TIMEOUT, work).await.unwrap_or_else(|_| Err(format!("no answer in {} s", TIMEOUT.as_secs())))
}
