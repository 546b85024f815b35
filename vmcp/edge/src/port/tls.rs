//! [`TlsPort`]: TLS of the client port, with the certificate and the authorities of the configuration in
//! force.

use std::sync::Arc;

use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use vmcp_access::identity::client_certificate::ClientCertificate;
use vmcp_config::{Config, Tls};

/// HTTP/2 in the negotiation of protocols (ALPN).
const HTTP2: &[u8] = b"h2";

/// Material of connections: certificate and key of the server, authorities of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Material {
    tls: Tls,
    authorities: Option<String>,
}

/// Accepts TLS connections. Material that cannot be used leaves the last one in force.
pub(super) struct TlsPort(Mutex<Loaded>);

struct Loaded {
    /// The newest, which may be unusable.
    seen: Material,
    used: Arc<ServerConfig>,
    authorities: Option<Arc<str>>,
}

/// A connection after its handshake.
pub(super) struct Accepted {
    pub(super) stream: TlsStream<TcpStream>,
    /// True if the client speaks HTTP/2.
    pub(super) is_http2: bool,
    pub(super) certificate: Option<Arc<ClientCertificate>>,
}

impl Material {
    fn configured(config: &Config) -> Option<Material> {
        let tls = config.server.tls.clone()?;
        Some(Material { tls, authorities: config.incoming_auth.client_authorities.clone() })
    }

    fn load(&self) -> Result<ServerConfig, String> {
        let certificates = certificates(&self.tls.certificate, "server.tls.certificate")?;
        let key = PrivateKeyDer::from_pem_slice(self.tls.key.expose().as_bytes())
            .map_err(|error| format!("server.tls.key: {error}"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match &self.authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates_of_authorities(authorities)? {
                    roots.add(authority).map_err(|error| format!("{AUTHORITIES}: {error}"))?;
                }
                // A client without a certificate may have a token or a key, or gets HTTP 401.
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .allow_unauthenticated()
                    .build()
                    .map_err(|error| format!("{AUTHORITIES}: {error}"))?;
                builder.with_client_cert_verifier(verifier as Arc<dyn ClientCertVerifier>)
            }
        };
        let mut config =
            builder.with_single_cert(certificates, key).map_err(|error| format!("server.tls: {error}"))?;
        config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
        // A resumed session would keep an authority that was withdrawn.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(config)
    }
}

/// Path of the authorities.
const AUTHORITIES: &str = "incomingAuth.clientCertificates.authorities";

fn certificates_of_authorities(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    certificates(pem, AUTHORITIES)
}

fn certificates(pem: &str, path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!("{path}: no certificate")),
        Err(error) => Err(format!("{path}: {error}")),
    }
}

impl TlsPort {
    /// Loads the certificate; `None` if the port has no TLS.
    pub(super) fn new(config: &Config) -> Result<Option<TlsPort>, String> {
        let Some(seen) = Material::configured(config) else { return Ok(None) };
        let used = Arc::new(seen.load()?);
        let authorities = seen.authorities.as_deref().map(Arc::from);
        Ok(Some(TlsPort(Mutex::new(Loaded { seen, used, authorities }))))
    }

    /// Returns what is in force, after a look at the configuration.
    fn current(&self, config: &Config) -> (Arc<ServerConfig>, Option<Arc<str>>) {
        let mut loaded = self.0.lock();
        if let Some(next) = Material::configured(config).filter(|next| *next != loaded.seen) {
            match next.load() {
                Ok(used) => {
                    loaded.used = Arc::new(used);
                    loaded.authorities = next.authorities.as_deref().map(Arc::from);
                    tracing::info!("the certificate of the client port was renewed");
                }
                Err(error) => tracing::error!(error, "the new certificate is not used; the last one stays"),
            }
            loaded.seen = next;
        }
        (Arc::clone(&loaded.used), loaded.authorities.clone())
    }

    /// Makes the handshake of a connection.
    pub(super) async fn accept(&self, stream: TcpStream, config: &Config) -> std::io::Result<Accepted> {
        let (used, authorities) = self.current(config);
        let stream = TlsAcceptor::from(used).accept(stream).await?;
        let (_, session) = stream.get_ref();
        let is_http2 = session.alpn_protocol() == Some(HTTP2);
        let leaf = session.peer_certificates().and_then(|chain| chain.first());
        let certificate = leaf.zip(authorities).and_then(|(leaf, by)| ClientCertificate::read(leaf, by));
        Ok(Accepted { is_http2, certificate: certificate.map(Arc::new), stream })
    }
}
