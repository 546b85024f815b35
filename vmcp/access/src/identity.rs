//! [`Identity`]: a client as it has proved to be. Cheap to clone; equal if issuer and subject are equal.

pub(crate) mod claim_path;
pub mod client_certificate;
pub mod credential;
pub mod scopes;
pub mod upstream_tokens;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use self::upstream_tokens::UpstreamTokens;

/// Claims about the time of a token. `expires_in` counts down in the answers of some issuers.
const TIMES: [&str; 4] = ["exp", "iat", "nbf", "expires_in"];

/// A client, as far as it has proved who it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Identity {
    /// A client without credentials.
    #[default]
    Anonymous,
    /// A client with credentials that were verified.
    Known(Arc<KnownIdentity>),
}

/// An identity with its claims.
pub struct KnownIdentity {
    issuer: Box<str>,
    subject: Box<str>,
    claims: Map<String, Value>,
    digest: [u8; 32],
    claims_digest: [u8; 32],
    /// Bytes of the claims, as JSON.
    claims_bytes: usize,
    token: Option<Box<str>>,
    upstream: UpstreamTokens,
    /// Key of the client's rights under one policy, by the policy's number: worked out once, and read with
    /// each request.
    rights: Mutex<Option<(u64, [u8; 32])>>,
}

impl Identity {
    /// Makes an identity. `issuer` vouches for `subject`: the `iss` of a token, or the name of a list of
    /// keys. Policies read `claims`. `token` is the client's own, for backends that get it passed on or
    /// exchanged.
    pub fn known(
        issuer: &str,
        subject: &str,
        claims: Map<String, Value>,
        token: Option<Box<str>>,
    ) -> Identity {
        Identity::signed_in(issuer, subject, claims, token, UpstreamTokens::default())
    }

    /// Makes an identity that has signed in through vmcp, with the tokens of the providers.
    pub(crate) fn signed_in(
        issuer: &str,
        subject: &str,
        claims: Map<String, Value>,
        token: Option<Box<str>>,
        upstream: UpstreamTokens,
    ) -> Identity {
        // `preserve_order` is on: claims in another order have another digest, which costs one view more.
        let text = Value::Object(claims.clone()).to_string();
        Identity::Known(Arc::new(KnownIdentity {
            issuer: issuer.into(),
            subject: subject.into(),
            digest: digest(issuer, subject),
            claims,
            claims_digest: Sha256::digest(&text).into(),
            claims_bytes: text.len(),
            token,
            upstream,
            rights: Mutex::default(),
        }))
    }

    /// Returns the value that sealed tokens are bound to: a session or a state is of use only to the identity
    /// it was made for. A renewed token of the same subject has the same value.
    pub fn digest(&self) -> [u8; 32] {
        match self {
            Identity::Anonymous => [0; 32],
            Identity::Known(known) => known.digest,
        }
    }

    /// Returns [`Identity::digest`] of the client with this subject at this issuer.
    pub fn digest_of(issuer: &str, subject: &str) -> [u8; 32] {
        digest(issuer, subject)
    }

    /// Returns the value for sealed tokens that are of use within one part of the catalog only.
    pub fn digest_within(&self, part: &str) -> [u8; 32] {
        Sha256::new().chain_update(self.digest()).chain_update(part).finalize().into()
    }

    /// Returns the name for audit lines.
    pub fn subject(&self) -> &str {
        match self {
            Identity::Anonymous => "anonymous",
            Identity::Known(known) => &known.subject,
        }
    }

    /// Returns true if both have proved the same rights: the same identity with the same claims, but for the
    /// times of the token, which an issuer that is asked about it may move.
    pub fn has_rights_of(&self, other: &Identity) -> bool {
        match (self.as_known(), other.as_known()) {
            (Some(one), Some(other)) => one == other && one.has_claims_of(other),
            (None, None) => true,
            _ => false,
        }
    }

    /// Returns the verified identity, unless the client is anonymous.
    pub fn as_known(&self) -> Option<&KnownIdentity> {
        match self {
            Identity::Anonymous => None,
            Identity::Known(known) => Some(known),
        }
    }
}

