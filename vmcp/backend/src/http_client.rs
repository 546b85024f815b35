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

/// A connection that has not been used for this long is closed; below the 60 s at which common load balancers do it.
const IDLE: Duration = Duration::from_secs(50);
/// TCP and HTTP/2 keep-alives, so that a peer that vanished without a word is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Time to open one TCP connection; the overall limit is `Settings::connection_timeout`.
const CONNECT: Duration = Duration::from_secs(10);

type Pool<C> = Client<C, Full<Bytes>>;
type TlsPool = Pool<HttpsConnector<HttpConnector>>;

/// A pooled HTTP/1.1 and HTTP/2 client with TLS. Clones share the pool. Redirects are not followed: a backend that
/// moves is a change of configuration, and credentials must not travel to another host.
///
/// The system's certificates are read with the first request over TLS: that takes some milliseconds of every start,
/// which only those shall pay who talk to a backend over TLS.
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
    tcp.set_keepalive(Some(KEEP_ALIVE));
    tcp.set_connect_timeout(Some(CONNECT));
    tcp
}

fn tls_pool() -> TlsPool {
    let mut tcp = tcp();
    // TLS sits on top of this connector, so it must not refuse https.
    tcp.enforce_http(false);
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls()).https_only().enable_all_versions();
    pool(connector.wrap_connector(tcp))
}

/// Runs connections outside of the span in which they happen to be opened: it would be entered whenever one of them moves.
#[derive(Clone, Debug)]
struct Spawn;

impl<F> hyper::rt::Executor<F> for Spawn
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        tokio::spawn(future);
    }
}

fn pool<C: Connect + Clone>(connector: C) -> Pool<C> {
    Client::builder(Spawn)
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .http2_keep_alive_while_idle(false)
        .build(connector)
}

/// The system's certificates know private authorities; an image without any falls back to Mozilla's.
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
