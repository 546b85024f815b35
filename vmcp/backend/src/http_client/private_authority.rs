//! [`PrivateAuthority`]: the clients of servers whose certificate authority a file holds.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use vmcp_egress::{Proxies, client_tls, read_ca_bundle};

use super::tls::TlsClients;

/// Clients that trust the authorities in a file besides those of the system. The file is read at the first
/// request, and again when a connection failed and its content is another one, as after a rotation.
#[derive(Debug)]
pub(crate) struct PrivateAuthority {
    path: PathBuf,
    proxies: Proxies,
    current: Mutex<Option<Trust>>,
}

#[derive(Debug)]
struct Trust {
    certificates: Vec<CertificateDer<'static>>,
    clients: Arc<TlsClients>,
}

impl PrivateAuthority {
    pub(super) fn new(path: &Path, proxies: Proxies) -> Self {
        Self { path: path.to_owned(), proxies, current: Mutex::new(None) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the clients; the error says why the file cannot be used.
    pub(super) fn clients(&self) -> Result<Arc<TlsClients>, String> {
        let mut current = self.current.lock();
        if let Some(trust) = &*current {
            return Ok(Arc::clone(&trust.clients));
        }
        let certificates = self.read()?;
        let clients = Arc::new(TlsClients::new(&client_tls(&certificates), &self.proxies));
        *current = Some(Trust { certificates, clients: Arc::clone(&clients) });
        Ok(clients)
    }

    /// Forgets the clients after a failed connection if the file has other certificates now.
    pub(super) fn look_again(&self) {
        let Ok(certificates) = self.read() else { return };
        let mut current = self.current.lock();
        if current.as_ref().is_some_and(|trust| trust.certificates != certificates) {
            *current = None;
        }
    }

    fn read(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        read_ca_bundle(&self.path).map_err(|reason| format!("caBundlePath {}: {reason}", self.path.display()))
    }
}
