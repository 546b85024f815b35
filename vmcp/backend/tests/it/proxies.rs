//! Backends behind a proxy, and behind a certificate authority of their own.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use vmcp_backend::{Backend, BackendSettings, BackendState, HttpClient};
use vmcp_config::addresses::ReachableAddresses;
use vmcp_config::{Headers, Transport};
use vmcp_egress::Proxies;

use crate::support::scripts::{echo, legacy, modern};
use crate::support::server::Server;
use crate::support::{call, eventually, settings, spec, wait_for_definitions, wait_for_state};

/// An HTTP proxy that knows one server, whatever name a request has.
struct Proxy {
    address: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// `refusal` is answered in place of passing requests on.
    async fn start(server: &str, refusal: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (log, server) = (Arc::clone(&heads), server.to_owned());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass_on(client, server.clone(), Arc::clone(&log), refusal));
            }
        });
        Self { address, heads }
    }

    fn settings(&self, credentials: &str) -> BackendSettings {
        let proxy = format!("http://{credentials}{}", self.address);
        let proxies = Proxies::new(&|name| (name == "ALL_PROXY").then(|| proxy.clone()));
        BackendSettings { http: HttpClient::with_proxies(proxies), ..settings() }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn pass_on(mut client: TcpStream, server: String, log: Arc<Mutex<Vec<String>>>, refusal: Option<&str>) {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        if client.read_buf(&mut bytes).await.unwrap() == 0 {
            return;
        }
    }
    let head = String::from_utf8_lossy(&bytes).into_owned();
    log.lock().unwrap().push(head.clone());
    if let Some(refusal) = refusal {
        client.write_all(refusal.as_bytes()).await.unwrap();
        return;
    }
    let mut server = TcpStream::connect(server).await.unwrap();
    if head.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    } else {
        server.write_all(&bytes).await.unwrap();
    }
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

fn at(url: &str) -> Transport {
    Transport::Http { url: url.parse().unwrap(), headers: Headers::new() }
}

#[tokio::test]
async fn a_name_that_only_the_proxy_knows_is_reached_in_both_eras() {
    for server in [Server::start(modern(echo)).await, Server::start(legacy(echo)).await] {
        let proxy = Proxy::start(server.address(), None).await;
        let backend =
            Backend::start(spec("b", at("http://tools.invalid/mcp")), proxy.settings("me:p%40ss@"), None);
        wait_for_definitions(&backend, |found| found.tools[0].name == "echo").await;
        call(&backend, "echo").await.unwrap();
        let status = backend.status();
        assert_eq!(status.proxy, Some(format!("http://{}", proxy.address)));
        backend.stop().await;
        for head in proxy.heads() {
            assert!(head.contains(" http://tools.invalid/mcp HTTP/1.1\r\n"), "{head}");
            assert!(head.contains("\r\nproxy-authorization: Basic bWU6cEBzcw==\r\n"), "{head}");
            assert!(head.to_lowercase().contains("\r\nhost: tools.invalid\r\n"), "{head}");
        }
    }
}

#[tokio::test]
async fn each_request_of_a_guarded_backend_is_judged_before_the_proxy_resolves_its_host() {
    let server = Server::start(modern(echo)).await;
    let proxy = Proxy::start(server.address(), None).await;
    let addresses = ReachableAddresses::Public;
    let guarded = vmcp_config::Backend { addresses, ..spec("b", at("http://8.8.8.8/mcp")) };
    let backend = Backend::start(guarded, proxy.settings(""), None);
    wait_for_definitions(&backend, |found| found.tools[0].name == "echo").await;
    for _ in 0..3 {
        call(&backend, "echo").await.unwrap();
    }
    // The proxy records the first request of each connection.
    let has_one_each = || (proxy.heads().len() == server.seen().len()).then_some(());
    eventually("a connection for each request", has_one_each).await;
    backend.stop().await;
}

