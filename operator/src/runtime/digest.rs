//! Digests in annotations, by which a change of settings or of Secret values replaces pods.

use sha2::{Digest as _, Sha256};

/// Hex digits of a digest that stands in an annotation.
const SHORT: usize = 16;

/// SHA-256 over a list of parts. Each part has its length in front, so that no two lists have the same bytes.
pub(crate) struct PartsDigest(Sha256);

impl PartsDigest {
    /// Starts with a key. A secret key keeps the digest from confirming a guess of a part: every reader of
    /// pods sees it.
    pub(crate) fn keyed(key: &[u8]) -> Self {
        let mut digest = Self(Sha256::new());
        digest.add(key);
        digest
    }

    /// Adds a part.
    pub(crate) fn add(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    /// Returns the first 8 bytes, in hex.
    pub(crate) fn finish(self) -> String {
        let mut text = hex::encode(self.0.finalize());
        text.truncate(SHORT);
        text
    }
}

/// Returns the first `digits` hex digits of the SHA-256 of a text that is not secret.
pub(crate) fn hex_digest(text: impl AsRef<[u8]>, digits: usize) -> String {
    let mut digest = hex::encode(Sha256::digest(text));
    digest.truncate(digits);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(key: &str, parts: &[&str]) -> String {
        let mut digest = PartsDigest::keyed(key.as_bytes());
        for part in parts {
            digest.add(part.as_bytes());
        }
        digest.finish()
    }

    #[test]
    fn a_digest_depends_on_the_key_and_on_the_bounds_of_its_parts() {
        let known = digest("key", &["ab", "c"]);
        assert_eq!(known.len(), SHORT);
        assert_eq!(known, digest("key", &["ab", "c"]));
        for (key, parts) in [("other", ["ab", "c"]), ("key", ["a", "bc"]), ("key", ["abc", ""])] {
            assert_ne!(known, digest(key, &parts), "{key} {parts:?}");
        }
        // Pods of an earlier version of the operator keep their annotations.
        assert_eq!(hex_digest("", 8), "e3b0c442");
    }
}
