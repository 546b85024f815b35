//! [`ProxyConnector`]: opens connections, through a proxy where one is to be used.
//! [`http2_connector`]: one for clients that speak HTTP/2 alone.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::Uri;
use http::uri::Authority;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tower::{Service, ServiceExt as _};

use crate::guard::GuardedTcp;
use crate::proxies::Proxies;
use crate::trust::client_tls;

/// Opens connections for HTTP/2, over TLS for `https`.
pub type Http2Connector = HttpsConnector<ProxyConnector>;

/// Interval of TCP keep-alives of [`http2_connector`].
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);

type BoxError = Box<dyn Error + Send + Sync>;
type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Opens TCP connections, through a proxy where [`Proxies`] names one.
#[derive(Clone, Debug)]
pub struct ProxyConnector {
    proxies: Proxies,
    tcp: HttpConnector,
    /// To servers, in place of `tcp`, where their addresses are judged.
    guarded: Option<GuardedTcp>,
    /// To proxies, with TLS if their URL says so.
    to_proxy: HttpsConnector<HttpConnector>,
    /// True if a proxy gets no request to read, only tunnels.
    always_tunnels: bool,
}

/// Returns a connector for a client that speaks HTTP/2 alone, with the proxies of the environment, and the
/// authorities of the system and `authorities`. A server is reached through a proxy by a tunnel, also without
/// TLS: proxies read HTTP/1.1.
pub fn http2_connector(connect_timeout: Duration, authorities: &[CertificateDer<'static>]) -> Http2Connector {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEP_ALIVE_INTERVAL));
    tcp.set_connect_timeout(Some(connect_timeout));
    let tls = client_tls(authorities);
    let mut connector = ProxyConnector::new(tcp, &tls, Proxies::of_environment());
    connector.always_tunnels = true;
    HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http2().wrap_connector(connector)
}

/// A proxy that gave no connection.
#[derive(Debug, thiserror::Error)]
#[error("no connection through the proxy {proxy}")]
pub struct ProxyError {
    /// URL of the proxy, without credentials.
    proxy: String,
    source: BoxError,
}

impl ProxyConnector {
    /// Creates a connector on top of `tcp`; `tls` is for proxies behind TLS, and must name no protocols.
    pub fn new(mut tcp: HttpConnector, tls: &ClientConfig, proxies: Proxies) -> Self {
        // TLS and tunnels sit on top of this connector, so it must not refuse https.
        tcp.enforce_http(false);
        let to_proxy = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
        let to_proxy = to_proxy.enable_http1().wrap_connector(tcp.clone());
        Self { proxies, tcp, guarded: None, to_proxy, always_tunnels: false }
    }

    /// Judges the addresses of servers by `guarded`, also of those behind a proxy. Proxies are reached at any
    /// address.
    #[must_use]
    pub fn guarded_by(self, guarded: GuardedTcp) -> Self {
        Self { guarded: Some(guarded), ..self }
    }

    async fn connect(self, target: Uri) -> Result<ProxiedStream, BoxError> {
        let Some(intercept) = self.proxies.intercept(&target).cloned() else {
            let stream = match &self.guarded {
                Some(guarded) => guarded.connect(target).await?,
                None => self.tcp.oneshot(target).await?,
            };
            let stream = MaybeHttpsStream::Http(stream);
            return Ok(ProxiedStream { stream, is_absolute: false, serves_once: false });
        };
        if let Some(guarded) = &self.guarded {
            guarded.judge_behind_proxy(&target).await?;
        }
        let is_plain = target.scheme_str() == Some("http");
        let is_absolute = is_plain && !is_socks(&intercept) && !self.always_tunnels;
        let proxy = || self.proxies.proxy_for(&target).unwrap_or_default();
        // Tunnels take 443 for a missing port.
        let address = if is_plain && !is_absolute { with_port(&target, 80) } else { target.clone() };
        let stream = through(&intercept, is_absolute, self.to_proxy.clone(), self.tcp.clone(), address);
        let stream = stream.await.map_err(|source| ProxyError { proxy: proxy(), source })?;
        // The proxy resolves the name again for each request, so each request is judged again.
        let serves_once = is_absolute && self.guarded.as_ref().is_some_and(GuardedTcp::refuses);
        Ok(ProxiedStream { stream, is_absolute, serves_once })
    }
}

/// Writes the default port into a URI that leaves it out.
fn with_port(target: &Uri, default: u16) -> Uri {
    let mut parts = target.clone().into_parts();
    if let (None, Some(host)) = (target.port(), target.host()) {
        parts.authority = format!("{host}:{default}").parse::<Authority>().ok();
    }
    Uri::from_parts(parts).unwrap_or_else(|_| target.clone())
}

fn is_socks(intercept: &Intercept) -> bool {
    intercept.uri().scheme_str().is_some_and(|scheme| scheme.starts_with("socks"))
}

/// Opens a connection through a proxy: to the proxy itself if the request names its target, else one behind
/// which the target answers.
async fn through(
    intercept: &Intercept,
    is_absolute: bool,
    to_proxy: HttpsConnector<HttpConnector>,
    tcp: HttpConnector,
    target: Uri,
) -> Result<Stream, BoxError> {
    let proxy = intercept.uri().clone();
    if is_absolute {
        return to_proxy.oneshot(proxy).await;
    }
    if is_socks(intercept) {
        let mut socks = SocksV5::new(proxy, tcp);
        if let Some((user, password)) = intercept.raw_auth() {
            socks = socks.with_auth(user.to_owned(), password.to_owned());
        }
        let stream = socks.oneshot(target).await?;
        return Ok(MaybeHttpsStream::Http(stream));
    }
    let mut tunnel = Tunnel::new(proxy, to_proxy);
    if let Some(authorization) = intercept.basic_auth() {
        tunnel = tunnel.with_auth(authorization.clone());
    }
    Ok(tunnel.oneshot(target).await?)
}

impl Service<Uri> for ProxyConnector {
    type Response = ProxiedStream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<ProxiedStream, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        Box::pin(self.clone().connect(target))
    }
}