#[tokio::test]
async fn loopback_addresses_are_never_proxied() {
    let server = Server::start(modern(echo)).await;
    let proxy = Proxy::start("127.0.0.1:1", None).await;
    let backend = Backend::start(spec("b", server.transport()), proxy.settings(""), None);
    wait_for_definitions(&backend, |found| found.tools[0].name == "echo").await;
    assert_eq!((backend.status().proxy, proxy.heads().len()), (None, 0));
    backend.stop().await;
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_without_its_credentials() {
    let refusal =
        "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    for url in ["http://tools.invalid/mcp", "https://tools.invalid/mcp"] {
        let proxy = Proxy::start("127.0.0.1:1", Some(refusal)).await;
        let backend = Backend::start(spec("b", at(url)), proxy.settings("me:hunter2@"), None);
        let error = wait_for_state(&backend, BackendState::Failed).await.last_error.unwrap();
        assert!(error.contains(&format!("the proxy http://{}", proxy.address)), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
        let head = proxy.heads()[0].clone();
        if url.starts_with("https") {
            assert!(head.starts_with("CONNECT tools.invalid:443 HTTP/1.1\r\n"), "{head}");
        }
        assert!(head.to_lowercase().contains("proxy-authorization: basic "), "{head}");
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_private_authority_is_trusted_by_its_backend_alone_also_through_a_proxy() {
    let server = Server::start(modern(echo)).await;
    let dir = tempfile::tempdir().unwrap();
    let (tls, pem) = behind_tls(server.address()).await;
    let path = dir.path().join("ca.pem");
    let url = format!("https://localhost:{}/mcp", tls.port());
    let trusting = || vmcp_config::Backend { ca_bundle_path: Some(path.clone()), ..spec("b", at(&url)) };

    let without = Backend::start(spec("b", at(&url)), settings(), None);
    let error = wait_for_state(&without, BackendState::Failed).await.last_error.unwrap();
    assert!(error.contains("caBundlePath") && error.contains("SSL_CERT_FILE"), "{error}");
    without.stop().await;

    let missing = Backend::start(trusting(), settings(), None);
    let error = wait_for_state(&missing, BackendState::Failed).await.last_error.unwrap();
    assert!(error.contains("caBundlePath") && error.contains("ca.pem"), "{error}");
    missing.stop().await;

    // Another authority at first; the file is read again after the failure.
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&path, other.cert.pem()).unwrap();
    let often = std::time::Duration::from_millis(50);
    let backend =
        Backend::start(trusting(), BackendSettings { retry_failed_every: often, ..settings() }, None);
    let error = wait_for_state(&backend, BackendState::Failed).await.last_error.unwrap();
    assert!(error.contains("does not hold its authority"), "{error}");
    std::fs::write(&path, &pem).unwrap();
    wait_for_definitions(&backend, |found| found.tools[0].name == "echo").await;
    backend.stop().await;

    let proxy = Proxy::start(&tls.to_string(), None).await;
    let far = vmcp_config::Backend { transport: at("https://tools.invalid/mcp"), ..trusting() };
    let backend = Backend::start(far, proxy.settings(""), None);
    wait_for_definitions(&backend, |found| found.tools[0].name == "echo").await;
    assert!(proxy.heads().iter().all(|head| head.starts_with("CONNECT tools.invalid:443 ")));
    backend.stop().await;
}

/// Puts TLS in front of a server; returns the address and the certificate, which names `localhost` and
/// `tools.invalid`.
pub(crate) async fn behind_tls(server: &str) -> (std::net::SocketAddr, String) {
    use rustls::pki_types::PrivateKeyDer;
    let names = ["localhost".to_owned(), "tools.invalid".to_owned()];
    let signed = rcgen::generate_simple_self_signed(names).unwrap();
    let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = server.to_owned();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, server) = (acceptor.clone(), server.clone());
            tokio::spawn(async move {
                let Ok(mut tls) = acceptor.accept(socket).await else { return };
                let mut server = TcpStream::connect(server).await.unwrap();
                let _ = copy_bidirectional(&mut tls, &mut server).await;
            });
        }
    });
    (address, signed.cert.pem())
}
