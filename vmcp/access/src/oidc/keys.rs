//! [`KeySet`]: the public keys of an issuer.

use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};

/// Most keys of a set that are read; providers have a handful. Bounds the work that a token without a key id
/// can cause.
const MAX_KEYS: usize = 64;

/// The keys of an issuer that can verify tokens.
#[derive(Debug, Default)]
pub(crate) struct KeySet(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    /// The one algorithm that the issuer uses the key with, if it says so.
    algorithm: Option<String>,
    verifies: DecodingKey,
}

/// Reason why a document is not a key set.
#[derive(Debug, thiserror::Error)]
#[error("no JSON Web Key Set: {0}")]
pub(crate) struct NoKeySet(#[from] serde_json::Error);

impl KeySet {
    /// Reads a JSON Web Key Set. Keys that cannot verify tokens here are left out: symmetric ones, those for
    /// encryption, and types that are not known.
    pub(crate) fn parse(document: &[u8]) -> Result<KeySet, NoKeySet> {
        let set: JwkSet = serde_json::from_slice(document)?;
        Ok(KeySet(set.keys.iter().filter_map(key).take(MAX_KEYS).collect()))
    }

    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the keys that may have signed a token with this header: of the algorithm's family and, where
    /// the header names a key, of that id.
    pub(crate) fn candidates(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
    ) -> impl Iterator<Item = &DecodingKey> {
        let name = format!("{algorithm:?}");
        let fits = move |key: &&Key| {
            key.verifies.family() == algorithm.family()
                && key.algorithm.as_ref().is_none_or(|only| *only == name)
                && id.is_none_or(|id| key.id.as_deref() == Some(id))
        };
        self.0.iter().filter(fits).map(|key| &key.verifies)
    }
}

fn key(jwk: &Jwk) -> Option<Key> {
    let common = &jwk.common;
    if common.public_key_use.as_ref().is_some_and(|of| *of != PublicKeyUse::Signature) {
        return None;
    }
    let verifies = DecodingKey::from_jwk(jwk).ok()?;
    if verifies.family() == AlgorithmFamily::Hmac {
        return None;
    }
    let algorithm = common.key_algorithm.map(|algorithm| format!("{algorithm:?}"));
    Some(Key { id: common.key_id.clone(), algorithm, verifies })
}
