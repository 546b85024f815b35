//! TLS in front of a server that speaks none.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

/// A proxy that ends TLS and passes the bytes on; stopped when dropped.
pub struct TlsProxy {
    /// Its port on 127.0.0.1.
    pub port: u16,
    task: AbortHandle,
}

impl TlsProxy {
    /// Listens with a certificate and its key, both in PEM, in front of the server at `upstream`.
    pub async fn start(upstream: &str, certificate: &str, key: &str) -> Self {
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate")];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("versions").with_no_client_auth().with_single_cert(chain, key);
        let acceptor = TlsAcceptor::from(Arc::new(config.expect("a key that fits")));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (port, upstream) = (listener.local_addr().expect("an address").port(), upstream.to_owned());
        let serve = async move {
            while let Ok((client, _)) = listener.accept().await {
                let (acceptor, upstream) = (acceptor.clone(), upstream.clone());
                tokio::spawn(async move {
                    // A client that does not trust the certificate, or a server that is down, ends the
                    // connection.
                    if let Ok(mut client) = acceptor.accept(client).await
                        && let Ok(mut server) = TcpStream::connect(upstream).await
                    {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        };
        Self { port, task: tokio::spawn(serve).abort_handle() }
    }
}

impl Drop for TlsProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}
