//! HTTP clients that all backends share: a pool of plain HTTP/1.1 connections for each server, and pooled
//! clients for TLS and HTTP/2.

mod address_guard;
mod driver_waker;
mod frame_pace;
mod head_limit;
mod host_pool;
mod joined_write;
mod plain_connection;
mod pooled_origin;
mod response_body;
mod tls;
mod tls_host;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::connect::HttpConnector;
use parking_lot::Mutex;
use url::Url;
use vmcp_config::addresses::ReachableAddresses;
use vmcp_egress::{GuardedTcp, Proxies};

use crate::http_client::address_guard::guard_of;
use crate::http_client::host_pool::HostPool;
use crate::http_client::pooled_origin::PooledOrigin;
use crate::http_client::tls_host::{SystemTls, TlsHost, Trust, system_tls};

pub use crate::http_client::joined_write::write_joined;
pub(crate) use crate::http_client::response_body::ResponseBody;

/// Idle time after which a pooled connection is closed; below the 60 s at which common load balancers do it.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(50);
/// Interval of TCP and HTTP/2 keep-alives, which notice a peer that vanished without closing.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// Time without an answer after which a request that is given up says something about its connection.
const MIN_SILENCE: Duration = Duration::from_millis(500);
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
    /// The pools of plain connections, as long as an [`Origin`] uses them.
    hosts: Arc<Mutex<HashMap<HostKey, Weak<HostPool>>>>,
    tls: SystemTls,
    /// The pooled clients, as long as an [`Origin`] uses them.
    tls_hosts: Arc<Mutex<HashMap<TlsHostKey, Weak<TlsHost>>>>,
    /// File of authorities that servers of this handle are trusted by, besides those of the system.
    ca_bundle: Option<Arc<Path>>,
    /// Addresses that hosts of servers of this handle may have.
    addresses: ReachableAddresses,
    proxies: Proxies,
}

/// Host and port of a server, and the addresses that it may have: a connection to another address serves no
/// handle that may not have opened it.
type HostKey = (String, ReachableAddresses);

/// True for TLS, the server, and the file of authorities that it is trusted by.
type TlsHostKey = (bool, HostKey, Option<Arc<Path>>);

/// The server of a URL, and the connections to it.
#[derive(Clone)]
pub(crate) enum Origin {
    Plain(Arc<HostPool>),
    /// Behind TLS, or behind a proxy.
    Pooled(PooledOrigin),
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
        let (hosts, tls_hosts, addresses) = (Arc::default(), Arc::default(), ReachableAddresses::Any);
        Self { hosts, tls: system_tls(), tls_hosts, ca_bundle: None, addresses, proxies }
    }

    /// Returns a handle for a server that is trusted by the authorities in a file too.
    #[must_use]
    pub fn with_ca_bundle(&self, ca_bundle: Option<&Path>) -> Self {
        Self { ca_bundle: ca_bundle.map(Arc::from), ..self.clone() }
    }

    /// Returns a handle for a server whose host may have these addresses, judged at each connection.
    #[must_use]
    pub fn with_addresses(&self, addresses: ReachableAddresses) -> Self {
        Self { addresses, ..self.clone() }
    }

    /// Returns the proxy that requests to a URL go through, without credentials.
    pub(crate) fn proxy_for(&self, url: &Url) -> Option<String> {
        self.proxies.proxy_for_url(&http_address(url))
    }

    /// The origin of a server whose connections become websockets. Each handshake gets an HTTP/1.1 connection
    /// of its own, which no other request uses.
    pub(crate) fn websocket_origin(&self, uri: &Uri) -> Origin {
        let proxy = self.proxies.proxy_for(uri).map(Arc::from);
        self.pooled(uri, proxy)
    }

    fn pooled(&self, uri: &Uri, proxy: Option<Arc<str>>) -> Origin {
        let proxy_authorization = self.proxies.authorization_for(uri);
        Origin::Pooled(PooledOrigin::new(self.tls_host(uri), proxy, proxy_authorization))
    }

    /// The origin of an absolute `http` or `https` URI.
    pub(crate) fn origin(&self, uri: &Uri) -> Origin {
        let proxy = self.proxies.proxy_for(uri).map(Arc::from);
        if uri.scheme_str() == Some("https") || proxy.is_some() {
            return self.pooled(uri, proxy);
        }
        let key = (host(uri), self.addresses);
        let mut hosts = self.hosts.lock();
        if let Some(pool) = hosts.get(&key).and_then(Weak::upgrade) {
            return Origin::Plain(pool);
        }
        hosts.retain(|_, pool| pool.strong_count() > 0);
        let pool = HostPool::new(guarded_tcp(self.addresses), uri.clone());
        hosts.insert(key, Arc::downgrade(&pool));
        Origin::Plain(pool)
    }

    fn tls_host(&self, uri: &Uri) -> Arc<TlsHost> {
        let key = (uri.scheme_str() == Some("https"), (host(uri), self.addresses), self.ca_bundle.clone());
        let mut hosts = self.tls_hosts.lock();
        if let Some(host) = hosts.get(&key).and_then(Weak::upgrade) {
            return host;
        }
        hosts.retain(|_, host| host.strong_count() > 0);
        let trust = match &self.ca_bundle {
            Some(path) => Trust::File(path.to_path_buf()),
            None => Trust::System(Arc::clone(&self.tls)),
        };
        let host = Arc::new(TlsHost::new(trust, self.proxies.clone(), self.addresses));
        hosts.insert(key, Arc::downgrade(&host));
        host
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
            Self::Plain(pool) => Ok(HostPool::send(pool, request).await?.map(ResponseBody::plain)),
            Self::Pooled(origin) => origin.send(request, purpose).await,
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

/// Returns the address to which the handshake of a websocket goes: `http` for `ws`, `https` for `wss`. Other
/// addresses stay as they are.
pub(crate) fn http_address(url: &Url) -> Cow<'_, Url> {
    let scheme = match url.scheme() {
        "ws" => "http",
        "wss" => "https",
        _ => return Cow::Borrowed(url),
    };
    let mut url = url.clone();
    // Cannot fail: all four are schemes of the web, between which the URL standard allows a change.
    let _ = url.set_scheme(scheme);
    Cow::Owned(url)
}

/// Host and port as the `Host` header has them: without user information, and without the default port.
fn host(uri: &Uri) -> String {
    let name = uri.host().unwrap_or_default();
    match uri.port_u16().filter(|port| *port != 80) {
        Some(port) => format!("{name}:{port}"),
        None => name.to_owned(),
    }
}

/// Returns the connector to proxies.
fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    set_options(&mut tcp);
    tcp
}

/// Returns the connector to servers.
fn guarded_tcp(addresses: ReachableAddresses) -> GuardedTcp {
    GuardedTcp::new(guard_of(addresses), set_options)
}

fn set_options<R>(tcp: &mut HttpConnector<R>) {
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEP_ALIVE_INTERVAL));
    tcp.set_connect_timeout(Some(TCP_CONNECT_TIMEOUT));
}
