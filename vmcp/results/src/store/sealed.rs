//! [`SealedResult`]: a result under the session keys, as files and shared stores keep it.

use serde::{Deserialize, Serialize};
use vmcp_wire::sealed::{KeyRing, Nonce, Opened};

use super::{Key, Origin, Owner, Reference, StoredResult, owner_digest};
use crate::content::Content;

/// Names under which a result is kept outside of the process: digests, which tell neither the owner nor the
/// reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedName {
    /// Digest of the owner.
    pub owner: Owner,
    /// Digest of the owner and the reference.
    pub key: Key,
}

/// A sealed result.
#[derive(Debug)]
pub struct SealedResult {
    /// Its names; the bytes open under no others.
    pub name: SealedName,
    /// The sealed bytes.
    pub bytes: Vec<u8>,
}

/// The head of the sealed part: a line of JSON before the content.
#[derive(Serialize, Deserialize)]
struct Head {
    origin: Origin,
    is_json: bool,
}

impl SealedName {
    /// Returns the names of a result of this owner; `None` for a text of another form.
    pub fn of(owner: &Owner, reference: &str) -> Option<SealedName> {
        Some(SealedName::new(owner, &Reference::parse(reference)?))
    }

    pub(super) fn new(owner: &Owner, reference: &Reference) -> SealedName {
        SealedName { owner: owner_digest(owner), key: reference.key(owner) }
    }

    /// Returns the context that a result is bound to: exchanged results do not open.
    fn associated(&self) -> Vec<u8> {
        [b"vmcp stored result v1\0".as_slice(), &self.owner, &self.key].concat()
    }

    /// Opens a result that was sealed under these names; `None` if it is another's, expired or altered, or if
    /// the keys do not open it.
    pub fn open(&self, bytes: &[u8], ring: &KeyRing, now: u64) -> Option<StoredResult> {
        let Opened { mut content, expires } = ring.open_bytes(bytes, &self.associated(), now).ok()?;
        let end = content.iter().position(|byte| *byte == b'\n')?;
        let head: Head = serde_json::from_slice(content.get(..end)?).ok()?;
        // Moved to the begin of its buffer: a copy would be of many megabytes.
        drop(content.drain(..=end));
        let content = Content::restored(head.is_json, String::from_utf8(content).ok()?);
        Some(StoredResult { origin: head.origin, content, expires })
    }
}

/// Seals a result under its names. `nonce` is random and used once.
pub(super) fn seal(
    name: SealedName,
    stored: &StoredResult,
    ring: &KeyRing,
    nonce: &Nonce,
) -> serde_json::Result<SealedResult> {
    let head = Head { origin: stored.origin.clone(), is_json: stored.content.is_json() };
    let head = serde_json::to_vec(&head)?;
    let parts = [head.as_slice(), b"\n", stored.content.text().as_bytes()];
    let bytes = ring.seal_parts(nonce, &parts, &name.associated(), stored.expires);
    Ok(SealedResult { name, bytes })
}
