//! Texts of clients in events: cut at a limit, with a digest of the whole.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

/// Most bytes of one text in an event, 1 KiB; a longer text is cut, and its length and SHA-256 follow.
pub(super) const MAX_FIELD_BYTES: usize = 1024;

/// Returns a text as events hold it.
pub(super) fn clip(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_FIELD_BYTES {
        return Cow::Borrowed(text);
    }
    let kept = text.get(..text.floor_char_boundary(MAX_FIELD_BYTES)).unwrap_or_default();
    let digest = hex::encode(Sha256::digest(text.as_bytes()));
    Cow::Owned(format!("{kept}… ({} bytes, sha256:{digest})", text.len()))
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
