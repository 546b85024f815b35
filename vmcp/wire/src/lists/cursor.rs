//! Our own pagination cursors: they describe themselves, so that any replica can go on from one, and name the last
//! entry sent rather than count entries, so that a changed list neither repeats nor skips the others.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::lists::pages::List;

/// The longest cursor accepted, in characters; names and URIs longer than its three quarters cannot be resumed from.
pub const MAX_LENGTH: usize = 16 * 1024;
const VERSION: u8 = 2;

/// A place in one of our lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The list.
    pub list: List,
    /// The name (or URI) of the last entry sent. The next page begins behind it, whether or not it still exists.
    pub after: String,
}

/// Not one of our cursors, or one of another list; answer with -32602.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`cursor` is not one that this server issued for this list; start again without a cursor")]
pub struct BadCursor;

impl Cursor {
    /// The cursor as it travels.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut bytes = vec![VERSION, self.list.tag()];
        bytes.extend_from_slice(self.after.as_bytes());
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a cursor that was issued for `list`.
    pub fn decode(text: &str, list: List) -> Result<Self, BadCursor> {
        if text.len() > MAX_LENGTH {
            return Err(BadCursor);
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| BadCursor)?;
        let (head, after) = bytes.split_first_chunk().ok_or(BadCursor)?;
        if *head != [VERSION, list.tag()] {
            return Err(BadCursor);
        }
        let after = std::str::from_utf8(after).map_err(|_| BadCursor)?.to_owned();
        Ok(Self { list, after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_cursors_of_the_same_list_are_read() {
        let cursor = Cursor { list: List::Tools, after: "größe".into() };
        let text = cursor.encode();
        assert_eq!(Cursor::decode(&text, List::Tools), Ok(cursor));
        assert_eq!(Cursor::decode(&text, List::Prompts), Err(BadCursor));
        for bad in ["", "AA", "tool_42", &text[1..], &format!("{text}="), &"A".repeat(MAX_LENGTH + 1)] {
            assert_eq!(Cursor::decode(bad, List::Tools), Err(BadCursor), "{bad}");
        }
    }
}
