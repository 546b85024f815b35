//! [`RenewedClient`]: a client whose file of certificates is read again after a failure.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use vmcp_config::OidcIssuer;

use super::guarded_http::{ClientTls, FetchError, GuardRules, GuardedClient};

/// A client that is made with the first request, and with the first one after a failure in transport: its
/// file of certificates may have been replaced, or be mounted late.
#[derive(Debug)]
pub(crate) struct RenewedClient {
    rules: GuardRules,
    tls: ClientTls,
    client: Mutex<Option<Arc<GuardedClient>>>,
}

impl RenewedClient {
    pub(crate) fn new(rules: GuardRules, ca_bundle: Option<&Path>) -> Self {
        Self::with_tls(rules, ClientTls::trusting(ca_bundle))
    }

    pub(crate) fn with_tls(rules: GuardRules, tls: ClientTls) -> Self {
        Self { rules, tls, client: Mutex::default() }
    }

    /// Returns the client of an issuer.
    pub(super) fn of_issuer(issuer: &OidcIssuer) -> Self {
        Self::new(GuardRules::of_issuer(issuer), issuer.ca_bundle_path.as_deref())
    }

    /// Returns the client; fails if its files of certificates cannot be read.
    pub(crate) fn get(&self) -> Result<Arc<GuardedClient>, FetchError> {
        let mut client = self.client.lock();
        if let Some(client) = &*client {
            return Ok(Arc::clone(client));
        }
        let made = GuardedClient::with_tls(self.rules, &self.tls)?;
        Ok(Arc::clone(client.insert(Arc::new(made))))
    }

    /// Has the next request make a new client.
    pub(crate) fn forget(&self) {
        *self.client.lock() = None;
    }
}
