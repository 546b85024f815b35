//! [`SealingKeys`]: the keys of sealed session ids, request states and task ids.
//!
//! The keys follow the configuration (`server.sessionKeys`). To rotate a key without ending a session, put
//! the new key first, and remove the old one once everything it sealed has expired.

use std::sync::Arc;

use arc_swap::ArcSwap;
use vmcp_config::{Config, Secret};
use vmcp_wire::sealed::{KeyError, KeyRing};

use crate::random::random;

/// The key ring of the configuration in force.
#[derive(Debug)]
pub struct SealingKeys {
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
    pub fn new(config: &Arc<Config>) -> Result<Self, KeyError> {
        let own = random();
        let ring = Arc::new(ring(&config.server.session_keys, &own)?);
        Ok(Self { own, current: ArcSwap::from_pointee(CurrentRing { made_of: Arc::clone(config), ring }) })
    }

    /// Returns the key ring of `config`. Unusable keys, which validation excludes, leave the ring before in
    /// force.
    pub fn ring(&self, config: &Arc<Config>) -> Arc<KeyRing> {
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

/// Builds a ring of the configured secrets; the process's own key comes last.
fn ring(secrets: &[Secret], own: &[u8; 32]) -> Result<KeyRing, KeyError> {
    KeyRing::from_secrets(secrets.iter().map(|secret| secret.expose().as_bytes()).chain([own.as_slice()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::keyed;

    const OLD: &str = "an old key of enough characters";
    const NEW: &str = "a newer key of enough characters";

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
