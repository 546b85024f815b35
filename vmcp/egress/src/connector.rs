//! [`ProxyConnector`]: opens connections, through a proxy where one is to be used.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower::{Service, ServiceExt as _};

use crate::proxies::Proxies;

type BoxError = Box<dyn Error + Send + Sync>;
type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Opens TCP connections, through a proxy where [`Proxies`] names one.
#[derive(Clone, Debug)]
pub struct ProxyConnector {
    proxies: Proxies,
    tcp: HttpConnector,
    /// To proxies, with TLS if their URL says so.
    to_proxy: HttpsConnector<HttpConnector>,
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
        Self { proxies, tcp, to_proxy }
    }

    async fn connect(self, target: Uri) -> Result<ProxiedStream, BoxError> {
        let Some(intercept) = self.proxies.intercept(&target).cloned() else {
            let stream = self.tcp.oneshot(target).await?;
            return Ok(ProxiedStream { stream: MaybeHttpsStream::Http(stream), is_absolute: false });
        };
        let is_absolute = target.scheme_str() == Some("http") && !is_socks(&intercept);
        let proxy = || self.proxies.proxy_for(&target).unwrap_or_default();
        let stream =
            through(&intercept, is_absolute, self.to_proxy.clone(), self.tcp.clone(), target.clone());
        let stream = stream.await.map_err(|source| ProxyError { proxy: proxy(), source })?;
        Ok(ProxiedStream { stream, is_absolute })
    }
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
}

impl Connection for ProxiedStream {
    fn connected(&self) -> Connected {
        let connected = match &self.stream {
            MaybeHttpsStream::Http(tcp) => tcp.connected(),
            // The protocol of the proxy says nothing about that of the target.
            MaybeHttpsStream::Https(_) => Connected::new(),
        };
        connected.proxy(self.is_absolute).extra(OpenedAt(Instant::now()))
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
