//! HTTP calls to an embedding service: JSON in, JSON out, bounded, retried with exponential backoff and
//! jitter.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, PROXY_AUTHORIZATION,
    RETRY_AFTER,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;
use vmcp_egress::{Proxies, ProxyConnector, client_tls};
use vmcp_error_chain::error_chain;

use crate::error::EmbedError;

/// Bytes of an answer; a longer one is an error. 64 texts of 4096 dimensions are about 5 MB of JSON.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Time to open a TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Exponential backoff before the second, third and fourth attempt. Full waits are jittered down to at most
/// half, so that clients of a recovering service do not return together.
const RETRY_DELAYS: [Duration; 3] =
    [Duration::from_millis(250), Duration::from_millis(750), Duration::from_secs(2)];

/// Characters of a service's message that are kept.
const MAX_MESSAGE_CHARACTERS: usize = 300;
/// Message of an error that is a page of HTML.
const PAGE: &str = "a page of HTML";

/// Longest wait that a service can ask for by `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);

/// Patience of a caller: the number of retries, and the longest wait that a service may ask for between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// One attempt: the caller goes on without an answer.
    Once,
    /// A search waits: one retry, soon.
    Query,
    /// Background work: every retry.
    Bulk,
}

impl Patience {
    fn retries(self) -> usize {
        match self {
            Self::Once => 0,
            Self::Query => 1,
            Self::Bulk => RETRY_DELAYS.len(),
        }
    }

    fn max_wait(self) -> Duration {
        match self {
            Self::Once | Self::Query => Duration::from_secs(1),
            Self::Bulk => Duration::from_secs(30),
        }
    }

    /// Returns the time to wait before the next attempt: the wait that the service asks for, or exponential
    /// backoff with jitter. `None`: the caller has no patience for the wait.
    fn wait(self, backoff: Duration, asked: Option<Duration>) -> Option<Duration> {
        match asked {
            Some(asked) => Some(asked).filter(|asked| *asked <= self.max_wait()),
            None => Some(backoff.mul_f64(0.5 + fastrand::f64() / 2.0)),
        }
    }
}

/// A pooled HTTP client, with and without TLS, through the proxies of the environment.
#[derive(Clone)]
pub(crate) struct Connections {
    client: Client<HttpsConnector<ProxyConnector>, Full<Bytes>>,
    proxies: Proxies,
}

/// Creates a client. TLS trusts the roots of the system (`SSL_CERT_FILE` included) or, in an image without
/// any, Mozilla's.
pub(crate) fn connections() -> Connections {
    connections_through(Proxies::of_environment())
}

fn connections_through(proxies: Proxies) -> Connections {
    let mut tcp = HttpConnector::new();
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_nodelay(true);
    let tls = client_tls(&[]);
    let connector = ProxyConnector::new(tcp, &tls, proxies.clone());
    let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    let https = https.enable_http1().wrap_connector(connector);
    let client = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(https);
    Connections { client, proxies }
}

impl Connections {
    /// Sends a request.
    pub(crate) async fn request(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Error> {
        if let Some(authorization) = self.proxies.authorization_for(request.uri()) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization);
        }
        self.client.request(request).await
    }
}

/// One service: its address, the headers it is sent, and the timeout of an answer.
pub(crate) struct HttpService {
    connections: Connections,
    base: Url,
    /// Scheme, host and port, for messages; never credentials.
    pub endpoint: String,
    headers: HeaderMap,
    timeout: Duration,
}

