//! [`PooledOrigin`]: a server behind TLS or behind a proxy, and the pooled connections to it.
//!
//! A request that hyper could not begin to write, because the server had closed the idle connection, is sent
//! again by the pool. A request that was written may have been executed, and is not sent again.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::PROXY_AUTHORIZATION;
use http::{Extensions, HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper_util::client::legacy::Error;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use vmcp_egress::OpenedAt;
use vmcp_error_chain::error_chain;

use super::response_body::ResponseBody;
use super::tls_host::TlsHost;
use super::{MIN_SILENCE, Purpose, SendError};

/// A server that pooled clients reach.
#[derive(Clone)]
pub(crate) struct PooledOrigin {
    host: Arc<TlsHost>,
    /// The proxy in between, without credentials.
    proxy: Option<Arc<str>>,
    /// Credentials for a proxy that reads each request.
    proxy_authorization: Option<HeaderValue>,
}

impl PooledOrigin {
    pub(super) fn new(
        host: Arc<TlsHost>,
        proxy: Option<Arc<str>>,
        proxy_authorization: Option<HeaderValue>,
    ) -> Self {
        Self { host, proxy, proxy_authorization }
    }

    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        purpose: Purpose,
    ) -> Result<Response<ResponseBody>, SendError> {
        if let Some(authorization) = &self.proxy_authorization {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        let clients = self.host.clients().map_err(SendError::Connect)?;
        let mut silence = SilenceWatch {
            host: &self.host,
            since: Instant::now(),
            connection: capture_connection(&mut request),
            answered: false,
        };
        let response = clients.request(purpose, request).await;
        silence.answered = true;
        if response.as_ref().is_err_and(Error::is_connect) {
            self.host.look_again();
        }
        match response {
            Ok(response) => match &self.proxy {
                // Only a proxy asks for these, and it did not pass the request on.
                Some(proxy) if response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                    Err(SendError::Connect(format!(
                        "the proxy {proxy} wants other credentials (HTTP status 407)"
                    )))
                }
                _ => Ok(response.map(ResponseBody::pooled)),
            },
            Err(error) => {
                let detail = error_chain(&error);
                Err(if error.is_connect() {
                    SendError::Connect(self.with_remedy(detail))
                } else {
                    SendError::Closed(detail)
                })
            }
        }
    }

    /// Adds the settings to the error of a server whose authority is unknown.
    fn with_remedy(&self, detail: String) -> String {
        // Two authorities of one name differ in their signatures.
        if !["UnknownIssuer", "BadSignature"].iter().any(|fault| detail.contains(fault)) {
            return detail;
        }
        match self.host.ca_bundle() {
            None => format!(
                "{detail}; if the server has a private authority, name its certificate by `caBundlePath` of the backend, or by SSL_CERT_FILE for all"
            ),
            Some(path) => format!("{detail}; caBundlePath {} does not hold its authority", path.display()),
        }
    }
}

/// Watches a request for silence on a connection that is older than the request. A firewall drops idle
/// connections silently and all at once; each of them would cost a call its whole time limit.
struct SilenceWatch<'a> {
    host: &'a TlsHost,
    since: Instant,
    connection: CaptureConnection,
    answered: bool,
}

impl SilenceWatch<'_> {
    fn is_on_older_connection(&self) -> bool {
        let mut extras = Extensions::new();
        if let Some(connected) = &*self.connection.connection_metadata() {
            connected.get_extras(&mut extras);
        }
        extras.get::<OpenedAt>().is_some_and(|opened| opened.0 < self.since)
    }
}

impl Drop for SilenceWatch<'_> {
    /// Given up without an answer, the request casts doubt on all connections that were there when it began.
    fn drop(&mut self) {
        if !self.answered && self.since.elapsed() >= MIN_SILENCE && self.is_on_older_connection() {
            self.host.drop_connections_before(self.since);
        }
    }
}

#[cfg(test)]
mod tests;