impl KnownIdentity {
    /// Returns the issuer.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the subject, unique within the issuer.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Returns the claims, as the issuer wrote them.
    pub fn claims(&self) -> &Map<String, Value> {
        &self.claims
    }

    /// Returns the SHA-256 of the claims: two identities with the same claims have the same rights.
    pub fn claims_digest(&self) -> [u8; 32] {
        self.claims_digest
    }

    fn has_claims_of(&self, other: &KnownIdentity) -> bool {
        let rights = |claims: &Map<String, Value>| {
            claims.keys().filter(|name| !TIMES.contains(&name.as_str())).count()
        };
        let mut claims = self.claims.iter();
        self.claims_digest == other.claims_digest
            || (rights(&self.claims) == rights(&other.claims)
                && claims.all(|(name, value)| {
                    TIMES.contains(&name.as_str()) || other.claims.get(name) == Some(value)
                }))
    }

    /// Returns the key of the client's rights under a policy; `make` works it out.
    pub(crate) fn rights(&self, policy: u64, make: impl FnOnce() -> [u8; 32]) -> [u8; 32] {
        let mut rights = self.rights.lock();
        match *rights {
            Some((known, key)) if known == policy => key,
            _ => rights.insert((policy, make())).1,
        }
    }

    /// Returns the expiry of the token that proved the identity, in seconds since 1970; `None` if a key did.
    pub fn expires(&self) -> Option<u64> {
        self.claims.get("exp").and_then(Value::as_f64).map(|expires| expires as u64)
    }

    /// Returns the token that proved the identity. Secret: never logged, never stored.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Returns the bytes of the token and of the claims as JSON: the issuer of an opaque token writes claims
    /// that are much longer than the token.
    pub(crate) fn bytes(&self) -> usize {
        self.claims_bytes + self.token.as_deref().map_or(0, str::len)
    }

    /// Returns the tokens of the providers at which the client signed in through vmcp. Secret.
    pub fn upstream_tokens(&self) -> &UpstreamTokens {
        &self.upstream
    }
}

/// SHA-256 of issuer and subject, length-prefixed, so that no two pairs are written alike.
fn digest(issuer: &str, subject: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in [issuer, subject] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

impl PartialEq for KnownIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for KnownIdentity {}

impl Hash for KnownIdentity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

/// Shows issuer and subject; claims may be personal, and the token is secret.
impl fmt::Debug for KnownIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownIdentity")
            .field("issuer", &self.issuer)
            .field("subject", &self.subject)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn known(issuer: &str, subject: &str, token: &str) -> Identity {
        Identity::known(issuer, subject, Map::new(), Some(token.into()))
    }

    #[test]
    fn rights_are_the_claims_but_for_the_times_of_the_token() {
        let with = |claims: Value| {
            Identity::known("https://idp", "alice", claims.as_object().unwrap().clone(), None)
        };
        let alice = with(json!({"groups": ["a"], "exp": 1, "iat": 1}));
        for same in [json!({"exp": 2, "groups": ["a"]}), json!({"nbf": 3, "expires_in": 9, "groups": ["a"]})]
        {
            assert!(alice.has_rights_of(&with(same.clone())), "{same}");
        }
        for other in [json!({}), json!({"groups": ["a", "b"]}), json!({"groups": ["a"], "acr": "2"})] {
            assert!(!alice.has_rights_of(&with(other.clone())), "{other}");
            assert!(!with(other.clone()).has_rights_of(&alice), "{other}");
        }
        assert!(!alice.has_rights_of(&Identity::Anonymous));
        assert!(Identity::Anonymous.has_rights_of(&Identity::Anonymous));
    }

    #[test]
    fn an_identity_is_its_issuer_and_subject() {
        let alice = known("https://idp", "alice", "first");
        assert_eq!(alice, known("https://idp", "alice", "renewed"));
        assert_eq!(alice.digest(), known("https://idp", "alice", "renewed").digest());
        for other in
            [known("https://idp", "bob", "t"), known("https://idpa", "lice", "t"), Identity::Anonymous]
        {
            assert_ne!(alice, other);
            assert_ne!(alice.digest(), other.digest());
        }
        assert!(!format!("{alice:?}").contains("first"), "{alice:?}");
    }
}
