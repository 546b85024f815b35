//! [`TlsHost`]: the pooled clients of one server, and the authorities that it is trusted by.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use vmcp_config::addresses::ReachableAddresses;
use vmcp_egress::{Proxies, client_tls, read_ca_bundle};

use super::tls::TlsClients;

/// Settings of TLS that trust the system's authorities, made at the first use.
pub(super) type SystemTls = Arc<LazyLock<ClientConfig>>;

/// Returns settings that are made at the first use.
pub(super) fn system_tls() -> SystemTls {
    let config: LazyLock<ClientConfig> = LazyLock::new(|| client_tls(&[]));
    Arc::new(config)
}

/// Authorities that a server is trusted by.
#[derive(Debug)]
pub(super) enum Trust {
    /// The authorities of the system.
    System(SystemTls),
    /// Besides them, the authorities in a file. It is read at the first request, and again when a connection
    /// failed and its content is another one, as after a rotation.
    File(PathBuf),
}

/// The clients of one server. Each server has pools of its own, so that its faults close no connections to
/// others.
#[derive(Debug)]
pub(crate) struct TlsHost {
    trust: Trust,
    proxies: Proxies,
    addresses: ReachableAddresses,
    current: Mutex<Option<Current>>,
}

#[derive(Debug)]
struct Current {
    /// Content of the file, empty without one.
    certificates: Vec<CertificateDer<'static>>,
    config: ClientConfig,
    clients: Arc<TlsClients>,
    /// Time at which the clients were made.
    since: Instant,
}

impl TlsHost {
    pub(super) fn new(trust: Trust, proxies: Proxies, addresses: ReachableAddresses) -> Self {
        Self { trust, proxies, addresses, current: Mutex::new(None) }
    }

    /// The file of authorities, if there is one.
    pub(super) fn ca_bundle(&self) -> Option<&Path> {
        match &self.trust {
            Trust::System(_) => None,
            Trust::File(path) => Some(path),
        }
    }

    /// Returns the clients; the error says why the file cannot be used.
    pub(super) fn clients(&self) -> Result<Arc<TlsClients>, String> {
        let mut current = self.current.lock();
        if let Some(current) = &*current {
            return Ok(Arc::clone(&current.clients));
        }
        let certificates = self.read()?;
        let config = match &self.trust {
            Trust::System(config) => ClientConfig::clone(config),
            Trust::File(_) => client_tls(&certificates),
        };
        let clients = Arc::new(TlsClients::new(&config, &self.proxies, self.addresses));
        let since = Instant::now();
        *current = Some(Current { certificates, config, clients: Arc::clone(&clients), since });
        Ok(clients)
    }

    /// Forgets the clients after a failed connection if the file has other certificates now.
    pub(super) fn look_again(&self) {
        let Ok(certificates) = self.read() else { return };
        let mut current = self.current.lock();
        if current.as_ref().is_some_and(|current| current.certificates != certificates) {
            *current = None;
        }
    }

    /// Closes the idle connections of clients that are older than `then`, and lets new requests open others.
    /// Requests under way keep theirs.
    pub(super) fn drop_connections_before(&self, then: Instant) {
        let mut current = self.current.lock();
        if let Some(current) = current.as_mut().filter(|current| current.since < then) {
            tracing::debug!("idle connections as old as a silent one are closed");
            current.clients = Arc::new(TlsClients::new(&current.config, &self.proxies, self.addresses));
            current.since = Instant::now();
        }
    }

    fn read(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let Some(path) = self.ca_bundle() else { return Ok(Vec::new()) };
        read_ca_bundle(path).map_err(|reason| format!("caBundlePath {}: {reason}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn new_connections_do_not_read_the_file_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let signed = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        std::fs::write(&path, signed.cert.pem()).unwrap();
        let host = TlsHost::new(Trust::File(path.clone()), Proxies::none(), ReachableAddresses::Any);
        let before = host.clients().unwrap();
        std::fs::remove_file(&path).unwrap();
        let later = Instant::now() + Duration::from_mins(1);
        host.drop_connections_before(later);
        let after = host.clients().unwrap();
        assert!(!Arc::ptr_eq(&before, &after), "connections are new");
    }
}
