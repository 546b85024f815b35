//! Pooled clients for servers behind TLS, and for those behind a proxy.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::TokioTimer;
use rustls::ClientConfig;
use vmcp_config::addresses::ReachableAddresses;
use vmcp_egress::{Proxies, ProxyConnector};

use super::{KEEP_ALIVE_INTERVAL, POOL_IDLE_TIMEOUT, Purpose, guarded_tcp, tcp};

/// Bytes of one HTTP/2 answer that may be on their way unread. A call whose client does not read holds so
/// much of the connection's window, which all calls to that server share.
const STREAM_WINDOW: u32 = 256 * 1024;
/// Bytes of all answers of one HTTP/2 connection that may be on their way unread.
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;

pub(crate) type TlsClient = Client<HttpsConnector<ProxyConnector>, Full<Bytes>>;

/// One client for calls, which share an HTTP/2 connection where the server speaks it, and one for streams
/// that stay open, each of which has an HTTP/1.1 connection of its own.
#[derive(Debug)]
pub(crate) struct TlsClients {
    calls: TlsClient,
    streams: TlsClient,
}

impl TlsClients {
    /// Creates the clients. A server without TLS is reached by them through a proxy only.
    pub(super) fn new(config: &ClientConfig, proxies: &Proxies, addresses: ReachableAddresses) -> Self {
        let connector = ProxyConnector::new(tcp(), config, proxies.clone());
        let connector = connector.guarded_by(guarded_tcp(addresses));
        let builder = || HttpsConnectorBuilder::new().with_tls_config(config.clone()).https_or_http();
        Self {
            calls: client(builder().enable_all_versions().wrap_connector(connector.clone())),
            streams: client(builder().enable_http1().wrap_connector(connector)),
        }
    }

    /// Sends a request. No `async fn`: the client and its connections are compiled here, once, and not in
    /// each crate that polls a call.
    pub(super) fn request(&self, purpose: Purpose, request: Request<Full<Bytes>>) -> ResponseFuture {
        self.client(purpose).request(request)
    }

    fn client(&self, purpose: Purpose) -> &TlsClient {
        match purpose {
            Purpose::Call => &self.calls,
            Purpose::Stream => &self.streams,
        }
    }
}

fn client(connector: HttpsConnector<ProxyConnector>) -> TlsClient {
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::time::Duration;

    use http::{Response, Uri, Version};
    use http_body_util::combinators::BoxBody;
    use http_body_util::{BodyExt as _, StreamBody};
    use hyper::body::{Frame, Incoming};
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use rustls::crypto::ring;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{RootCertStore, ServerConfig};
    use tokio::net::TcpListener;
    use tokio::time::timeout;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// Streams that the server allows on one HTTP/2 connection.
    const ALLOWED: u32 = 2;

    /// A stream at `/stream`, an answer everywhere else.
    async fn answer(request: Request<Incoming>) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
        let body = if request.uri().path() == "/stream" {
            let first = futures::stream::iter([Ok(Frame::data(Bytes::from_static(b":\n\n")))]);
            StreamBody::new(futures::StreamExt::chain(first, futures::stream::pending())).boxed()
        } else {
            Full::new(Bytes::from_static(b"{}")).boxed()
        };
        Ok(Response::new(body))
    }

    /// Serves HTTP/1.1 and HTTP/2 at the returned address; the clients trust it.
    async fn server() -> (String, TlsClients) {
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = signed.cert.der().clone();
        let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let socket = acceptor.accept(socket).await.unwrap();
                    let is_h2 = socket.get_ref().1.alpn_protocol() == Some(b"h2");
                    let (io, service) = (TokioIo::new(socket), service_fn(answer));
                    if is_h2 {
                        let mut h2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                        let _ = h2.max_concurrent_streams(ALLOWED).serve_connection(io, service).await;
                    } else {
                        let _ =
                            hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
                    }
                });
            }
        });
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let trusting = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        (address, TlsClients::new(&trusting, &Proxies::none(), ReachableAddresses::Any))
    }

    #[tokio::test]
    async fn open_streams_leave_the_connection_of_calls_alone() {
        let (address, clients) = server().await;
        let get = async |path: &str, purpose| {
            let uri: Uri = format!("{address}{path}").parse().unwrap();
            let mut request = Request::new(Full::default());
            *request.uri_mut() = uri;
            let response = clients.request(purpose, request);
            timeout(Duration::from_secs(20), response).await.expect("a response in time").unwrap()
        };
        let mut streams = Vec::new();
        for _ in 0..=ALLOWED {
            let stream = get("/stream", Purpose::Stream).await;
            assert_eq!(stream.version(), Version::HTTP_11);
            streams.push(stream);
        }
        let call = get("/", Purpose::Call).await;
        assert_eq!(call.version(), Version::HTTP_2);
        assert_eq!(call.into_body().collect().await.unwrap().to_bytes(), "{}");
    }
}
