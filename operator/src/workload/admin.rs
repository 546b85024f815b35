//! A client of the admin port that every pod of `vmcp` and of the bridge has: `GET /admin/status` and
//! `GET /admin/tools/trusted` with a bearer token.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::Semaphore;
use vmcp_config::rules::trusted_tools::TrustedTools;
use vmcp_config::status::StatusReport;
use vmcp_crds::lower::ADMIN_PORT;

/// The longest that a pod may take to answer.
const POLL_TIMEOUT: Duration = Duration::from_secs(3);
/// The largest answer that is read, 1 MiB, about 2000 backends; a larger one is an error.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// The part of an answer that is read without a permit, 256 KiB.
const SMALL_ANSWER_BYTES: usize = 256 << 10;
/// The most answers larger than [`SMALL_ANSWER_BYTES`] that are read at the same time; others wait. The pod's
/// image is its owner's choice: many large answers must not exhaust the memory of the operator.
const MAX_LARGE_ANSWERS: usize = 8;
/// The most objects and lists of an answer that is parsed: a backend without fields is two bytes of JSON,
/// `{}` or `[]`, and hundreds of bytes in memory. About 2000 backends have at most 8000.
const MAX_OBJECTS: usize = 10_000;
/// The most commas of an answer that is parsed: an empty text is two bytes of JSON, and 24 bytes in memory.
/// About 2000 backends have 50,000.
const MAX_COMMAS: usize = 100_000;
/// The most commas of a document of trusted tools that is parsed: each tool has one, and takes some 200 bytes
/// in memory.
const MAX_TRUSTED_TOOLS: usize = 20_000;
/// The longest error of a backend, and the longest issue, that are kept, in bytes; the rest is cut off.
const MAX_TEXT_BYTES: usize = 1024;
/// The most issues that are kept; further ones are dropped.
const MAX_ISSUES: usize = 1000;

/// Asks pods for their status report, one kept-alive connection a pod.
pub(crate) struct AdminClient {
    client: Client<HttpConnector, Empty<Bytes>>,
    large_answers: Semaphore,
}

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
    /// The answer broke off, or was larger than the limits.
    #[error(
        "the answer broke off, or was larger than {} KiB, {MAX_OBJECTS} objects and lists, or {MAX_COMMAS} commas",
        MAX_ANSWER_BYTES >> 10
    )]
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
        Self { client, large_answers: Semaphore::new(MAX_LARGE_ANSWERS) }
    }
}

impl AdminClient {
    /// Asks one pod.
    pub(crate) async fn ask(&self, pod: &Pod, token: &[u8]) -> Result<StatusReport, AskError> {
        self.get(pod, token, "/admin/status", parse).await
    }

    /// Asks one pod for the trusted definitions of tools.
    pub(crate) async fn trusted_tools(&self, pod: &Pod, token: &[u8]) -> Result<TrustedTools, AskError> {
        self.get(pod, token, "/admin/tools/trusted", parse_trusted).await
    }

    async fn get<T>(&self, pod: &Pod, token: &[u8], path: &str, parse: Parse<T>) -> Result<T, AskError> {
        let exchange = self.exchange(pod, token, path, parse);
        tokio::time::timeout(POLL_TIMEOUT, exchange).await.unwrap_or(Err(AskError::Timeout))
    }

    async fn exchange<T>(&self, pod: &Pod, token: &[u8], path: &str, parse: Parse<T>) -> Result<T, AskError> {
        let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref());
        let address: IpAddr = address.and_then(|address| address.parse().ok()).ok_or(AskError::Address)?;
        let authority = SocketAddr::new(address, ADMIN_PORT);
        let request = Request::get(format!("http://{authority}{path}"))
            .header(AUTHORIZATION, [b"Bearer ", token].concat());
        let response = self.client.request(request.body(Empty::new())?).await?;
        if response.status() != StatusCode::OK {
            return Err(AskError::Status(response.status()));
        }
        self.read(response.into_body(), parse).await
    }

    /// Reads an answer. A large one holds a permit until it is parsed.
    async fn read<T>(&self, mut body: Incoming, parse: Parse<T>) -> Result<T, AskError> {
        let mut answer = Vec::new();
        let mut permit = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| AskError::Body)?;
            let Some(data) = frame.data_ref() else { continue };
            let length = answer.len() + data.len();
            if length > MAX_ANSWER_BYTES {
                return Err(AskError::Body);
            }
            if length > SMALL_ANSWER_BYTES && permit.is_none() {
                permit = Some(self.large_answers.acquire().await.map_err(|_| AskError::Body)?);
            }
            answer.extend_from_slice(data);
        }
        let parsed = parse(&answer);
        drop(permit);
        parsed
    }
}