impl HttpService {
    /// Checks the settings; contacts nothing. `headers` go with every request; `bearer` becomes
    /// `Authorization: Bearer`.
    pub(crate) fn new(
        base: &str,
        headers: &[(String, String)],
        bearer: Option<&str>,
        timeout: Duration,
    ) -> Result<Self, EmbedError> {
        let wrong = |reason: String| EmbedError::Settings(format!("endpoint {reason}"));
        let base = Url::parse(base).map_err(|error| wrong(format!("is not a URL: {error}")))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(wrong(format!("has scheme {}; http and https work", base.scheme())));
        }
        let endpoint = base.origin().ascii_serialization();
        let mut map = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        let bearer = bearer.map(|token| (AUTHORIZATION.to_string(), format!("Bearer {token}")));
        for (name, value) in headers.iter().cloned().chain(bearer) {
            let header = HeaderName::try_from(&name)
                .map_err(|_| EmbedError::Settings(format!("`{name}` is not a header name")))?;
            let mut value = HeaderValue::try_from(value).map_err(|_| {
                EmbedError::Settings(format!("header {name} has a value that cannot be sent"))
            })?;
            // Marked sensitive: `Debug` output does not show credentials.
            value.set_sensitive(true);
            map.insert(header, value);
        }
        Ok(Self { connections: connections(), base, endpoint, headers: map, timeout })
    }

    /// Returns the path of the configured endpoint, without a slash at its end.
    pub(crate) fn path(&self) -> &str {
        self.base.path().trim_end_matches('/')
    }

    /// Sends one GET of the absolute `path`, without retries.
    pub(crate) async fn get(&self, path: &str) -> Result<Bytes, EmbedError> {
        self.send(Method::GET, path, Bytes::new()).await
    }

    /// Sends a JSON `body` to the absolute `path`. 429, 5xx and broken connections are retried as far as the
    /// caller has [`Patience`]; an embedding has no side effects, so repeating it is safe.
    pub(crate) async fn post(
        &self,
        path: &str,
        body: Bytes,
        patience: Patience,
    ) -> Result<Bytes, EmbedError> {
        for backoff in RETRY_DELAYS.into_iter().take(patience.retries()) {
            match self.send(Method::POST, path, body.clone()).await {
                Err(error) if is_transient(&error) => {
                    let Some(wait) = patience.wait(backoff, error.retry_after()) else { return Err(error) };
                    tracing::debug!(%error, "embedding request failed; it is retried");
                    tokio::time::sleep(wait).await;
                }
                settled => return settled,
            }
        }
        self.send(Method::POST, path, body).await
    }

    /// Returns an [`EmbedError::Answer`] from this service.
    pub(crate) fn bad_answer(&self, reason: String) -> EmbedError {
        EmbedError::Answer { endpoint: self.endpoint.clone(), reason }
    }

    /// Reads the JSON of an answer to `path`.
    pub(crate) fn parse<T: DeserializeOwned>(&self, path: &str, body: &[u8]) -> Result<T, EmbedError> {
        serde_json::from_slice(body).map_err(|error| {
            let page = || format!("{PAGE} in place of JSON; check host and path of the endpoint");
            let defect = if is_page(body) { page() } else { error.to_string() };
            self.bad_answer(format!("{path}: {defect}"))
        })
    }

    /// Sends one request and turns an error status into an error.
    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, EmbedError> {
        let mut url = self.base.clone();
        url.set_path(path);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = url.as_str().parse().map_err(|error| {
            EmbedError::Settings(format!("endpoint does not make a request target: {error}"))
        })?;
        *request.headers_mut() = self.headers.clone();
        let Exchanged { status, retry_after, target, body } = self.within(self.exchange(request)).await?;
        if status.is_success() {
            return Ok(body);
        }
        let endpoint = self.endpoint.clone();
        let message = match target.filter(|_| status.is_redirection()) {
            Some(target) => format!("a redirect to {target}; set this address as the endpoint"),
            None => error_message(&body),
        };
        Err(EmbedError::Status { endpoint, status: status.as_u16(), message, retry_after })
    }

    /// Sends one request and reads its answer, whatever its status.
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Exchanged, EmbedError> {
        let unreachable = |reason| EmbedError::Unreachable { endpoint: self.endpoint.clone(), reason };
        let asked = request.uri().clone();
        let response =
            self.connections.request(request).await.map_err(|error| unreachable(error_chain(&error)))?;
        let status = response.status();
        let retry_after = retry_after(response.headers());
        let added = asked.path().strip_prefix(self.path()).unwrap_or_default();
        let target = redirect_target(&self.base, added, response.headers());
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| {
            if error.is::<http_body_util::LengthLimitError>() {
                return self.bad_answer(format!("longer than {} MiB", MAX_ANSWER_BYTES >> 20));
            }
            unreachable(error_chain(error.as_ref()))
        })?;
        Ok(Exchanged { status, retry_after, target, body: body.to_bytes() })
    }

    /// Limits an exchange to the timeout of the service.
    async fn within<T>(
        &self,
        exchange: impl Future<Output = Result<T, EmbedError>>,
    ) -> Result<T, EmbedError> {
        tokio::time::timeout(self.timeout, exchange).await.unwrap_or_else(|_| {
            Err(EmbedError::Timeout { endpoint: self.endpoint.clone(), after: self.timeout })
        })
    }
}