/// Time at which a connection was opened: an extra of its metadata.
#[derive(Clone, Copy, Debug)]
pub struct OpenedAt(pub Instant);

/// A connection, direct or through a proxy.
#[derive(Debug)]
pub struct ProxiedStream {
    stream: Stream,
    /// True if requests name their target by an absolute URI.
    is_absolute: bool,
    /// True if the connection carries one request, and leaves the pool.
    serves_once: bool,
}

impl Connection for ProxiedStream {
    fn connected(&self) -> Connected {
        let connected = match &self.stream {
            MaybeHttpsStream::Http(tcp) => tcp.connected(),
            // The protocol of the proxy says nothing about that of the target.
            MaybeHttpsStream::Https(_) => Connected::new(),
        };
        let connected = connected.proxy(self.is_absolute).extra(OpenedAt(Instant::now()));
        if self.serves_once {
            connected.poison();
        }
        connected
    }
}

impl Read for ProxiedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for ProxiedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_tunnel_to_plain_http_names_its_port() {
        for (url, address) in [
            ("http://collector.example/", "collector.example:80"),
            ("http://collector.example:4317/", "collector.example:4317"),
            ("https://collector.example/", "collector.example:443"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let proxy = format!("http://{}", listener.local_addr().unwrap());
            let asked = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = [0; 1024];
                let length = stream.read(&mut head).await.unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                String::from_utf8_lossy(&head[..length]).into_owned()
            });
            let proxies = Proxies::new(&|name| (name == "ALL_PROXY").then(|| proxy.clone()));
            let mut connector = ProxyConnector::new(HttpConnector::new(), &client_tls(&[]), proxies);
            connector.always_tunnels = true;
            let stream = connector.connect(url.parse().unwrap()).await.unwrap();
            assert!(!stream.is_absolute);
            let asked = asked.await.unwrap();
            assert!(asked.starts_with(&format!("CONNECT {address} HTTP/1.1")), "{asked}");
        }
    }
}
