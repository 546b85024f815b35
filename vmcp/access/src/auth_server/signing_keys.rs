//! [`SigningKeys`]: the private keys of the authorization server. The first signs access tokens; the public
//! halves of all are its key set, so that a key can be replaced while tokens of the old one live on.
//!
//! Where no key is configured, Ed25519 keys are derived from the secrets that seal, so that replicas which
//! share those accept each other's tokens.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hkdf::Hkdf;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use vmcp_config::{Finding, Problem, Secret};

use super::key_file::{self, KeyFault};

/// Characters of a key id.
const ID_CHARS: usize = 16;

/// A key that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyError {
    #[error("authServer.signingKeys[{position}] {fault}")]
    Fault { position: usize, fault: KeyFault },
    #[error("there is no key to sign with")]
    None,
}

/// The keys; never empty.
pub(super) struct SigningKeys {
    first: Key,
    others: Vec<Key>,
}

struct Key {
    id: String,
    pair: Pair,
}

enum Pair {
    Curve { algorithm: &'static str, curve: &'static str, pair: EcdsaKeyPair },
    Edwards(Ed25519KeyPair),
    Rsa(Box<RsaKeyPair>),
}

impl std::fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKeys").field("first", &self.first.id).finish_non_exhaustive()
    }
}

impl SigningKeys {
    /// Reads the configured keys; without any, derives one from each of `secrets`, and from `own`.
    pub(super) fn new(configured: &[Secret], secrets: &[Secret], own: &[u8; 32]) -> Result<Self, KeyError> {
        let mut keys = Vec::new();
        for (position, secret) in configured.iter().enumerate() {
            keys.push(Key::read(secret).map_err(|fault| KeyError::Fault { position, fault })?);
        }
        if keys.is_empty() {
            let secrets = secrets.iter().map(|secret| secret.expose().as_bytes());
            keys.extend(secrets.chain([own.as_slice()]).filter_map(Key::derived));
        }
        let mut keys = keys.into_iter();
        Ok(Self { first: keys.next().ok_or(KeyError::None)?, others: keys.collect() })
    }

    /// Returns the mistakes in the configured keys, for [`vmcp_config::FurtherCheck`].
    pub(super) fn findings(configured: &[Secret]) -> Vec<Finding> {
        let wrong = |(position, secret)| {
            let fault = Key::read(secret).err()?;
            let path = format!("authServer.signingKeys[{position}]");
            Some(Finding::Value(Problem::new(path, fault.to_string(), fault.remedy())))
        };
        configured.iter().enumerate().filter_map(wrong).collect()
    }

    /// Returns the public keys as a JSON Web Key Set.
    pub(super) fn key_set(&self) -> Value {
        let keys: Vec<_> = std::iter::once(&self.first).chain(&self.others).map(Key::public).collect();
        json!({ "keys": keys })
    }

    /// Returns a signed access token (RFC 9068); `None` if signing failed, which it does for want of
    /// randomness only.
    pub(super) fn sign(&self, claims: &Value) -> Option<String> {
        let Key { id, pair } = &self.first;
        let header = json!({"alg": pair.algorithm(), "typ": "at+jwt", "kid": id});
        let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(claims));
        let signature = pair.sign(signed.as_bytes())?;
        Some(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }
}

impl Key {
    fn read(secret: &Secret) -> Result<Self, KeyFault> {
        let der = key_file::pkcs8(secret.expose())?;
        let random = SystemRandom::new();
        let curve = |algorithm, name, with| {
            let pair = EcdsaKeyPair::from_pkcs8(with, &der, &random).ok()?;
            Some(Pair::Curve { algorithm, curve: name, pair })
        };
        let rsa = || RsaKeyPair::from_pkcs8(&der).ok().map(|pair| Pair::Rsa(Box::new(pair)));
        let pair = curve("ES256", "P-256", &ECDSA_P256_SHA256_FIXED_SIGNING)
            .or_else(|| curve("ES384", "P-384", &ECDSA_P384_SHA384_FIXED_SIGNING))
            .or_else(rsa)
            .ok_or(KeyFault::Unsupported)?;
        Ok(Self::from_pair(pair))
    }

