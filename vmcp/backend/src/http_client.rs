//! HTTP clients that all backends share: a pool of plain HTTP/1.1 connections for each server, and pooled
//! clients for TLS and HTTP/2.

mod driver_waker;
mod frame_pace;
mod head_limit;
mod host_pool;
mod plain_connection;
mod private_authority;
mod response_body;
mod tls;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::header::PROXY_AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::Error;
use hyper_util::client::legacy::connect::HttpConnector;
use parking_lot::Mutex;
use url::Url;
use vmcp_egress::{Proxies, client_tls};
use vmcp_error_chain::error_chain;

use crate::http_client::host_pool::HostPool;
use crate::http_client::private_authority::PrivateAuthority;
use crate::http_client::tls::TlsClients;

pub(crate) use crate::http_client::response_body::ResponseBody;

/// Idle time after which a pooled connection is closed; below the 60 s at which common load balancers do it.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(50);
/// Interval of TCP and HTTP/2 keep-alives, which notice a peer that vanished without closing.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// Time to open one TCP connection;
/// [`BackendSettings::connection_timeout`](crate::BackendSettings::connection_timeout) is the overall limit.
const TCP_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The HTTP connections of all backends. Clones share them. Redirects are not followed: a backend that moves
/// is a change of configuration, and credentials must not travel to another host.
///
/// The system's certificates are read at the first request over TLS: reading takes milliseconds of a start,
/// which a process without TLS backends need not pay.
#[derive(Clone, Debug)]
pub struct HttpClient {
    /// The pools of plain connections by host and port, as long as an [`Origin`] uses them.
    hosts: Arc<Mutex<HashMap<String, Weak<HostPool>>>>,
    tls: SharedTls,
    /// The clients of private authorities by the file that holds them, as long as an [`Origin`] uses them.
    authorities: Arc<Mutex<HashMap<PathBuf, Weak<PrivateAuthority>>>>,
    /// File of authorities that servers of this handle are trusted by, besides those of the system.
    ca_bundle: Option<Arc<Path>>,
    proxies: Proxies,
}

/// The clients of servers whose authorities the system trusts, made at the first use.
type SharedTls = Arc<LazyLock<TlsClients, Box<dyn FnOnce() -> TlsClients + Send>>>;

/// The server of a URL, and the connections to it.
#[derive(Clone)]
pub(crate) enum Origin {
    Plain(Arc<HostPool>),
    /// Behind TLS, or behind a proxy.
    Pooled(PooledOrigin),
}

/// A server that pooled clients reach.
#[derive(Clone)]
pub(crate) struct PooledOrigin {
    clients: PooledClients,
    /// The proxy in between, without credentials.
    proxy: Option<Arc<str>>,
    /// Credentials for a proxy that reads each request.
    proxy_authorization: Option<HeaderValue>,
}

#[derive(Clone)]
enum PooledClients {
    Shared(SharedTls),
    Private(Arc<PrivateAuthority>),
}

/// The use of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A request that is answered and over.
    Call,
    /// A stream that stays open. It must not hold one of the few streams that a server allows on the HTTP/2
    /// connection of all calls, so it gets an HTTP/1.1 connection of its own.
    Stream,
}

/// The reason why a request has no response.
#[derive(Debug)]
pub(crate) enum SendError {
    /// There is no connection; nothing was sent.
    Connect(String),
    /// The connection ended before the response.
    Closed(String),
}

impl Default for HttpClient {
    fn default() -> Self {
        Self::with_proxies(Proxies::of_environment())
    }
}

impl HttpClient {
    /// Makes a client that reaches servers through these proxies.
    pub fn with_proxies(proxies: Proxies) -> Self {
        let of_clients = proxies.clone();
        let tls: Box<dyn FnOnce() -> TlsClients + Send> =
            Box::new(move || TlsClients::new(&client_tls(&[]), &of_clients));
        Self {
            hosts: Arc::default(),
            tls: Arc::new(LazyLock::new(tls)),
            authorities: Arc::default(),
            ca_bundle: None,
            proxies,
        }
    }

    /// Returns a handle for a server that is trusted by the authorities in a file too.
    #[must_use]
    pub fn with_ca_bundle(&self, ca_bundle: Option<&Path>) -> Self {
        Self { ca_bundle: ca_bundle.map(Arc::from), ..self.clone() }
    }

