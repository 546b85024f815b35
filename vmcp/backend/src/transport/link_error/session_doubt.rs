//! [`SessionDoubt`]: traces of a lost session in a server's answer. Servers have many words for it; the
//! traces of two answers tell whether both were refused for one reason.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Bytes of an answer that are looked at.
const MAX_BYTES: usize = 500;

/// Traces of a lost session in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionDoubt {
    /// It speaks of sessions, or of a handshake that is missing.
    pub(crate) speaks_of_session: bool,
    /// It speaks of a handshake that is missing.
    pub(crate) speaks_of_start: bool,
    /// Digest of the text without its digits: ids and times differ from answer to answer.
    digest: u64,
}

impl SessionDoubt {
    pub(crate) fn read(answer: &[u8]) -> Self {
        let text = String::from_utf8_lossy(answer.get(..MAX_BYTES).unwrap_or(answer)).to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        // The stem of all spellings of "initialized" and "initialization".
        let speaks_of_start = says(&["initiali", "handshake"]);
        let mut hasher = DefaultHasher::new();
        for letter in text.chars().filter(|letter| !letter.is_ascii_digit()) {
            letter.hash(&mut hasher);
        }
        let speaks_of_session = speaks_of_start || says(&["session"]);
        Self { speaks_of_session, speaks_of_start, digest: hasher.finish() }
    }

    /// True if both answers say the same.
    pub(crate) fn is_same(self, other: Self) -> bool {
        self.digest == other.digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_the_field_are_told_apart() {
        let read = |text: &str| SessionDoubt::read(text.as_bytes());
        for lost in [
            "Bad Request: Server not initialized",
            "Unauthorized: Session not found",
            "Unexpected message, expect initialize request",
            "No valid SESSION ID provided",
        ] {
            assert!(read(lost).speaks_of_session, "{lost}");
        }
        assert!(read("Server not initialized").speaks_of_start && !read("no session").speaks_of_start);
        assert!(!read("invalid arguments").speaks_of_session);
        assert!(read(r#"{"id":7,"error":"gone"}"#).is_same(read(r#"{"id":12,"error":"gone"}"#)));
        assert!(!read("no such tool").is_same(read("no such method")));
    }
}
