//! [`Cursor`]: the pagination cursor of vmcp's own lists. A cursor describes itself, so that any replica can
//! go on from it, and names the last entry sent instead of an offset, so that a changed list neither repeats
//! nor skips the others.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::lists::pages::List;

/// The longest cursor accepted, in characters; a longer one is refused. Base64 leaves three quarters of it
/// for the name or URI.
pub const MAX_LENGTH: usize = 16 * 1024;
const VERSION: u8 = 2;

/// A place in one of vmcp's lists.
///
/// ```
/// use vmcp_wire::lists::cursor::Cursor;
/// use vmcp_wire::lists::pages::List;
///
/// let cursor = Cursor { list: List::Tools, after: "echo".to_owned() };
/// assert_eq!(Cursor::decode(&cursor.encode(), List::Tools).as_ref(), Ok(&cursor));
/// assert!(Cursor::decode(&cursor.encode(), List::Prompts).is_err(), "a cursor belongs to its list");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The list.
    pub list: List,
    /// The name or URI of the last entry sent. The next page begins behind it, even if the entry is gone by
    /// then.
    pub after: String,
}

/// The error for a cursor that vmcp did not issue, or issued for another list; answer with -32602.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`cursor` is not one that this server issued for this list; start again without a cursor")]
pub struct BadCursor;

impl Cursor {
    /// Encodes the cursor as it travels: base64url of version, list and name.
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
