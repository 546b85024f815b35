//! Tokens that only vmcp can have issued: encrypted, authenticated, bound to a context, with an expiry.
//!
//! A token is `base64url(version ‖ nonce ‖ XChaCha20-Poly1305(expiry ‖ content))`, opened by whichever key of
//! the ring fits, so that keys can be replaced without ending what was sealed with the old one. HKDF-SHA-256
//! (RFC 5869) derives the keys. Tokens of version 1, with the plain SHA-256 as key, are opened only.

pub mod request_state;
pub mod session;
pub mod task_id;

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, AeadInOut, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use hkdf::Hkdf;
use sha2::{Digest, Sha256};

/// Bytes in a nonce: large enough that random ones do not repeat.
pub const NONCE_LENGTH: usize = 24;
/// The shortest secret from which a key is derived, in bytes.
pub const MIN_SECRET_LENGTH: usize = 16;
/// The longest token in a header, in characters; a longer one is malformed. HTTP servers refuse such headers
/// anyway.
pub const MAX_TOKEN_LENGTH: usize = 16 * 1024;

const VERSION: u8 = 2;
/// Version of tokens whose key is the SHA-256 of label and secret.
const FIRST_VERSION: u8 = 1;
const EXPIRY_LENGTH: usize = 8;
const TAG_LENGTH: usize = 16;

/// A random nonce, used once.
pub type Nonce = [u8; NONCE_LENGTH];

/// The reason why a ring cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No secret was given; sealing needs a key.
    #[error("at least one key is needed")]
    None,
    /// A secret has less than [`MIN_SECRET_LENGTH`] bytes and could be guessed.
    #[error(
        "a secret must have at least {MIN_SECRET_LENGTH} bytes; generate one with `openssl rand -base64 32`"
    )]
    TooShort,
}

/// The reason why a token is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The text does not have the form of a token: truncated, too long, or issued by another server.
    #[error("not a token of this server")]
    Malformed,
    /// No key opens the token: altered, sealed with a retired key, or for another context.
    #[error("the token was altered, belongs to another context, or its key is gone")]
    Forged,
    /// The token is genuine, but expired.
    #[error("the token expired")]
    Expired {
        /// The expiry, in seconds since the Unix epoch.
        at: u64,
    },
}

/// The content of an opened token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The sealed bytes.
    pub content: Vec<u8>,
    /// The expiry, in seconds since the Unix epoch.
    pub expires: u64,
}

/// A ring of keys: the first seals, any opens, so that a key can be replaced while tokens of the old one live
/// on.
///
/// ```
/// use vmcp_wire::sealed::KeyRing;
///
/// let ring = KeyRing::from_secrets(["a secret of enough bytes"])?;
/// let nonce = [7; 24]; // random and fresh, in a program
/// let token = ring.seal(&nonce, b"content", b"purpose", 2_000);
/// assert_eq!(ring.open(&token, b"purpose", 1_999)?.content, b"content");
/// assert!(ring.open(&token, b"purpose", 2_000).is_err(), "expired");
/// assert!(ring.open(&token, b"another purpose", 0).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct KeyRing {
    first: SealingKey,
    others: Vec<SealingKey>,
}

/// The keys of one secret.
#[derive(Clone)]
struct SealingKey {
    present: XChaCha20Poly1305,
    /// Opens tokens of [`FIRST_VERSION`].
    former: XChaCha20Poly1305,
}

impl SealingKey {
    /// Derives the keys. The labels keep them apart from any that another use derives from the same secret.
    fn derive(secret: &[u8]) -> Result<Self, KeyError> {
        let mut key = [0; 32];
        let expanded = Hkdf::<Sha256>::new(None, secret).expand(b"vmcp sealed token v2", &mut key);
        // 32 bytes are within the 8,160 of RFC 5869.
        expanded.map_err(|_| KeyError::None)?;
        let former = Sha256::new().chain_update(b"vmcp sealed token v1\0").chain_update(secret).finalize();
        Ok(Self { present: XChaCha20Poly1305::new(&key.into()), former: XChaCha20Poly1305::new(&former) })
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("keys", &(1 + self.others.len())).finish_non_exhaustive()
    }
}