    /// Derives a key from a secret, by HKDF-SHA-256. The label keeps it apart from the keys that seal.
    fn derived(secret: &[u8]) -> Option<Self> {
        let mut seed = [0; 32];
        Hkdf::<Sha256>::new(None, secret).expand(b"vmcp authServer signing key v2", &mut seed).ok()?;
        Ed25519KeyPair::from_seed_unchecked(&seed).ok().map(|pair| Self::from_pair(Pair::Edwards(pair)))
    }

    fn from_pair(pair: Pair) -> Self {
        let mut id = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(pair.public_bytes()));
        id.truncate(ID_CHARS);
        Self { id, pair }
    }

    /// Returns the public half as a JSON Web Key.
    fn public(&self) -> Value {
        let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let mut key = match &self.pair {
            Pair::Curve { curve, pair, .. } => {
                // 4, then both coordinates.
                let point = pair.public_key().as_ref();
                let (x, y) = point.get(1..).map(|both| both.split_at(both.len() / 2)).unwrap_or_default();
                json!({"kty": "EC", "crv": curve, "x": encode(x), "y": encode(y)})
            }
            Pair::Edwards(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key().as_ref())})
            }
            Pair::Rsa(pair) => {
                let public = PublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({"kty": "RSA", "n": encode(&public.n), "e": encode(&public.e)})
            }
        };
        for (name, value) in [("kid", self.id.as_str()), ("alg", self.pair.algorithm()), ("use", "sig")] {
            if let Some(object) = key.as_object_mut() {
                object.insert(name.to_owned(), value.into());
            }
        }
        key
    }
}

impl Pair {
    fn algorithm(&self) -> &'static str {
        match self {
            Self::Curve { algorithm, .. } => algorithm,
            Self::Edwards(_) => "EdDSA",
            Self::Rsa(_) => "RS256",
        }
    }

    fn public_bytes(&self) -> &[u8] {
        match self {
            Self::Curve { pair, .. } => pair.public_key().as_ref(),
            Self::Edwards(pair) => pair.public_key().as_ref(),
            Self::Rsa(pair) => pair.public_key().as_ref(),
        }
    }

    fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            Self::Curve { pair, .. } => {
                pair.sign(&random, message).ok().map(|signature| signature.as_ref().to_vec())
            }
            Self::Edwards(pair) => Some(pair.sign(message).as_ref().to_vec()),
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derived_key_is_no_digest_of_its_secret() {
        let secret = b"a secret of thirty-two characters";
        let digest =
            Sha256::new().chain_update(b"vmcp authServer signing key v1\0").chain_update(secret).finalize();
        let by_digest = Ed25519KeyPair::from_seed_unchecked(&digest).unwrap();
        let derived = Key::derived(secret).unwrap();
        assert_ne!(derived.pair.public_bytes(), by_digest.public_key().as_ref());
        assert_eq!(derived.id, Key::derived(secret).unwrap().id, "replicas derive the same key");
    }

    #[test]
    fn a_key_of_no_use_is_a_problem_at_its_place() {
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let edwards = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap().serialize_pem();
        let configured = [Secret::from(key), Secret::from(edwards), Secret::from("key.pem")];
        let problems = SigningKeys::findings(&configured);
        let places: Vec<_> = problems
            .iter()
            .map(|finding| match finding {
                Finding::Value(problem) => problem.path.as_str(),
                _ => panic!("{finding:?}"),
            })
            .collect();
        assert_eq!(places, ["authServer.signingKeys[1]", "authServer.signingKeys[2]"]);
        let fault = SigningKeys::new(&configured, &[], &[0; 32]).unwrap_err();
        assert_eq!(fault, KeyError::Fault { position: 1, fault: KeyFault::Unsupported });
    }
}
