//! Pooled connections that end or fall silent, seen from the sockets of a TLS server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::BodyExt as _;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use vmcp_egress::Proxies;

use super::*;
use crate::http_client::{HttpClient, Origin};

/// Behavior of a server after its first answer on a connection.
#[derive(Clone, Copy)]
enum Then {
    /// Closes the socket at once, without `close_notify`.
    Close,
    /// Reads one more request, and closes the socket in place of an answer.
    Vanish,
    /// Reads and never answers.
    Silence,
}

#[derive(Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
}

struct Server {
    origin: Origin,
    url: String,
    counts: Arc<Counts>,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts a server that answers the first request of a connection, after `together` of them have come.
    async fn start(then: Then, together: usize) -> Server {
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![signed.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        let (counts, barrier) = (Arc::new(Counts::default()), Arc::new(Barrier::new(together)));
        let all = Arc::clone(&counts);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, counts, barrier) = (acceptor.clone(), Arc::clone(&all), Arc::clone(&barrier));
                let number = counts.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let Ok(mut socket) = acceptor.accept(socket).await else { return };
                    request(&mut socket, &counts).await;
                    if number < together {
                        barrier.wait().await;
                    }
                    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                    socket.write_all(answer.as_bytes()).await.unwrap();
                    socket.flush().await.unwrap();
                    match then {
                        Then::Close => {}
                        Then::Vanish => request(&mut socket, &counts).await,
                        Then::Silence => {
                            request(&mut socket, &counts).await;
                            std::future::pending::<()>().await;
                        }
                    }
                });
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("ca.crt");
        std::fs::write(&bundle, signed.cert.pem()).unwrap();
        let client = HttpClient::with_proxies(Proxies::none()).with_ca_bundle(Some(&bundle));
        Server { origin: client.origin(&url.parse().unwrap()), url, counts, _folder: folder }
    }

    async fn send(&self) -> Result<Bytes, SendError> {
        let mut request = Request::new(Full::new(Bytes::from_static(b"{}")));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = self.url.parse().unwrap();
        let answer = self.origin.send(request, Purpose::Call).await?;
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        // A task gives the connection back to the pool, or sees that it has ended.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(body)
    }

    fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::SeqCst)
    }

    fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::SeqCst)
    }
}

/// Reads one request with a body of two bytes; ends at the end of the stream too.
async fn request(socket: &mut TlsStream<TcpStream>, counts: &Counts) {
    let mut read = Vec::new();
    loop {
        let mut piece = [0; 1024];
        match socket.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(count) => read.extend_from_slice(&piece[..count]),
        }
        if read.windows(4).position(|end| end == b"\r\n\r\n").is_some_and(|end| read.len() >= end + 6) {
            counts.requests.fetch_add(1, Ordering::SeqCst);
            return;
        }
    }
}

#[tokio::test]
async fn a_connection_that_the_server_closed_while_idle_fails_no_request() {
    let server = Server::start(Then::Close, 1).await;
    for sent in 1..=5 {
        assert_eq!(server.send().await.unwrap(), "{}");
        assert_eq!((server.connections(), server.requests()), (sent, sent));
    }
}

#[tokio::test]
async fn a_request_that_was_written_is_sent_once_though_its_connection_ends() {
    let server = Server::start(Then::Vanish, 1).await;
    assert_eq!(server.send().await.unwrap(), "{}");
    let failed = server.send().await;
    assert!(matches!(failed, Err(SendError::Closed(_))), "{failed:?}");
    assert_eq!((server.connections(), server.requests()), (1, 2), "never a second time");
    assert_eq!(server.send().await.unwrap(), "{}");
}

#[tokio::test]
async fn silence_on_one_connection_closes_those_that_are_as_old() {
    let server = Server::start(Then::Silence, 3).await;
    let first = futures::future::join_all((0..3).map(|_| server.send())).await;
    assert!(first.iter().all(|answer| answer.as_ref().is_ok_and(|body| body == "{}")), "{first:?}");
    assert_eq!(server.connections(), 3);
    let given_up = timeout(MIN_SILENCE * 2, server.send()).await;
    assert!(given_up.is_err(), "the old connections are silent: {given_up:?}");
    let next = timeout(Duration::from_secs(20), server.send()).await.expect("another connection");
    assert_eq!((next.unwrap(), server.connections()), (Bytes::from_static(b"{}"), 4));
}

#[tokio::test]
async fn a_request_given_up_soon_closes_nothing() {
    let server = Server::start(Then::Silence, 1).await;
    let Origin::Pooled(origin) = &server.origin else { unreachable!("a server behind TLS") };
    let before = origin.host.clients().unwrap();
    server.send().await.unwrap();
    assert!(timeout(MIN_SILENCE / 10, server.send()).await.is_err());
    assert!(Arc::ptr_eq(&before, &origin.host.clients().unwrap()), "the pool is the same");
    assert_eq!(server.send().await.unwrap(), "{}");
}
