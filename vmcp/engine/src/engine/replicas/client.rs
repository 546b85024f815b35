//! HTTP calls to the admin ports of other replicas, with the admin token that all replicas share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::form_urlencoded;
use vmcp_config::Config;
use vmcp_error_chain::error_chain;

use super::LastAnswer;
use super::report::{ReplicaReport, SharedPair};
use crate::telemetry::tool_metrics::Filter;

/// Time limit of one exchange.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Most bytes of a report: 5,000 learned pairs of 384 dimensions take 25 MB.
pub(super) const MAX_REPORT_BYTES: usize = 64 << 20;
/// Most bytes of an answer for a page of the console: 4 MiB, from each of 64 replicas.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// The answer of a replica.
pub(super) struct Answer {
    /// Part of it that is remembered.
    pub(super) heard: LastAnswer,
    /// Learned pairs that are new.
    pub(super) learned: Vec<SharedPair>,
    /// False if the replica answered that its last report stands.
    pub(super) is_new: bool,
}

/// Fetches the report of a replica, unless the last one stands.
pub(super) async fn report(
    config: &Config,
    address: SocketAddr,
    last: Option<LastAnswer>,
) -> Result<Answer, String> {
    let after = last.as_ref().map_or(0, |last| last.learned_up_to);
    let path = format!("/admin/replica?learned_after={after}");
    let tag = last.as_ref().and_then(|last| last.tag.as_deref());
    let answer = exchange(config, address, Method::GET, &path, tag, MAX_REPORT_BYTES).await?;
    let mut report: ReplicaReport = match (answer.body, last.clone()) {
        (None, Some(heard)) => return Ok(Answer { heard, learned: Vec::new(), is_new: false }),
        (None, None) => return Err("it answered that nothing changed, and was not asked so".to_owned()),
        (Some(body), _) => serde_json::from_slice(&body).map_err(|error| error.to_string())?,
    };
    let learned = std::mem::take(&mut report.learned);
    let newest = learned.iter().map(|pair| pair.last_used).max();
    // Another process at the address: its older pairs are asked for the next time.
    let is_same = last.is_none_or(|last| last.report.replica == report.replica);
    let learned_up_to = if is_same { newest.unwrap_or(after) } else { 0 };
    let heard = LastAnswer { tag: answer.tag, report: Arc::new(report), learned_up_to, adopted_at: None };
    Ok(Answer { heard, learned, is_new: true })
}

/// Makes a replica forget metrics of tools; what it does not hear, it still counts.
pub(super) async fn reset(config: &Config, address: SocketAddr, filter: &Filter) {
    if let Err(reason) = order(config, address, &reset_path(filter)).await {
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

/// Fetches an answer for a page of the console.
pub(super) async fn page<Body: DeserializeOwned>(
    config: &Config,
    address: SocketAddr,
    path: &str,
) -> Result<Body, String> {
    read(config, address, path, MAX_PAGE_BYTES).await
}

/// Gives a replica an order.
pub(super) async fn order(config: &Config, address: SocketAddr, path: &str) -> Result<(), String> {
    exchange(config, address, Method::POST, path, None, MAX_REPORT_BYTES).await.map(drop)
}

/// Reads JSON that no entity tag spares.
pub(super) async fn read<Body: DeserializeOwned>(
    config: &Config,
    address: SocketAddr,
    path: &str,
    limit: usize,
) -> Result<Body, String> {
    let answer = exchange(config, address, Method::GET, path, None, limit).await?;
    let body = answer.body.ok_or("it answered that nothing changed, and was not asked so")?;
    serde_json::from_slice(&body).map_err(|error| error.to_string())
}

/// An answer over HTTP.
struct Exchanged {
    /// Entity tag of the body.
    tag: Option<String>,
    /// `None`: the body of `known_tag` stands.
    body: Option<Bytes>,
}

/// Makes one exchange; an answer of more than `limit` bytes is an error.
async fn exchange(
    config: &Config,
    address: SocketAddr,
    method: Method,
    path: &str,
    known_tag: Option<&str>,
    limit: usize,
) -> Result<Exchanged, String> {
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
        if let Some(tag) = known_tag {
            request = request.header(header::IF_NONE_MATCH, tag);
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
        let answer = sender.send_request(request).await.map_err(|error| error_chain(&error))?;
        let status = answer.status();
        let tag = answer.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        if status == StatusCode::NOT_MODIFIED {
            return Ok(Exchanged { tag, body: None });
        }
        let body = Limited::new(answer.into_body(), limit).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        let body = Some(body);
        if status.is_success() { Ok(Exchanged { tag, body }) } else { Err(format!("it answered {status}")) }
    };
    timeout(TIMEOUT, work).await.unwrap_or_else(|_| Err(format!("no answer in {} s", TIMEOUT.as_secs())))
}
