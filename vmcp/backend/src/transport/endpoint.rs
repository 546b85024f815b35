//! One URL of a backend, with the headers that every request to it carries.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, Uri};
use http_body_util::Full;
use url::Url;
use vmcp_config::Headers;

use crate::http_client::{HttpClient, Origin, Purpose, ResponseBody, SendError};
use crate::request::Principal;
use crate::transport::credentials::Credentials;
use crate::transport::link_error::LinkError;

const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

#[derive(Clone)]
pub(crate) struct Endpoint {
    client: HttpClient,
    origin: Origin,
    /// The request target.
    target: Uri,
    credentials: Arc<Credentials>,
}

impl Endpoint {
    pub(super) fn new(client: HttpClient, url: &Url, configured: &Headers) -> Result<Self, LinkError> {
        let mut headers = HeaderMap::with_capacity(configured.len() + 8);
        let agent = concat!("vmcp/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        let origin = client.origin(&uri(url)?);
        let (target, host) = origin.target(uri(url)?);
        if let Some(host) = host {
            // A configured `Host` replaces this one.
            headers.insert(HOST, host);
        }
        let credentials = Arc::new(Credentials::configured(headers, configured)?);
        Ok(Self { client, origin, target, credentials })
    }

    /// This backend at another of its URLs of the same origin.
    pub(super) fn at(&self, url: &Url) -> Result<Self, LinkError> {
        let origin = self.client.origin(&uri(url)?);
        let (target, _) = origin.target(uri(url)?);
        Ok(Self { origin, target, ..self.clone() })
    }

    /// The headers for a principal, to which a request adds its own.
    pub(super) fn headers(&self, principal: Principal) -> HeaderMap {
        self.credentials.headers(principal).clone()
    }

    /// The headers of a principal's messages.
    pub(super) fn post_headers(&self, principal: Principal) -> HeaderMap {
        let mut headers = self.headers(principal);
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
        self.send(Method::POST, headers, body, purpose).await
    }

    /// Opens a stream of server-sent events.
    pub(super) async fn get_events(
        &self,
        mut headers: HeaderMap,
    ) -> Result<Response<ResponseBody>, LinkError> {
        headers.insert(ACCEPT, EVENTS);
        self.send(Method::GET, headers, Bytes::new(), Purpose::Stream).await
    }

    pub(super) async fn delete(&self, headers: HeaderMap) -> Result<Response<ResponseBody>, LinkError> {
        self.send(Method::DELETE, headers, Bytes::new(), Purpose::Call).await
    }

    async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
        purpose: Purpose,
    ) -> Result<Response<ResponseBody>, LinkError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.target.clone();
        *request.headers_mut() = headers;
        self.origin.send(request, purpose).await.map_err(|error| match error {
            SendError::Connect(detail) => LinkError::Connect { detail },
            SendError::Closed(detail) => LinkError::Closed { detail },
        })
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
