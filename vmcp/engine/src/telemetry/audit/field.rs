//! Texts in events: those of clients are cut at a limit, with a digest of the whole.

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
    let digest = hex_text(&Sha256::digest(text.as_bytes()).into());
    Cow::Owned(format!("{kept}… ({} bytes, sha256:{digest})", text.len()))
}

/// Returns the two hexadecimal digits of each byte. `hex::encode` looks digits up one by one, for many times
/// as long; the compiler makes vector instructions of this loop.
pub(super) fn hex_digits<const BYTES: usize>(bytes: &[u8; BYTES]) -> [[u8; 2]; BYTES] {
    let digit = |value: u8| value + if value < 10 { b'0' } else { b'a' - 10 };
    let mut digits = [[0; 2]; BYTES];
    for (pair, byte) in digits.iter_mut().zip(bytes) {
        *pair = [digit(byte >> 4), digit(byte & 15)];
    }
    digits
}

/// Returns a digest in hex.
pub(super) fn hex_text(digest: &[u8; 32]) -> String {
    // Digits are ASCII.
    String::from_utf8_lossy(hex_digits(digest).as_flattened()).into_owned()
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

    #[test]
    fn digits_of_every_byte_are_those_of_the_library() {
        let bytes: [u8; 256] = std::array::from_fn(|byte| byte as u8);
        assert_eq!(hex_digits(&bytes).as_flattened(), hex::encode(bytes).as_bytes());
    }
}
