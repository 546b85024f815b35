//! One URL of a backend, with the headers that every request to it carries.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use url::Url;
use vmcp_config::Headers;
use vmcp_error_chain::error_chain;

use crate::http_client::HttpClient;
use crate::request::Principal;
use crate::transport::credentials::Credentials;
use crate::transport::link_error::LinkError;

const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

#[derive(Clone)]
pub(crate) struct Endpoint {
    client: HttpClient,
    uri: Uri,
    credentials: Arc<Credentials>,
}

impl Endpoint {
    pub(super) fn new(client: HttpClient, url: &Url, configured: &Headers) -> Result<Self, LinkError> {
        let mut headers = HeaderMap::with_capacity(configured.len() + 8);
        let agent = concat!("vmcp/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        let credentials = Arc::new(Credentials::configured(headers, configured)?);
        Ok(Self { client, uri: uri(url)?, credentials })
    }

    /// This backend at another of its URLs.
    pub(super) fn at(&self, url: &Url) -> Result<Self, LinkError> {
        Ok(Self { uri: uri(url)?, ..self.clone() })
    }

    /// The headers for a principal, to which a request adds its own.
    pub(super) fn headers(&self, principal: Principal) -> HeaderMap {
        self.credentials.headers(principal).clone()
    }

    pub(super) async fn post(
        &self,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, LinkError> {
        headers.insert(ACCEPT, JSON_OR_EVENTS);
        headers.insert(CONTENT_TYPE, JSON);
        self.send(Method::POST, headers, body).await
    }

    pub(super) async fn get_events(&self, mut headers: HeaderMap) -> Result<Response<Incoming>, LinkError> {
        headers.insert(ACCEPT, EVENTS);
        self.send(Method::GET, headers, Bytes::new()).await
    }

    pub(super) async fn delete(&self, headers: HeaderMap) -> Result<Response<Incoming>, LinkError> {
        self.send(Method::DELETE, headers, Bytes::new()).await
    }

    async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, LinkError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        self.client.send(request).await.map_err(|error| {
            let detail = error_chain(&error);
            if error.is_connect() { LinkError::Connect { detail } } else { LinkError::Closed { detail } }
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
        f.debug_tuple("Endpoint").field(&self.uri).finish()
    }
}
