//! One URL of a backend, with the headers that every request to it carries.

mod cookie_jar;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use url::Url;
use vmcp_config::KnownSecrets;

use crate::http_client::{HttpClient, Origin, Purpose, ResponseBody, SendError, http_address};
use crate::policy::configured_headers::ConfiguredHeaders;
use crate::request::{SharedCredentials, UnprovedRequest};
use crate::transport::body;
use crate::transport::link_error::{LinkError, Secrets};

use self::cookie_jar::CookieJar;

const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

#[derive(Clone)]
pub(crate) struct Endpoint {
    client: HttpClient,
    origin: Origin,
    url: Arc<Url>,
    /// The request target.
    target: Uri,
    /// The headers of vmcp itself.
    base: Arc<HeaderMap>,
    configured: Arc<ConfiguredHeaders>,
    /// Credentials of the owner of the connection; `None`: the configured headers are all.
    credentials: Option<SharedCredentials>,
    /// Cookies of the session.
    cookies: Arc<CookieJar>,
    /// Several clients may use the session.
    is_shared: bool,
}

impl Endpoint {
    pub(super) fn new(
        client: HttpClient,
        url: &Url,
        configured: Arc<ConfiguredHeaders>,
        credentials: Option<SharedCredentials>,
    ) -> Result<Self, LinkError> {
        let origin = client.origin(&uri(url)?);
        Self::with_origin(client, origin, url, configured, credentials)
    }

    /// The endpoint of a websocket: its handshake is an HTTP request.
    pub(super) fn of_websocket(
        client: HttpClient,
        url: &Url,
        configured: Arc<ConfiguredHeaders>,
        credentials: Option<SharedCredentials>,
    ) -> Result<Self, LinkError> {
        let url = http_address(url);
        let origin = client.websocket_origin(&uri(&url)?);
        Self::with_origin(client, origin, &url, configured, credentials)
    }

