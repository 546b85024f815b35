//! Pooled clients for servers behind TLS.

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioTimer;
use rustls::ClientConfig;
use rustls::crypto::ring;

use super::{KEEP_ALIVE_INTERVAL, POOL_IDLE_TIMEOUT, Purpose, tcp};

/// Bytes of one HTTP/2 answer that may be on their way unread. A call whose client does not read holds so
/// much of the connection's window, which all calls to that server share.
const STREAM_WINDOW: u32 = 256 * 1024;
/// Bytes of all answers of one HTTP/2 connection that may be on their way unread.
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;

pub(crate) type TlsClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// One client for calls, which share an HTTP/2 connection where the server speaks it, and one for streams
/// that stay open, each of which has an HTTP/1.1 connection of its own.
#[derive(Debug)]
pub(crate) struct TlsClients {
    calls: TlsClient,
    streams: TlsClient,
}

impl TlsClients {
    pub(super) fn new() -> Self {
        Self::with(&tls())
    }

    fn with(config: &ClientConfig) -> Self {
        let mut tcp = tcp();
        // TLS sits on top of this connector, so it must not refuse https.
        tcp.enforce_http(false);
        let builder = || HttpsConnectorBuilder::new().with_tls_config(config.clone()).https_only();
        Self {
            calls: client(builder().enable_all_versions().wrap_connector(tcp.clone())),
            streams: client(builder().enable_http1().wrap_connector(tcp)),
        }
    }

    pub(super) fn client(&self, purpose: Purpose) -> &TlsClient {
        match purpose {
            Purpose::Call => &self.calls,
            Purpose::Stream => &self.streams,
        }
    }
}

fn client(connector: HttpsConnector<HttpConnector>) -> TlsClient {
    Client::builder(SpanlessExecutor)
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .http2_keep_alive_while_idle(false)
        .build(connector)
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