/// Reads the body of an answer.
type Parse<T> = fn(&[u8]) -> Result<T, AskError>;

/// Parses a document of trusted tools, unless it would take much more memory than its text.
fn parse_trusted(answer: &[u8]) -> Result<TrustedTools, AskError> {
    if commas(answer) > MAX_TRUSTED_TOOLS {
        return Err(AskError::Body);
    }
    Ok(serde_json::from_slice(answer)?)
}

/// Returns the number of commas between values of a JSON text: those in strings, such as names of tools, do
/// not count. After a mistake of syntax the number is arbitrary, but the parser ends there.
fn commas(json: &[u8]) -> usize {
    let (mut number, mut is_in_string, mut is_escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_string => is_escaped = true,
            b'"' => is_in_string = !is_in_string,
            b',' if !is_in_string => number += 1,
            _ => {}
        }
    }
    number
}

/// Parses an answer, unless it would take much more memory than its text.
fn parse(answer: &[u8]) -> Result<StatusReport, AskError> {
    let count = |wanted: &[u8]| answer.iter().filter(|byte| wanted.contains(byte)).count();
    // serde reads a struct from a list too.
    if count(b"{[") > MAX_OBJECTS || count(b",") > MAX_COMMAS {
        return Err(AskError::Body);
    }
    Ok(slim(serde_json::from_slice(answer)?))
}

/// Removes from a report the parts that the operator does not read: entries without a name of their own,
/// lists without a reader, and the end of long lists and texts.
fn slim(mut report: StatusReport) -> StatusReport {
    report.identity_providers = Vec::new();
    shorten(&mut report.trusted_tools);
    report.issues.retain(|issue| !issue.is_empty());
    report.issues.truncate(MAX_ISSUES);
    report.issues.shrink_to_fit();
    report.issues.iter_mut().for_each(shorten);
    if let Some(refused) = &mut report.configuration.refused {
        refused.problems = Vec::new();
    }
    // One setting says that a restart is needed.
    report.configuration.needs_restart.truncate(1);
    report.configuration.needs_restart.shrink_to_fit();
    report.backends.sort_by(|one, other| one.name.cmp(&other.name));
    report.backends.dedup_by(|one, other| one.name == other.name);
    report.backends.retain(|backend| !backend.name.is_empty());
    report.backends.shrink_to_fit();
    for backend in &mut report.backends {
        (backend.quarantined, backend.advice) = (Vec::new(), Vec::new());
        backend.last_error.iter_mut().for_each(shorten);
    }
    report
}

