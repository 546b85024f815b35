//! [`SealingKeys`]: the keys that seal session ids and request states handed to clients.
//!
//! The keys follow the configuration (`server.sessionKeys`). To rotate a key without ending a session, put
//! the new key first, and remove the old one once everything it sealed has expired.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use vmcp_config::{Config, Secret};
use vmcp_wire::sealed::{KeyError, KeyRing};

use super::random::random;
use super::sessions::LIFETIME_SECS;

/// Purpose of sealed addresses of processes.
const HOME_CONTEXT: &[u8] = b"process address";
/// Interval at which the address in new ids of questions is sealed again.
pub(crate) const HOME_RENEWAL: Duration = Duration::from_hours(1);
/// Seconds for which a sealed address is good: an id names something of a session, and may be made from an
/// address that was sealed [`HOME_RENEWAL`] before. An old id leads nowhere, whoever has the address by then.
const HOME_LIFETIME_SECS: u64 = LIFETIME_SECS + HOME_RENEWAL.as_secs();

/// The key ring of the configuration in force.
#[derive(Debug)]
pub(crate) struct SealingKeys {
    /// A random key of this process. It seals while no key is configured, and stays in the ring afterwards,
    /// so that the first configured key ends no session.
    own: [u8; 32],
    current: ArcSwap<CurrentRing>,
}

/// A key ring and the configuration it was made from.
#[derive(Debug)]
struct CurrentRing {
    made_of: Arc<Config>,
    ring: Arc<KeyRing>,
}

impl SealingKeys {
    /// Creates the ring of `config`.
    pub(crate) fn new(config: &Arc<Config>) -> Result<Self, KeyError> {
        let own = random();
        let ring = Arc::new(ring(&config.server.session_keys, &own)?);
        Ok(Self { own, current: ArcSwap::from_pointee(CurrentRing { made_of: Arc::clone(config), ring }) })
    }

    /// Returns the key ring of `config`. Unusable keys, which validation excludes, leave the ring before in
    /// force.
    pub(crate) fn ring(&self, config: &Arc<Config>) -> Arc<KeyRing> {
        let current = self.current.load();
        if Arc::ptr_eq(&current.made_of, config) {
            return Arc::clone(&current.ring);
        }
        let keys = &config.server.session_keys;
        let ring = if *keys == current.made_of.server.session_keys {
            Arc::clone(&current.ring)
        } else {
            match ring(keys, &self.own) {
                Ok(ring) => Arc::new(ring),
                Err(error) => {
                    tracing::error!(%error, "server.sessionKeys cannot be used; the keys before stay in force");
                    Arc::clone(&current.ring)
                }
            }
        };
        // Requests with the snapshot before may swap the ring back and forth for a moment; each swap costs a
        // few hashes.
        self.current.store(Arc::new(CurrentRing { made_of: Arc::clone(config), ring: Arc::clone(&ring) }));
        ring
    }
}

/// Seals the address at which other replicas reach this process, for ids of what lives here only; empty
/// without an address, or without a configured key that they could open it with.
pub(crate) fn seal_home(ring: &KeyRing, config: &Config, now: u64) -> String {
    match config.server.peer_address.filter(|_| !config.server.session_keys.is_empty()) {
        Some(address) => {
            let expires = now.saturating_add(HOME_LIFETIME_SECS);
            ring.seal(&random(), address.to_string().as_bytes(), HOME_CONTEXT, expires)
        }
        None => String::new(),
    }
}

/// Opens the address of another process. Only vmcp itself can have sealed it, so that no client chooses where
/// a request goes (SSRF guard).
pub(crate) fn open_home(ring: &KeyRing, sealed: &str, now: u64) -> Option<SocketAddr> {
    let opened = ring.open(sealed, HOME_CONTEXT, now).ok()?;
    std::str::from_utf8(&opened.content).ok()?.parse().ok()
}

/// Builds a ring of the configured secrets; the process's own key comes last.
fn ring(secrets: &[Secret], own: &[u8; 32]) -> Result<KeyRing, KeyError> {
    KeyRing::from_secrets(secrets.iter().map(|secret| secret.expose().as_bytes()).chain([own.as_slice()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmcp_engine::testing::{KEYWORDS, config};

    fn keyed(keys: &[&str]) -> Arc<Config> {
        let mut config = config(KEYWORDS);
        config.server.session_keys = keys.iter().map(|key| Secret::from(*key)).collect();
        Arc::new(config)
    }

    const OLD: &str = "an old key of enough characters";
    const NEW: &str = "a newer key of enough characters";

    #[test]
    fn the_address_of_a_process_expires_and_goes_with_its_key() {
        let addressed = |keys: &[&str]| {
            let mut config = Config::clone(&keyed(keys));
            config.server.peer_address = Some("10.0.0.5:4483".parse().unwrap());
            Arc::new(config)
        };
        let config = addressed(&[OLD]);
        let keys = SealingKeys::new(&config).unwrap();
        let sealed = seal_home(&keys.ring(&config), &config, 1000);
        let last = 1000 + HOME_LIFETIME_SECS;
        let open = |config: &Arc<Config>, now| open_home(&keys.ring(config), &sealed, now);
        assert_eq!(open(&config, last - 1), config.server.peer_address);
        assert_eq!(open(&config, last + 1), None);
        assert!(open(&addressed(&[NEW, OLD]), 1000).is_some());
        assert_eq!(open(&addressed(&[NEW]), 1000), None);
        let unkeyed = addressed(&[]);
        assert_eq!(seal_home(&keys.ring(&unkeyed), &unkeyed, 1000), "", "no other process could open it");
    }

    #[test]
    fn a_token_outlives_the_replacement_of_its_key_until_the_key_is_taken_away() {
        let (none, old) = (keyed(&[]), keyed(&[OLD]));
        let (both, new) = (keyed(&[NEW, OLD]), keyed(&[NEW]));
        let keys = SealingKeys::new(&none).unwrap();
        let opens = |config, token: &str| keys.ring(config).open(token, b"", 0).is_ok();
        let unkeyed = keys.ring(&none).seal(&[1; 24], b"x", b"", 9);
        let first = keys.ring(&old).seal(&[2; 24], b"x", b"", 9);
        let second = keys.ring(&both).seal(&[3; 24], b"x", b"", 9);
        for config in [&old, &both] {
            assert!(opens(config, &unkeyed) && opens(config, &first), "in any order");
        }
        assert!(opens(&new, &second) && !opens(&new, &first));
        assert!(!opens(&old, &second), "sealed with the new one");
        let other = SealingKeys::new(&new).unwrap();
        assert!(other.ring(&new).open(&second, b"", 0).is_ok(), "another process with the same key");
        assert!(other.ring(&new).open(&unkeyed, b"", 0).is_err());
    }
}
