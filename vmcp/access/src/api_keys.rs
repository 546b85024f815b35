//! [`ApiKeys`]: clients that are known by a key.

use std::collections::{HashMap, HashSet};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use vmcp_config::ApiKey;

use crate::identity::Identity;

/// Issuer of the identities that a key proves; no token has it, because issuers of tokens are URLs.
pub const ISSUER: &str = vmcp_config::API_KEYS;

/// Keys by their SHA-256. The keys themselves are not kept, and the time of a lookup tells nothing about
/// them: a digest that shares a prefix with a known one says nothing about the key.
#[derive(Debug, Default)]
pub struct ApiKeys {
    by_digest: HashMap<[u8; 32], Identity>,
    subjects: HashSet<Box<str>>,
    /// [`rights_of`] the clients.
    rights: HashSet<([u8; 32], [u8; 32])>,
}

impl ApiKeys {
    /// Makes the table of configured keys.
    pub fn new(keys: &[ApiKey]) -> ApiKeys {
        let entry = |key: &ApiKey| {
            let identity = Identity::known(ISSUER, &key.subject, key.claims.clone(), None);
            (Sha256::digest(key.key.expose()).into(), identity)
        };
        let by_digest: HashMap<[u8; 32], Identity> = keys.iter().map(entry).collect();
        let rights = by_digest.values().filter_map(rights_of).collect();
        let subjects = keys.iter().map(|key| key.subject.as_str().into()).collect();
        ApiKeys { by_digest, subjects, rights }
    }

    /// Returns true if the list of keys is empty.
    pub fn is_empty(&self) -> bool {
        self.by_digest.is_empty()
    }

    /// Returns true if some key is that of this subject.
    pub fn has_subject(&self, subject: &str) -> bool {
        self.subjects.contains(subject)
    }

    /// Returns true if some key proves this client, with these claims.
    pub fn proves(&self, client: &Identity) -> bool {
        rights_of(client).is_some_and(|rights| self.rights.contains(&rights))
    }

    /// Returns the client of the key with this SHA-256.
    pub fn identify(&self, digest: &[u8; 32]) -> Option<&Identity> {
        let (known, identity) = self.by_digest.get_key_value(digest)?;
        bool::from(known.ct_eq(digest)).then_some(identity)
    }
}

/// Returns the digests of a client and of its claims.
fn rights_of(client: &Identity) -> Option<([u8; 32], [u8; 32])> {
    Some((client.digest(), client.as_known()?.claims_digest()))
}
