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
use tokio::time::{Instant, timeout, timeout_at};
use url::form_urlencoded;
use vmcp_config::Config;
use vmcp_error_chain::error_chain;

use super::LastAnswer;
use super::answers::{ClientName, ReplicaLogins, ReplicaUsage};
use super::report::{ReplicaReport, SharedPair};
use crate::telemetry::tool_metrics::Filter;
use crate::telemetry::tool_metrics::history::HistoryQuery;

/// Time limit of one exchange.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Most bytes of a report: 5,000 learned pairs of 384 dimensions take 25 MB.
const MAX_REPORT_BYTES: usize = 64 << 20;
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
    if let Err(reason) =
        exchange(config, address, Method::POST, &reset_path(filter), None, MAX_REPORT_BYTES).await
    {
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

/// Fetches the usage of a replica over days.
pub(super) async fn usage(
    config: &Config,
    address: SocketAddr,
    wanted: &HistoryQuery,
) -> Result<ReplicaUsage, String> {
    read(config, address, &usage_path(wanted), MAX_REPORT_BYTES).await
}

/// Fetches the tokens that a replica keeps for a client.
pub(super) async fn logins(
    config: &Config,
    address: SocketAddr,
    of: &ClientName,
) -> Result<ReplicaLogins, String> {
    let path = format!("/admin/logins?{}", client_query(of).finish());
    read(config, address, &path, MAX_REPORT_BYTES).await
}

/// Fetches an answer for a page of the console; one that has not come `until` then is an error.
pub(super) async fn page<Body: DeserializeOwned>(
    config: &Config,
    address: SocketAddr,
    path: &str,
    until: Instant,
) -> Result<Body, String> {
    let answer = read(config, address, path, MAX_PAGE_BYTES);
    timeout_at(until, answer).await.unwrap_or_else(|_| Err("no answer while the page waited".to_owned()))
}

/// Makes a replica forget the tokens of a client for one backend.
pub(super) async fn forget_login(config: &Config, address: SocketAddr, of: &ClientName, server: &str) {
    let path = forget_path(of, server);
    if let Err(reason) = exchange(config, address, Method::POST, &path, None, MAX_REPORT_BYTES).await {
        tracing::warn!(%address, reason, "tokens of a client were not forgotten at another replica");
    }
}

// A serializer is not `Send`, so that none may live while an answer is awaited.
fn forget_path(of: &ClientName, server: &str) -> String {
    let mut query = client_query(of);
    query.append_pair("server", server).append_pair("scope", "own");
    format!("/admin/logins/forget?{}", query.finish())
}

fn client_query(of: &ClientName) -> form_urlencoded::Serializer<'static, String> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("issuer", &of.issuer).append_pair("subject", &of.subject);
    query
}

/// Reads JSON that no entity tag spares.
async fn read<Body: DeserializeOwned>(
    config: &Config,
    address: SocketAddr,
    path: &str,
    limit: usize,
) -> Result<Body, String> {
    let answer = exchange(config, address, Method::GET, path, None, limit).await?;
    let body = answer.body.ok_or("it answered that nothing changed, and was not asked so")?;
    serde_json::from_slice(&body).map_err(|error| error.to_string())
}

fn usage_path(wanted: &HistoryQuery) -> String {
    let HistoryQuery { server, tool, days, limit } = wanted;
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(server.iter().map(|server| ("server", server)));
    query.extend_pairs(tool.iter().map(|tool| ("tool", tool)));
    query.extend_pairs(days.iter().map(|days| ("days", days.to_string())));
    query.extend_pairs(limit.iter().map(|limit| ("limit", limit.to_string())));
    format!("/admin/replica/usage?{}", query.finish())
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