    /// Returns the proxy that requests to a URL go through, without credentials.
    pub(crate) fn proxy_for(&self, url: &Url) -> Option<String> {
        self.proxies.proxy_for_url(url)
    }

    /// The origin of an absolute `http` or `https` URI.
    pub(crate) fn origin(&self, uri: &Uri) -> Origin {
        let proxy = self.proxies.proxy_for(uri).map(Arc::from);
        if uri.scheme_str() == Some("https") || proxy.is_some() {
            let clients = match &self.ca_bundle {
                Some(path) => PooledClients::Private(self.authority(path)),
                None => PooledClients::Shared(Arc::clone(&self.tls)),
            };
            let proxy_authorization = self.proxies.authorization_for(uri);
            return Origin::Pooled(PooledOrigin { clients, proxy, proxy_authorization });
        }
        let host = host(uri);
        let mut hosts = self.hosts.lock();
        if let Some(pool) = hosts.get(&host).and_then(Weak::upgrade) {
            return Origin::Plain(pool);
        }
        hosts.retain(|_, pool| pool.strong_count() > 0);
        let pool = HostPool::new(tcp(), uri.clone());
        hosts.insert(host, Arc::downgrade(&pool));
        Origin::Plain(pool)
    }

    fn authority(&self, path: &Path) -> Arc<PrivateAuthority> {
        let mut authorities = self.authorities.lock();
        if let Some(authority) = authorities.get(path).and_then(Weak::upgrade) {
            return authority;
        }
        authorities.retain(|_, authority| authority.strong_count() > 0);
        let authority = Arc::new(PrivateAuthority::new(path, self.proxies.clone()));
        authorities.insert(path.to_owned(), Arc::downgrade(&authority));
        authority
    }
}

impl Origin {
    /// The request target for `uri`, and the `Host` header that belongs to it; a pooled client writes both by
    /// itself.
    pub(crate) fn target(&self, uri: Uri) -> (Uri, Option<HeaderValue>) {
        match self {
            Self::Plain(_) => {
                let header = HeaderValue::try_from(host(&uri)).ok();
                let path = uri.into_parts().path_and_query.map(Uri::from);
                (path.unwrap_or_else(|| Uri::from_static("/")), header)
            }
            Self::Pooled(_) => (uri, None),
        }
    }

    /// Sends a request whose URI is a [`Origin::target`]. Dropping the response's body before its end closes
    /// the connection, or the stream of an HTTP/2 connection.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        purpose: Purpose,
    ) -> Result<Response<ResponseBody>, SendError> {
        match self {
            Self::Plain(pool) => HostPool::send(pool, request).await,
            Self::Pooled(origin) => origin.send(request, purpose).await,
        }
    }
}

impl PooledOrigin {
    async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        purpose: Purpose,
    ) -> Result<Response<ResponseBody>, SendError> {
        if let Some(authorization) = &self.proxy_authorization {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        let response = match &self.clients {
            PooledClients::Shared(clients) => clients.client(purpose).request(request).await,
            PooledClients::Private(authority) => {
                let clients = authority.clients().map_err(SendError::Connect)?;
                let response = clients.client(purpose).request(request).await;
                if response.as_ref().is_err_and(Error::is_connect) {
                    authority.look_again();
                }
                response
            }
        };
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
        match &self.clients {
            PooledClients::Shared(_) => format!(
                "{detail}; if the server has a private authority, name its certificate by `caBundlePath` of the backend, or by SSL_CERT_FILE for all"
            ),
            PooledClients::Private(authority) => {
                format!("{detail}; caBundlePath {} does not hold its authority", authority.path().display())
            }
        }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Pooled(_) => "Pooled",
        })
    }
}

/// Host and port as the `Host` header has them: without user information, and without the default port.
fn host(uri: &Uri) -> String {
    let name = uri.host().unwrap_or_default();
    match uri.port_u16().filter(|port| *port != 80) {
        Some(port) => format!("{name}:{port}"),
        None => name.to_owned(),
    }
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEP_ALIVE_INTERVAL));
    tcp.set_connect_timeout(Some(TCP_CONNECT_TIMEOUT));
    tcp
}
