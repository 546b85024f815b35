//! [`RenewedClient`]: a client that follows its files of certificates.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use vmcp_config::OidcIssuer;

use super::guarded_http::{ClientTls, FetchError, GuardRules, GuardedClient, TlsFiles};

/// Least time between two looks at the files of a client: a rotated certificate is in use 10 seconds after
/// its file at the latest. Requests under way keep the client that they began with.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// A client that is made with the first request, and again when its files of certificates have other content.
/// A failure in transport makes a look at the files due.
pub(crate) struct RenewedClient {
    rules: GuardRules,
    tls: ClientTls,
    made: Mutex<Option<MadeClient>>,
}

/// The client in use.
struct MadeClient {
    client: Arc<GuardedClient>,
    /// Content of its files.
    files: Arc<TlsFiles>,
    /// Time of the last look at the files; `None`: a look is due.
    looked: Option<Instant>,
    /// Reason why the newest content is not in use; logged once.
    refusal: Option<String>,
}

impl std::fmt::Debug for RenewedClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RenewedClient")
            .field("rules", &self.rules)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

impl RenewedClient {
    pub(crate) fn new(rules: GuardRules, ca_bundle: Option<&Path>) -> Self {
        Self::with_tls(rules, ClientTls::trusting(ca_bundle))
    }

    pub(crate) fn with_tls(rules: GuardRules, tls: ClientTls) -> Self {
        Self { rules, tls, made: Mutex::default() }
    }

    /// Returns the client of an issuer.
    pub(super) fn of_issuer(issuer: &OidcIssuer) -> Self {
        Self::new(GuardRules::of_issuer(issuer), issuer.ca_bundle_path.as_deref())
    }

    /// Returns the client in use, or makes the first one; fails if its files of certificates cannot be used.
    pub(crate) fn get(&self) -> Result<Arc<GuardedClient>, FetchError> {
        self.get_at(Instant::now())
    }

    fn get_at(&self, now: Instant) -> Result<Arc<GuardedClient>, FetchError> {
        let (client, files) = {
            let mut made = self.made.lock();
            let Some(made) = &mut *made else {
                let files = self.tls.read()?;
                let client = Arc::new(GuardedClient::with_tls(self.rules, &self.tls, &files)?);
                let files = Arc::new(files);
                let looked = Some(now);
                *made = Some(MadeClient { client: Arc::clone(&client), files, looked, refusal: None });
                return Ok(client);
            };
            let is_due =
                made.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK_INTERVAL);
            if !is_due || !self.tls.has_files() {
                return Ok(Arc::clone(&made.client));
            }
            // One request looks; the others go on with the client in use.
            made.looked = Some(now);
            (Arc::clone(&made.client), Arc::clone(&made.files))
        };
        Ok(self.look(&files, now).unwrap_or(client))
    }

    /// Returns a new client if the files differ from `before`. Files that cannot be used leave the one in
    /// use: a rotation may be under way.
    fn look(&self, before: &TlsFiles, now: Instant) -> Option<Arc<GuardedClient>> {
        let renewed = self.tls.read().and_then(|files| {
            if files == *before {
                return Ok(None);
            }
            let client = Arc::new(GuardedClient::with_tls(self.rules, &self.tls, &files)?);
            Ok(Some((client, Arc::new(files))))
        });
        let mut made = self.made.lock();
        match renewed {
            Ok(Some((client, files))) => {
                let looked = Some(now);
                *made = Some(MadeClient { client: Arc::clone(&client), files, looked, refusal: None });
                Some(client)
            }
            Ok(None) => {
                if let Some(made) = &mut *made {
                    made.refusal = None;
                }
                None
            }
            Err(error) => {
                let refusal = Some(error.to_string());
                if let Some(made) = made.as_mut().filter(|made| made.refusal != refusal) {
                    made.refusal = refusal;
                    tracing::warn!(%error, "new certificates are not in use; the earlier ones stay; mend the files");
                }
                None
            }
        }
    }

    /// Has the next request look at the files. The client in use stays unless they have other, usable
    /// content.
    pub(crate) fn look_soon(&self) {
        if let Some(made) = &mut *self.made.lock() {
            made.looked = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_certificates_are_taken_up_and_broken_ones_are_not() {
        // reqwest wants a TLS provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let [ca, certificate, key] = ["ca.crt", "tls.crt", "tls.key"].map(|name| folder.path().join(name));
        let signed = || rcgen::generate_simple_self_signed(["guard.example".to_owned()]).unwrap();
        let rotate_authority = || std::fs::write(&ca, signed().cert.pem()).unwrap();
        let rotate_identity = || {
            let signed = signed();
            std::fs::write(&certificate, signed.cert.pem()).unwrap();
            std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
        };
        rotate_authority();
        rotate_identity();
        let tls = ClientTls {
            ca_bundle: Some(ca.clone()),
            identity: Some((certificate.clone(), key.clone())),
            skip_verify: false,
        };
        let rules = GuardRules { allow_http: false, allow_private: false, private_setting: "allow" };
        let renewed = RenewedClient::with_tls(rules, tls);
        let start = Instant::now();
        let at = |looks: u32| renewed.get_at(start + LOOK_INTERVAL * looks).unwrap();
        let first = at(0);
        assert!(Arc::ptr_eq(&first, &at(1)), "the same content");
        rotate_identity();
        assert!(Arc::ptr_eq(&first, &at(1)), "no look is due");
        let second = at(2);
        assert!(!Arc::ptr_eq(&first, &second), "another client certificate");
        rotate_authority();
        let third = at(3);
        assert!(!Arc::ptr_eq(&second, &third), "another authority");
        std::fs::write(&key, "no key").unwrap();
        assert!(Arc::ptr_eq(&third, &at(4)), "a half of a rotation");
        std::fs::remove_file(&ca).unwrap();
        assert!(Arc::ptr_eq(&third, &at(5)), "no file");
        renewed.look_soon();
        assert!(Arc::ptr_eq(&third, &at(5)), "a failure in transport beside broken files");
        rotate_authority();
        rotate_identity();
        assert!(Arc::ptr_eq(&third, &at(5)), "one look an interval");
        renewed.look_soon();
        let fourth = at(5);
        assert!(!Arc::ptr_eq(&third, &fourth), "a failure in transport makes a look due");
        renewed.look_soon();
        assert!(Arc::ptr_eq(&fourth, &at(5)), "the same content after a failure");
    }
}
