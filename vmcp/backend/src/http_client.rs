//! The pool of HTTP connections that all backends share.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioTimer;
use rustls::ClientConfig;
use rustls::crypto::ring;

/// Idle time after which a pooled connection is closed; below the 60 s at which common load balancers do it.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(50);
/// Interval of TCP and HTTP/2 keep-alives, which notice a peer that vanished without closing.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// Time to open one TCP connection;
/// [`BackendSettings::connection_timeout`](crate::BackendSettings::connection_timeout) is the overall limit.
const TCP_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

type Pool<C> = Client<C, Full<Bytes>>;
type TlsPool = Pool<HttpsConnector<HttpConnector>>;

/// A pooled HTTP/1.1 and HTTP/2 client with TLS. Clones share the pool. Redirects are not followed: a backend
/// that moves is a change of configuration, and credentials must not travel to another host.
///
/// The system's certificates are read at the first request over TLS: reading takes milliseconds of a start,
/// which a process without TLS backends need not pay.
#[derive(Clone, Debug)]
pub struct HttpClient {
    plain: Pool<HttpConnector>,
    tls: Arc<LazyLock<TlsPool>>,
}

impl Default for HttpClient {
    fn default() -> Self {
        Self { plain: pool(tcp()), tls: Arc::new(LazyLock::new(tls_pool)) }
    }
}

impl HttpClient {
    pub(crate) async fn send(
        &self,
        request: http::Request<Full<Bytes>>,
    ) -> Result<http::Response<hyper::body::Incoming>, hyper_util::client::legacy::Error> {
        match request.uri().scheme_str() {
            Some("https") => self.tls.request(request).await,
            _ => self.plain.request(request).await,
        }
    }
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEP_ALIVE_INTERVAL));
    tcp.set_connect_timeout(Some(TCP_CONNECT_TIMEOUT));
    tcp
}

fn tls_pool() -> TlsPool {
    let mut tcp = tcp();
    // TLS sits on top of this connector, so it must not refuse https.
    tcp.enforce_http(false);
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls()).https_only().enable_all_versions();
    pool(connector.wrap_connector(tcp))
}

/// Spawns connection tasks outside the current span: each poll of a task would enter the span of the call
/// that happened to open the connection.
#[derive(Clone, Debug)]
struct SpanlessExecutor;

impl<F> hyper::rt::Executor<F> for SpanlessExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        tokio::spawn(future);
    }
}

fn pool<C: Connect + Clone>(connector: C) -> Pool<C> {
    Client::builder(SpanlessExecutor)
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .http2_keep_alive_while_idle(false)
        .build(connector)
}

/// TLS configuration with the system's certificates, which know private authorities; an image without any
/// falls back to Mozilla's.
fn tls() -> ClientConfig {
    #[expect(clippy::expect_used, reason = "ring implements the default versions; it depends on no input")]
    let builder = || {
        ClientConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("ring speaks TLS 1.2 and 1.3")
    };
    let native = builder().with_native_roots().inspect_err(|error| {
        tracing::debug!(%error, "no system certificates, using the built-in ones");
    });
    native.unwrap_or_else(|_| builder().with_webpki_roots()).with_no_client_auth()
}