fn shorten(text: &mut String) {
    text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
    text.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_kept_report_has_each_backend_once_and_short_errors() {
        let long = "é".repeat(MAX_TEXT_BYTES);
        let report = json!({ "tools": 3, "backends": [
            { "name": "b", "tools": 3 }, {}, {}, { "name": "a", "lastError": long }, { "name": "b" },
        ] });
        let report = parse(report.to_string().as_bytes()).unwrap();
        let names: Vec<_> = report.backends.iter().map(|backend| backend.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(report.backends[1].tools, Some(3), "the first of two");
        let error = report.backends[0].last_error.as_deref().unwrap_or_default();
        assert_eq!(error.len(), MAX_TEXT_BYTES);
        assert_eq!(report.tools, 3);
    }

    #[test]
    fn an_answer_of_many_small_objects_is_refused_before_it_is_parsed() {
        for item in [json!({}), json!([])] {
            let answer = |count: usize| json!({ "backends": vec![item.clone(); count] }).to_string();
            assert!(parse(answer(MAX_OBJECTS - 2).as_bytes()).is_ok(), "the report and the list count too");
            assert!(matches!(parse(answer(MAX_OBJECTS - 1).as_bytes()), Err(AskError::Body)), "{item}");
        }
        let answer = |count: usize| json!({ "issues": vec![""; count] }).to_string();
        let report = parse(answer(MAX_COMMAS + 1).as_bytes()).unwrap();
        assert_eq!(report.issues.capacity(), 0);
        assert!(matches!(parse(answer(MAX_COMMAS + 2).as_bytes()), Err(AskError::Body)));
    }

    #[test]
    fn a_document_of_too_many_trusted_tools_is_refused_before_it_is_parsed() {
        let answer = |count: usize| {
            let tools: serde_json::Map<_, _> =
                (0..count).map(|number| (number.to_string(), json!("A".repeat(32)))).collect();
            json!({ "trusted": { "a": tools } }).to_string()
        };
        let read = parse_trusted(answer(MAX_TRUSTED_TOOLS + 1).as_bytes()).unwrap();
        assert_eq!(read.trusted["a"].len(), MAX_TRUSTED_TOOLS + 1);
        assert!(matches!(parse_trusted(answer(MAX_TRUSTED_TOOLS + 2).as_bytes()), Err(AskError::Body)));
    }

    #[test]
    fn commas_in_names_of_tools_do_not_count() {
        let name = |number: usize| format!("{}\\\"{number}", ",".repeat(256));
        let tools: serde_json::Map<_, _> =
            (0..100).map(|number| (name(number), json!("A".repeat(32)))).collect();
        let answer = json!({ "trusted": { "a": tools } }).to_string();
        assert_eq!(parse_trusted(answer.as_bytes()).unwrap().trusted["a"].len(), 100);
        assert_eq!(commas(br#"{"a\\":1,"b,\"":[2,3]}"#), 2);
    }

    #[test]
    fn a_kept_report_has_no_more_than_the_operator_reads() {
        let many = |text: &str| vec![text.to_owned(); MAX_ISSUES + 1];
        let report = json!({
            "issues": many("MissingStepTool: a"), "identityProviders": [{ "issuer": "https://idp.example" }],
            "configuration": { "needsRestart": many("a"), "refused": { "message": "m", "problems": [{
                "path": "a", "message": "b", "remedy": "c", "line": 1,
            }] } },
            "backends": [{ "name": "a", "quarantined": many("t"), "advice": many("t") }],
        });
        let report = parse(report.to_string().as_bytes()).unwrap();
        assert_eq!(report.issues.len(), MAX_ISSUES);
        assert!(report.identity_providers.is_empty());
        assert_eq!(report.configuration.needs_restart, ["a"]);
        let refused = report.configuration.refused.unwrap();
        assert_eq!((refused.message.as_str(), refused.problems.len()), ("m", 0));
        assert!(report.backends[0].quarantined.is_empty() && report.backends[0].advice.is_empty());
    }

    #[test]
    fn the_report_of_a_thousand_failing_backends_is_read() {
        let error =
            "connecting to http://mcp-server.tools.svc.cluster.local:8080/mcp failed: connection refused";
        let backend = |number| {
            json!({
                "name": format!("server-{number:04}"), "transport": "streamable-http", "state": "failed",
                "lastError": error, "breaker": "open", "changes": { "added": 1, "updated": 0, "removed": 0, "unchanged": 3 },
                "since": "2026-11-27T08:00:00Z", "lastRefresh": "2026-11-27T08:00:00Z",
            })
        };
        let answer = json!({ "backends": (0..1000).map(backend).collect::<Vec<_>>() }).to_string();
        assert!(answer.len() > SMALL_ANSWER_BYTES && answer.len() < MAX_ANSWER_BYTES, "{}", answer.len());
        assert_eq!(parse(answer.as_bytes()).unwrap().backends.len(), 1000);
    }
}
