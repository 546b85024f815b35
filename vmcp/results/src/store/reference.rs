//! References to results: `res_` and 128 random bits in base64url.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::{Key, Owner};

/// Bytes of a random id: as many as a UUID, beyond guessing.
pub const ID_BYTES: usize = 16;
/// Prefix of a reference.
const PREFIX: &str = "res_";

/// A reference to a result. It is of use to the owner of the result alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference([u8; ID_BYTES]);

impl Reference {
    /// Makes a reference of a random id.
    pub(super) fn new(id: [u8; ID_BYTES]) -> Reference {
        Reference(id)
    }

    /// Parses a reference, which has one spelling.
    pub(crate) fn parse(text: &str) -> Option<Reference> {
        let id = BASE64_URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?).ok()?;
        id.try_into().ok().map(Reference)
    }

    /// Returns the digest by which the result of this owner is found.
    pub(super) fn key(&self, owner: &Owner) -> Key {
        Sha256::new()
            .chain_update(b"vmcp result\0")
            .chain_update(owner)
            .chain_update(self.0)
            .finalize()
            .into()
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(self.0))
    }
}