impl KeyRing {
    /// Derives a key from each secret, which may have any form; the first key seals.
    pub fn from_secrets<S: AsRef<[u8]>>(secrets: impl IntoIterator<Item = S>) -> Result<Self, KeyError> {
        let mut ciphers = Vec::new();
        for secret in secrets {
            if secret.as_ref().len() < MIN_SECRET_LENGTH {
                return Err(KeyError::TooShort);
            }
            ciphers.push(SealingKey::derive(secret.as_ref())?);
        }
        let mut ciphers = ciphers.into_iter();
        let first = ciphers.next().ok_or(KeyError::None)?;
        Ok(Self { first, others: ciphers.collect() })
    }

    /// Seals `content` until `expires` (seconds since the Unix epoch). `associated` is not in the token, but
    /// must be given again to open it: it binds the token to a purpose. `nonce` must be fresh and random.
    #[must_use]
    pub fn seal(&self, nonce: &Nonce, content: &[u8], associated: &[u8], expires: u64) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.seal_bytes(nonce, content, associated, expires))
    }

    /// Seals as [`KeyRing::seal`] does, without base64: for files.
    #[must_use]
    pub fn seal_bytes(&self, nonce: &Nonce, content: &[u8], associated: &[u8], expires: u64) -> Vec<u8> {
        self.seal_parts(nonce, &[content], associated, expires)
    }

    /// Seals as [`KeyRing::seal_bytes`] does, from parts of the content. They are encrypted in the returned
    /// bytes, so that a large content is in memory once more and not several times.
    #[must_use]
    pub fn seal_parts(&self, nonce: &Nonce, content: &[&[u8]], associated: &[u8], expires: u64) -> Vec<u8> {
        const HEAD: usize = 1 + NONCE_LENGTH;
        let length: usize = content.iter().map(|part| part.len()).sum();
        let mut sealed = Vec::with_capacity(HEAD + EXPIRY_LENGTH + length + TAG_LENGTH);
        sealed.push(VERSION);
        sealed.extend_from_slice(nonce);
        sealed.extend_from_slice(&expires.to_be_bytes());
        for part in content {
            sealed.extend_from_slice(part);
        }
        // Fails only beyond 256 GiB; the empty bytes that are returned then open as no token.
        let Some(message) = sealed.get_mut(HEAD..) else { return Vec::new() };
        let cipher = &self.first.present;
        match cipher.encrypt_inout_detached(&XNonce::from(*nonce), associated, message.into()) {
            Ok(tag) => sealed.extend_from_slice(tag.as_slice()),
            Err(_) => return Vec::new(),
        }
        sealed
    }

    /// Opens a token of at most [`MAX_TOKEN_LENGTH`] characters. `now` is in seconds since the Unix epoch.
    pub fn open(&self, token: &str, associated: &[u8], now: u64) -> Result<Opened, OpenError> {
        if token.len() > MAX_TOKEN_LENGTH {
            return Err(OpenError::Malformed);
        }
        self.open_long(token, associated, now)
    }

    /// Opens as [`KeyRing::open`] does a token of any length: one that travels in a body, whose reader bounds
    /// it.
    pub fn open_long(&self, token: &str, associated: &[u8], now: u64) -> Result<Opened, OpenError> {
        let raw = BASE64_URL_SAFE_NO_PAD.decode(token).map_err(|_| OpenError::Malformed)?;
        self.open_bytes(&raw, associated, now)
    }

    /// Opens the bytes of [`KeyRing::seal_bytes`].
    pub fn open_bytes(&self, raw: &[u8], associated: &[u8], now: u64) -> Result<Opened, OpenError> {
        let (version, rest) = raw.split_first().ok_or(OpenError::Malformed)?;
        if ![VERSION, FIRST_VERSION].contains(version) {
            return Err(OpenError::Malformed);
        }
        let (nonce, ciphertext) = rest.split_first_chunk::<NONCE_LENGTH>().ok_or(OpenError::Malformed)?;
        if ciphertext.len() < EXPIRY_LENGTH + TAG_LENGTH {
            return Err(OpenError::Malformed);
        }
        let nonce = XNonce::from(*nonce);
        let mut opened = std::iter::once(&self.first)
            .chain(&self.others)
            .map(|key| if *version == VERSION { &key.present } else { &key.former })
            .find_map(|cipher| cipher.decrypt(&nonce, Payload { msg: ciphertext, aad: associated }).ok())
            .ok_or(OpenError::Forged)?;
        let (expires, _) = opened.split_first_chunk::<EXPIRY_LENGTH>().ok_or(OpenError::Malformed)?;
        let expires = u64::from_be_bytes(*expires);
        if now >= expires {
            return Err(OpenError::Expired { at: expires });
        }
        drop(opened.drain(..EXPIRY_LENGTH));
        Ok(Opened { content: opened, expires })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: Nonce = [7; NONCE_LENGTH];
    const OLD: &[u8] = b"an old secret of enough bytes";
    const NEW: &[u8] = b"a newer secret of enough bytes";

    fn ring(secrets: &[&[u8]]) -> KeyRing {
        KeyRing::from_secrets(secrets).unwrap()
    }

    #[test]
    fn parts_are_sealed_as_the_whole_in_one_buffer() {
        let whole = ring(&[NEW]).seal_bytes(&NONCE, b"content", b"file", 100);
        let parts = ring(&[NEW]).seal_parts(&NONCE, &[b"con", b"", b"tent"], b"file", 100);
        assert_eq!(parts, whole);
        assert_eq!(parts.capacity(), parts.len(), "no buffer grew");
        let opened = ring(&[NEW]).open_bytes(&parts, b"file", 99).unwrap();
        assert_eq!((opened.content.as_slice(), opened.expires), (b"content".as_slice(), 100));
    }

    #[test]
    fn a_token_says_why_it_is_refused() {
        let token = ring(&[NEW]).seal(&NONCE, b"content", b"session", 100);
        let open = |token: &str, associated: &[u8], now| ring(&[NEW]).open(token, associated, now);
        assert_eq!(open(&token, b"session", 99), Ok(Opened { content: b"content".to_vec(), expires: 100 }));
        assert_eq!(open(&token, b"session", 100), Err(OpenError::Expired { at: 100 }));
        assert_eq!(open(&token, b"request state", 0), Err(OpenError::Forged));
        assert_eq!(open(&token[..40], b"session", 0), Err(OpenError::Malformed));
        assert_eq!(open(&token[..token.len() - 3], b"session", 0), Err(OpenError::Forged));
        for other in ["", "3f1b1c9e-0c0a-4c47-9d43-57a4c8c1bb8d", &"A".repeat(MAX_TOKEN_LENGTH + 4)] {
            assert_eq!(open(other, b"session", 0), Err(OpenError::Malformed), "{other}");
        }
    }

    #[test]
    fn tokens_from_before_the_change_of_derivation_are_opened() {
        // Sealed by the first version, with `NONCE` and an expiry of 100.
        let plaintext = [100_u64.to_be_bytes().as_slice(), b"content"].concat();
        let digest = Sha256::new().chain_update(b"vmcp sealed token v1\0").chain_update(NEW).finalize();
        let payload = Payload { msg: &plaintext, aad: b"session" };
        let sealed = XChaCha20Poly1305::new(&digest).encrypt(&XNonce::from(NONCE), payload).unwrap();
        let token = BASE64_URL_SAFE_NO_PAD.encode([&[1], NONCE.as_slice(), &sealed].concat());
        let opened = ring(&[OLD, NEW]).open(&token, b"session", 99).unwrap();
        assert_eq!(opened.content, b"content");
        let new = BASE64_URL_SAFE_NO_PAD.encode([&[2], NONCE.as_slice(), &sealed].concat());
        assert_eq!(
            ring(&[NEW]).open(&new, b"session", 99),
            Err(OpenError::Forged),
            "each version has its key"
        );
    }

    #[test]
    fn a_replaced_key_still_opens_while_it_is_listed() {
        let token = ring(&[OLD]).seal(&NONCE, b"", b"", 1);
        assert!(ring(&[NEW, OLD]).open(&token, b"", 0).is_ok());
        assert_eq!(ring(&[NEW]).open(&token, b"", 0), Err(OpenError::Forged));
        assert!(
            ring(&[NEW]).open(&ring(&[NEW, OLD]).seal(&NONCE, b"", b"", 1), b"", 0).is_ok(),
            "the first seals"
        );
    }

    #[test]
    fn secrets_must_be_hard_to_guess_and_stay_secret() {
        assert_eq!(KeyRing::from_secrets([b"short"]).unwrap_err(), KeyError::TooShort);
        assert_eq!(KeyRing::from_secrets::<&[u8]>([]).unwrap_err(), KeyError::None);
        assert_eq!(format!("{:?}", ring(&[NEW, OLD])), "KeyRing { keys: 2, .. }");
    }
}