/// An answer, whatever its status.
struct Exchanged {
    status: StatusCode,
    retry_after: Option<Duration>,
    /// Target of a redirect. None is followed: credentials go to the configured host alone.
    target: Option<String>,
    body: Bytes,
}

/// Returns the wait of a `Retry-After` in seconds; a date there counts as absent.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}

/// Returns the endpoint that a `Location` leads to: scheme, host and path, without credentials, query and the
/// path that was `added` to the configured endpoint.
fn redirect_target(base: &Url, added: &str, headers: &HeaderMap) -> Option<String> {
    let target = base.join(headers.get(LOCATION)?.to_str().ok()?).ok()?;
    let path = target.path().strip_suffix(added).unwrap_or(target.path());
    let address = format!("{}{path}", target.origin().ascii_serialization());
    Some(address.chars().take(MAX_MESSAGE_CHARACTERS).collect())
}

/// True for a page of HTML, which an ingress or another server answers in place of the service.
fn is_page(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"<")
}

/// Returns true if a retry may succeed. 424 (wrong kind of model) and the other 4xx do not change.
fn is_transient(error: &EmbedError) -> bool {
    matches!(error, EmbedError::Unreachable { .. } | EmbedError::Status { status: 429 | 500 | 502..=504, .. })
}

/// Returns the message in an error body: TEI's `error`, OpenAI's `error.message`, `message`, or else the text
/// itself.
fn error_message(body: &[u8]) -> String {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    let known = ["/error/message", "/error", "/message", "/detail"];
    let message = known.iter().find_map(|pointer| json.pointer(pointer)?.as_str());
    let text = String::from_utf8_lossy(body);
    let line = message.unwrap_or(&text).lines().next().unwrap_or_default();
    match line {
        "" => "no message".to_owned(),
        _ if is_page(body) => PAGE.to_owned(),
        line => line.chars().take(MAX_MESSAGE_CHARACTERS).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_that_a_service_asks_for_is_kept_as_far_as_the_caller_can_wait() {
        let headers =
            |value: &str| HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::try_from(value).unwrap())]);
        let seconds = Duration::from_secs;
        assert_eq!(retry_after(&headers("20")), Some(seconds(20)));
        assert_eq!(retry_after(&headers("90000")), Some(MAX_RETRY_AFTER));
        assert_eq!(retry_after(&headers("Wed, 21 Oct 2026 07:28:00 GMT")), None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
        assert_eq!(Patience::Bulk.wait(seconds(1), Some(seconds(20))), Some(seconds(20)));
        assert_eq!(Patience::Query.wait(seconds(1), Some(seconds(20))), None);
        assert!(Patience::Query.wait(seconds(1), None).unwrap() <= seconds(1));
    }

    #[test]
    fn a_redirect_is_named_without_credentials_and_query() {
        let base = Url::parse("http://tei:8080/base").unwrap();
        let target = |value: &str| {
            let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::try_from(value).unwrap())]);
            redirect_target(&base, "/embed", &headers)
        };
        assert_eq!(target("https://me:secret@tei/x/embed?key=1").as_deref(), Some("https://tei/x"));
        assert_eq!(target("/login").as_deref(), Some("http://tei:8080/login"));
        assert_eq!(redirect_target(&base, "", &HeaderMap::new()), None);
    }

    #[test]
    fn every_shape_of_error_body_yields_its_message() {
        let cases = [
            (r#"{"error":"Model is overloaded","error_type":"Overloaded"}"#, "Model is overloaded"),
            (r#"{"error":{"message":"no such model","type":"x"}}"#, "no such model"),
            (r#"{"message":"batch size","code":422,"type":"Validation"}"#, "batch size"),
            ("Failed to deserialize the JSON body\nmore", "Failed to deserialize the JSON body"),
            ("", "no message"),
            (" <!DOCTYPE html>\n<html>", PAGE),
        ];
        for (body, message) in cases {
            assert_eq!(error_message(body.as_bytes()), message);
        }
    }
}
