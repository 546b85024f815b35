//! A DPoP proof (RFC 9449): a JWT that the holder of a bound token signs for one request.
//!
//! Proofs carry no nonce of the server: `iat` bounds the age of a proof, and [`replays`](super::replays) its
//! number of uses, so a client saves the round trip that a nonce costs.

use std::str::FromStr as _;
use std::time::SystemTime;

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::{digest, thumbprint};
use crate::exact_json::Json;
use crate::oidc::jwt_parts::{self, ALGORITHMS};
use crate::oidc::rejection::ProofError;

/// Longest proof, in bytes; a proof with a key of RSA 8192 has some 3 KiB.
const MAX_BYTES: usize = 8 << 10;
/// Longest `jti`, in bytes.
const MAX_ID_BYTES: usize = 512;
/// Greatest age of a proof, in seconds.
pub(super) const MAX_AGE: u64 = 60;
/// Seconds by which the clock of a client may be ahead.
pub(super) const MAX_AHEAD: u64 = 10;

/// Identifier of a proof: half of the SHA-256 of its key and its `jti`.
pub(super) type ProofId = [u8; 16];

/// The request that a proof must be for.
#[derive(Debug)]
pub(super) struct ExpectedProof<'a> {
    pub(super) method: &'a str,
    /// Its URLs, without query and fragment; one of them must be that of the proof.
    pub(super) urls: &'a [Url],
    /// SHA-256 of the access token.
    pub(super) token: &'a [u8; 32],
    /// Thumbprint of the key that the token is bound to.
    pub(super) key: &'a [u8; 32],
}

/// Verifies a proof; the signature last, because it costs most.
pub(super) fn verify(proof: &str, expected: &ExpectedProof<'_>) -> Result<ProofId, ProofError> {
    if proof.len() > MAX_BYTES || proof.split('.').count() != 3 {
        return Err(ProofError::Malformed);
    }
    let (algorithm, jwk) = header(&part(proof, 0)?)?;
    if thumbprint::of_public_key(&jwk).ok_or(ProofError::Key)? != *expected.key {
        return Err(ProofError::Holder);
    }
    let id = claims(&part(proof, 1)?, expected)?;
    let jwk: Jwk = serde_json::from_value(Value::Object(jwk)).map_err(|_| ProofError::Key)?;
    let key = DecodingKey::from_jwk(&jwk).map_err(|_| ProofError::Key)?;
    let (message, signature) = proof.rsplit_once('.').ok_or(ProofError::Malformed)?;
    match jsonwebtoken::crypto::verify(signature, message.as_bytes(), &key, algorithm) {
        Ok(true) => Ok(id),
        _ => Err(ProofError::Signature),
    }
}

/// Returns a part of the proof, in which no member occurs twice.
fn part(proof: &str, position: usize) -> Result<Map<String, Value>, ProofError> {
    let entries = jwt_parts::part(proof, position).map_err(|_| ProofError::Malformed)?;
    match Json::Object(entries).into_value() {
        Value::Object(members) => Ok(members),
        _ => Err(ProofError::Malformed),
    }
}

/// Checks the header; returns algorithm and key.
fn header(header: &Map<String, Value>) -> Result<(Algorithm, Map<String, Value>), ProofError> {
    let text = |name: &str| header.get(name).and_then(Value::as_str);
    if !text("typ").is_some_and(|typ| typ.eq_ignore_ascii_case("dpop+jwt")) {
        return Err(ProofError::Type);
    }
    let algorithm = text("alg").and_then(|name| Algorithm::from_str(name).ok());
    let algorithm = algorithm.filter(|algorithm| ALGORITHMS.contains(algorithm));
    let algorithm = algorithm.ok_or(ProofError::Algorithm)?;
    match header.get("jwk") {
        Some(Value::Object(jwk)) if !header.contains_key("crit") => Ok((algorithm, jwk.clone())),
        _ => Err(ProofError::Key),
    }
}

fn claims(claims: &Map<String, Value>, expected: &ExpectedProof<'_>) -> Result<ProofId, ProofError> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str).ok_or(ProofError::Malformed);
    if text("htm")? != expected.method {
        return Err(ProofError::Method);
    }
    let url = normal_form(text("htu")?).ok_or(ProofError::Url)?;
    if !expected.urls.contains(&url) {
        return Err(ProofError::Url);
    }
    let issued = claims.get("iat").and_then(Value::as_f64).ok_or(ProofError::Malformed)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    if !(issued >= now - MAX_AGE as f64 && issued <= now + MAX_AHEAD as f64) {
        return Err(ProofError::Time);
    }
    if digest(text("ath")?).as_ref() != Some(expected.token) {
        return Err(ProofError::Token);
    }
    let id = text("jti")?;
    if id.is_empty() || id.len() > MAX_ID_BYTES {
        return Err(ProofError::Malformed);
    }
    let id: [u8; 32] = Sha256::new().chain_update(expected.key).chain_update(id).finalize().into();
    id.first_chunk().copied().ok_or(ProofError::Malformed)
}

/// Returns a URL in its normal form (RFC 3986, 6.2.2 and 6.2.3), without query and fragment.
fn normal_form(text: &str) -> Option<Url> {
    let mut url = Url::parse(text).ok()?;
    let is_plain = matches!(url.scheme(), "http" | "https") && url.username().is_empty();
    url.set_query(None);
    url.set_fragment(None);
    (is_plain && url.password().is_none()).then_some(url)
}

/// Returns the names of the algorithms that proofs may have, for metadata and challenges.
pub fn algorithms() -> impl Iterator<Item = String> {
    ALGORITHMS.iter().map(|algorithm| format!("{algorithm:?}"))
}