    fn with_origin(
        client: HttpClient,
        origin: Origin,
        url: &Url,
        configured: Arc<ConfiguredHeaders>,
        credentials: Option<SharedCredentials>,
    ) -> Result<Self, LinkError> {
        let mut headers = HeaderMap::with_capacity(16);
        let agent = concat!("vmcp/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        let (target, host) = origin.target(uri(url)?);
        if let Some(host) = host {
            // A configured `Host` replaces this one.
            headers.insert(HOST, host);
        }
        let url = Arc::new(url.clone());
        let (base, cookies) = (Arc::new(headers), Arc::default());
        Ok(Self { client, origin, url, target, base, configured, credentials, cookies, is_shared: true })
    }

    /// This backend at another of its URLs of the same origin.
    pub(super) fn at(&self, url: &Url) -> Result<Self, LinkError> {
        let origin = self.client.origin(&uri(url)?);
        let (target, _) = origin.target(uri(url)?);
        Ok(Self { origin, url: Arc::new(url.clone()), target, ..self.clone() })
    }

    /// This endpoint for another session, with the credentials of its owner and without cookies.
    pub(super) fn with_credentials(&self, credentials: Option<SharedCredentials>) -> Self {
        let credentials = credentials.or_else(|| self.credentials.clone());
        Self { credentials, cookies: Arc::default(), is_shared: false, ..self.clone() }
    }

    /// Keeps no cookies: the endpoint has no session for them.
    pub(super) fn refuse_cookies(&self) {
        self.cookies.refuse();
    }

    /// The headers of vmcp itself, to which a request adds its own.
    pub(super) fn headers(&self) -> HeaderMap {
        HeaderMap::clone(&self.base)
    }

    /// The headers of messages.
    pub(super) fn post_headers(&self) -> HeaderMap {
        let mut headers = self.headers();
        headers.insert(ACCEPT, JSON_OR_EVENTS);
        headers.insert(CONTENT_TYPE, JSON);
        headers
    }

    /// Posts a message; `headers` are [`Endpoint::post_headers`] and more.
    pub(super) async fn post(
        &self,
        headers: HeaderMap,
        body: Bytes,
        purpose: Purpose,
    ) -> Result<Response<ResponseBody>, LinkError> {
        self.post_for(None, headers, body, purpose).await
    }

    /// Posts a message of a client with `credentials` of its own.
    pub(super) async fn post_for(
        &self,
        credentials: Option<&SharedCredentials>,
        headers: HeaderMap,
        body: Bytes,
        purpose: Purpose,
    ) -> Result<Response<ResponseBody>, LinkError> {
        let message = OutgoingMessage::new(Method::POST, headers, body, purpose);
        self.send(credentials, message).await
    }

    /// Opens a stream of server-sent events.
    pub(super) async fn get_events(
        &self,
        mut headers: HeaderMap,
    ) -> Result<Response<ResponseBody>, LinkError> {
        headers.insert(ACCEPT, EVENTS);
        let (method, purpose) = (Method::GET, Purpose::Stream);
        self.send(None, OutgoingMessage::new(method, headers, Bytes::new(), purpose)).await
    }

    /// Asks for another protocol on the connection; `headers` name it.
    pub(super) async fn upgrade(&self, headers: HeaderMap) -> Result<Response<ResponseBody>, LinkError> {
        let (method, purpose) = (Method::GET, Purpose::Stream);
        self.send(None, OutgoingMessage::new(method, headers, Bytes::new(), purpose)).await
    }

    pub(super) async fn delete(&self, headers: HeaderMap) -> Result<Response<ResponseBody>, LinkError> {
        let (method, purpose) = (Method::DELETE, Purpose::Call);
        self.send(None, OutgoingMessage::new(method, headers, Bytes::new(), purpose)).await
    }

    /// Returns the secrets that the server of a response was sent, to be masked in its words.
    pub(super) fn secrets(&self, known: Arc<KnownSecrets>, proof: Option<&SentProof>) -> Secrets {
        let mut secrets = Secrets::new(known);
        let mut configured = HeaderMap::new();
        self.configured.add_to(&mut configured);
        secrets.add_headers(&configured);
        if let Some(SentProof(proof)) = proof {
            secrets.add_headers(proof);
        }
        secrets
    }

    /// Sends a message with the configured headers and with the client's credentials, else those of the
    /// connection's owner. Refused with HTTP 401, it was not executed: it is sent once more if there are
    /// other credentials then.
    async fn send(
        &self,
        of_client: Option<&SharedCredentials>,
        mut message: OutgoingMessage,
    ) -> Result<Response<ResponseBody>, LinkError> {
        self.configured.add_to(&mut message.headers);
        // Requests in the name of one client neither bring cookies to others nor take theirs.
        message.with_cookies = of_client.is_none() || !self.is_shared;
        let Some(source) = of_client.or(self.credentials.as_ref()) else {
            return self.send_as_is(message).await;
        };
        // Boxed: backends without such credentials do not carry the state of fetching them.
        Box::pin(async {
            let proof = SentProof(source.headers(message.unproved(&self.url), None).await?);
            let response = self.send_as_is(message.proved_by(&proof.0)).await?;
            if response.status() != StatusCode::UNAUTHORIZED {
                return Ok(proof.noted_in(response));
            }
            let renewed = source.headers(message.unproved(&self.url), Some(&proof.0)).await?;
            if renewed == proof.0 {
                return Ok(proof.noted_in(response));
            }
            tracing::debug!("the credentials were refused, the request is sent with renewed ones");
            body::drain(response.into_body());
            let renewed = SentProof(renewed);
            let response = self.send_as_is(message.proved_by(&renewed.0)).await?;
            Ok(renewed.noted_in(response))
        })
        .await
    }

    async fn send_as_is(&self, message: OutgoingMessage) -> Result<Response<ResponseBody>, LinkError> {
        let OutgoingMessage { method, mut headers, body, purpose, with_cookies } = message;
        if with_cookies {
            self.cookies.add_to(&mut headers, &self.url);
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.target.clone();
        *request.headers_mut() = headers;
        let response = self.origin.send(request, purpose).await.map_err(|error| match error {
            SendError::Connect(detail) => LinkError::Connect { detail },
            SendError::Closed(detail) => LinkError::Closed { detail },
        })?;
        if with_cookies {
            self.cookies.keep(response.headers(), &self.url);
        }
        Ok(response)
    }
}

/// Credentials of one request, noted in its response.
#[derive(Clone)]
pub(super) struct SentProof(HeaderMap);

impl SentProof {
    fn noted_in(self, mut response: Response<ResponseBody>) -> Response<ResponseBody> {
        response.extensions_mut().insert(self);
        response
    }
}

/// Values are secret.
impl fmt::Debug for SentProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentProof").finish_non_exhaustive()
    }
}

/// An HTTP request to an endpoint.
struct OutgoingMessage {
    method: Method,
    headers: HeaderMap,
    body: Bytes,
    purpose: Purpose,
    with_cookies: bool,
}

impl OutgoingMessage {
    fn new(method: Method, headers: HeaderMap, body: Bytes, purpose: Purpose) -> Self {
        Self { method, headers, body, purpose, with_cookies: true }
    }

    fn unproved<'a>(&'a self, url: &'a Url) -> UnprovedRequest<'a> {
        UnprovedRequest { method: &self.method, url, headers: &self.headers, body: &self.body }
    }

    /// A copy that carries credentials.
    fn proved_by(&self, proof: &HeaderMap) -> Self {
        let Self { method, headers, body, purpose, with_cookies } = self;
        let headers = with_proof(headers, proof);
        Self {
            method: method.clone(),
            headers,
            body: body.clone(),
            purpose: *purpose,
            with_cookies: *with_cookies,
        }
    }
}

fn uri(url: &Url) -> Result<Uri, LinkError> {
    url.as_str()
        .parse()
        .map_err(|_| LinkError::Connect { detail: "the configured url is unusable".to_owned() })
}

/// True if a response is a stream of server-sent events.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.trim_start().get(..17).is_some_and(|kind| kind.eq_ignore_ascii_case("text/event-stream"))
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(&self.target).finish()
    }
}

/// Returns the headers of a request with those of its credentials, which replace others of their names.
fn with_proof(headers: &HeaderMap, proof: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for (name, value) in proof {
        let mut value = value.clone();
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    headers
}
