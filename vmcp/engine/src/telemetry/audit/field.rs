//! Texts in events: those of clients are cut at a limit, with a digest of the whole.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// Most bytes of one text in an event, 1 KiB; a longer text is cut, and its length and SHA-256 follow.
pub(super) const MAX_FIELD_BYTES: usize = 1024;

/// Returns a text as events hold it.
pub(super) fn clip(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_FIELD_BYTES {
        return Cow::Borrowed(text);
    }
    let kept = text.get(..text.floor_char_boundary(MAX_FIELD_BYTES)).unwrap_or_default();
    let digest = hex_text(&Sha256::digest(text.as_bytes()));
    Cow::Owned(format!("{kept}… ({} bytes, sha256:{digest})", text.len()))
}

/// Returns bytes in hex. `hex::encode` collects characters one by one, for many times as long.
pub(super) fn hex_text(bytes: &[u8]) -> String {
    let mut text = vec![b'0'; bytes.len() * 2];
    // The length fits.
    let _ = hex::encode_to_slice(bytes, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// A few members of a JSON object, in the order in which they were put in.
#[derive(Default)]
pub(super) struct Members<'a>(Vec<(&'static str, Cow<'a, str>)>);

impl<'a> Members<'a> {
    /// Adds a member; the object must not have it yet.
    pub(super) fn insert(&mut self, key: &'static str, value: Cow<'a, str>) {
        self.0.push((key, value));
    }

    /// Takes a member out.
    pub(super) fn remove(&mut self, key: &str) -> Option<Cow<'a, str>> {
        let at = self.0.iter().position(|(name, _)| *name == key)?;
        Some(self.0.remove(at).1)
    }
}

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_and_its_digest_tells_it_from_others() {
        let (one, other) = ("ä".repeat(3000), "ä".repeat(3000) + "x");
        let (cut, cut_other) = (clip(&one), clip(&other));
        assert!(cut.len() < MAX_FIELD_BYTES + 120, "{}", cut.len());
        assert!(cut.contains("6000 bytes, sha256:"), "{cut}");
        assert_ne!(cut, cut_other);
        assert_eq!(clip("short"), "short");
    }
}
