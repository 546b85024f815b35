//! [`KeySet`]: the public keys of an issuer.

use jsonwebtoken::jwk::{Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

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

/// A JSON Web Key Set (RFC 7517, 5), its entries not read yet.
#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<Value>,
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
        // Each entry stands for itself: a null, or a key that cannot be read, must not cost the others.
        let keys = set.keys.into_iter().filter_map(|entry| serde_json::from_value(entry).ok());
        Ok(KeySet(keys.filter_map(|jwk: Jwk| key(&jwk)).take(MAX_KEYS).collect()))
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
    // RFC 7517, 4.3: a key with operations is for these alone.
    if common.key_operations.as_ref().is_some_and(|of| !of.contains(&KeyOperations::Verify)) {
        return None;
    }
    let verifies = DecodingKey::from_jwk(jwk).ok()?;
    if verifies.family() == AlgorithmFamily::Hmac {
        return None;
    }
    let algorithm = common.key_algorithm.map(|algorithm| format!("{algorithm:?}"));
    Some(Key { id: common.key_id.clone(), algorithm, verifies })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_that_is_no_key_does_not_cost_the_others() {
        let key = json!({
            "kty": "EC", "crv": "P-256", "kid": "a", "use": "sig", "alg": "ES256",
            "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
        });
        for odd in [json!(null), json!("text"), json!(7), json!({}), json!({"kty": "new"}), json!([])] {
            let document = json!({"keys": [odd, key]}).to_string();
            assert_eq!(KeySet::parse(document.as_bytes()).unwrap().len(), 1, "{odd}");
        }
        // A key for another purpose.
        for (member, value) in [
            ("use", json!("enc")),
            ("key_ops", json!(["deriveBits"])),
            ("key_ops", json!(["sign", "encrypt"])),
            ("key_ops", json!([])),
        ] {
            let mut other = key.clone();
            other[member] = value;
            let document = json!({"keys": [other, key]}).to_string();
            assert_eq!(KeySet::parse(document.as_bytes()).unwrap().len(), 1, "{other}");
        }
        let mut verifies = key.clone();
        verifies["key_ops"] = json!(["verify"]);
        let document = json!({"keys": [verifies]}).to_string();
        assert_eq!(KeySet::parse(document.as_bytes()).unwrap().len(), 1);
        for none in ["null", "[]", r#"{"keys": null}"#, "{}"] {
            assert!(KeySet::parse(none.as_bytes()).is_err(), "{none}");
        }
    }
}
