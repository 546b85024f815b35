//! The pool of HTTP connections that all backends share.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls::crypto::ring;

/// A connection that has not been used for this long is closed; below the 60 s at which common load balancers do it.
const IDLE: Duration = Duration::from_secs(50);
/// TCP and HTTP/2 keep-alives, so that a peer that vanished without a word is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Time to open one TCP connection; the overall limit is `Settings::connection_timeout`.
const CONNECT: Duration = Duration::from_secs(10);

type Pool = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A pooled HTTP/1.1 and HTTP/2 client with TLS. Clones share the pool. Redirects are not followed: a backend that
/// moves is a change of configuration, and credentials must not travel to another host.
#[derive(Clone, Debug)]
pub struct HttpClient(Pool);

impl Default for HttpClient {
    fn default() -> Self {
        let mut tcp = HttpConnector::new();
        // TLS sits on top of this connector, so it must not refuse https.
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEP_ALIVE));
        tcp.set_connect_timeout(Some(CONNECT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls())
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp);
        let pool = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .http2_keep_alive_while_idle(false)
            .build(connector);
        Self(pool)
    }
}

impl HttpClient {
    pub(crate) async fn send(
        &self,
        request: http::Request<Full<Bytes>>,
    ) -> Result<http::Response<hyper::body::Incoming>, hyper_util::client::legacy::Error> {
        self.0.request(request).await
    }
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
