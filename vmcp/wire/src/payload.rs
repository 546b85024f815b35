//! [`Payload`]: the `result` or `error` of an answer, as text that vmcp wrote or as the bytes that a backend
//! sent.
//!
//! One pass of the [`Scanner`] over the arriving bytes finds the few keys that a gateway must know
//! ([`ScannedKeys`]), so that an answer which needs no change is relayed without being parsed. Whether its
//! nested values are JSON is for those to find out who read them.

mod grammar;
mod key_text;
mod loose_reply;
mod scanned_keys;
mod scanner;
mod skim;
mod utf8;

use std::ops::{Deref, Range};
use std::sync::{LazyLock, OnceLock};

use bytes::Bytes;
use memchr::memmem::Finder;
use serde_json::value::RawValue;
use vmcp_json::byte_rope::ByteRope;
use vmcp_json::text;

pub use loose_reply::{LooseReply, batch, loose_reply, mended_error, request_number};
pub use scanned_keys::{Key, ScannedKeys};
pub use scanner::{ScanError, Scanner};

/// Searches for content blocks that are links; prepared once, because each answer is searched.
static RESOURCE_LINK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"resource_link\""));

/// One JSON object. It dereferences to a [`RawValue`]; a received payload is parsed at the first such access,
/// which the path of an unchanged answer avoids. A payload that is not JSON reads as `null`, and as its text
/// by [`Payload::get`], so that a parser can tell what is wrong.
#[derive(Debug, Clone)]
pub struct Payload(Inner);

#[derive(Debug, Clone)]
enum Inner {
    Text(Box<RawValue>),
    Received(Received),
}

/// A payload within the answer that it arrived in.
#[derive(Debug, Clone)]
pub struct Received {
    /// The whole answer.
    message: ByteRope,
    found: ScannedKeys,
    range: Range<usize>,
    /// The text, if it is not JSON.
    parsed: OnceLock<Result<Box<RawValue>, Box<str>>>,
}

/// Bytes of an answer, and the text that goes there instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) range: Range<usize>,
    pub(crate) text: String,
}

/// The two kinds of answer.
#[derive(Debug, Clone)]
pub enum Reply {
    /// The `result`.
    Result(Payload),
    /// The `error`.
    Error(Payload),
}

/// Sorts an answer into result and error by the keys that a [`Scanner`] found in it. Returns the bytes again
/// if they are not a JSON-RPC answer to the request with `id`.
pub fn reply(message: ByteRope, found: ScannedKeys, id: &str) -> Result<Reply, ByteRope> {
    let is = |key, json: &str| found.range(key).is_some_and(|range| message.has_at(range, json.as_bytes()));
    let is_answer = is(Key::Version, "\"2.0\"") && is(Key::Id, id) && !found.has(Key::Method);
    let key = match (found.has(Key::Result), found.has(Key::Error)) {
        (true, false) => Key::Result,
        (false, true) => Key::Error,
        _ => return Err(message),
    };
    let Some(range) = found.range(key).filter(|_| is_answer && found.is_object(key)) else {
        return Err(message);
    };
    let payload = Payload(Inner::Received(Received { message, found, range, parsed: OnceLock::new() }));
    Ok(if key == Key::Result { Reply::Result(payload) } else { Reply::Error(payload) })
}

impl Payload {
    /// Returns the payload within its answer, if it was received.
    #[must_use]
    pub fn received(&self) -> Option<&Received> {
        match &self.0 {
            Inner::Received(received) => Some(received),
            Inner::Text(_) => None,
        }
    }

    /// True if the result has `isError: true`: the tool itself failed.
    #[must_use]
    pub fn is_tool_error(&self) -> bool {
        match &self.0 {
            Inner::Received(received) => received.found.is_true(Key::IsError),
            Inner::Text(text) => {
                let object = vmcp_json::object::Object::parse(text);
                object.is_ok_and(|object| object.text("isError") == Some("true"))
            }
        }
    }

    /// True if the JSON text contains `part`, byte for byte.
    #[must_use]
    pub fn contains(&self, part: &str) -> bool {
        let finder = Finder::new(part);
        match &self.0 {
            Inner::Received(received) => received.holds(received.range.clone(), &finder),
            Inner::Text(text) => finder.find(text.get().as_bytes()).is_some(),
        }
    }

    /// True if the result may hold resource links: the word is in its text, outside of structured content.
    #[must_use]
    pub fn may_hold_links(&self) -> bool {
        match &self.0 {
            Inner::Received(received) => {
                let Range { start, end } = received.range;
                let structured = received.found.range(Key::StructuredContent).unwrap_or(end..end);
                received.holds(start..structured.start, &RESOURCE_LINK)
                    || received.holds(structured.end..end, &RESOURCE_LINK)
            }
            Inner::Text(text) => RESOURCE_LINK.find(text.get().as_bytes()).is_some(),
        }
    }

    /// Returns the JSON text; of a received payload that is not JSON, what was received.
    #[must_use]
    pub fn get(&self) -> &str {
        match &self.0 {
            Inner::Received(received) => received.parsed().map_or_else(|text| text, RawValue::get),
            Inner::Text(text) => text.get(),
        }
    }

    /// Returns a copy of the JSON text, or of the bytes of a received payload of another form. Unlike a
    /// clone, it does not keep the whole answer in memory, and it is made without parsing.
    #[must_use]
    pub fn copied(&self) -> Box<[u8]> {
        match &self.0 {
            Inner::Received(received) => {
                let bytes = received.message.slice(received.range.clone()).into_bytes();
                Box::from(&*bytes)
            }
            Inner::Text(text) => Box::from(text.get().as_bytes()),
        }
    }

    /// Returns the JSON text, or the bytes of a received payload of another form, made without parsing. Bytes
    /// that arrived in several pieces are joined in a copy.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        match &self.0 {
            Inner::Received(received) => received.message.slice(received.range.clone()).into_bytes(),
            Inner::Text(text) => Bytes::copy_from_slice(text.get().as_bytes()),
        }
    }

    /// Returns the length of the JSON text in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        match &self.0 {
            Inner::Received(received) => received.range.len(),
            Inner::Text(text) => text.get().len(),
        }
    }

    /// Returns the payload as an owned raw value.
    #[must_use]
    pub fn into_raw(self) -> Box<RawValue> {
        match self.0 {
            Inner::Text(text) => text,
            Inner::Received(received) => {
                _ = received.parsed();
                received.parsed.into_inner().and_then(Result::ok).unwrap_or_default()
            }
        }
    }
}

impl Received {
    /// Returns the keys that were found in the whole answer.
    #[must_use]
    pub fn found(&self) -> &ScannedKeys {
        &self.found
    }

    /// Returns the JSON text of a key.
    #[must_use]
    pub fn text(&self, key: Key) -> Option<Bytes> {
        Some(self.message.slice(self.found.range(key)?).into_bytes())
    }

    /// True if the needle is in this part of the whole answer.
    fn holds(&self, range: Range<usize>, finder: &Finder<'_>) -> bool {
        finder.find(&self.message.slice(range).into_bytes()).is_some()
    }

    /// True if the value of a key is written like `json`.
    pub(crate) fn is(&self, key: Key, json: &str) -> bool {
        self.found.range(key).is_some_and(|range| self.message.has_at(range, json.as_bytes()))
    }

    /// Returns the plain text of a key whose value is a string.
    #[must_use]
    pub fn string(&self, key: Key) -> Option<String> {
        let bytes = self.text(key)?;
        text::unquoted(std::str::from_utf8(&bytes).ok()?).map(std::borrow::Cow::into_owned)
    }

    /// Returns the payload with `changes`, whose places in the whole answer ascend.
    pub(crate) fn with(&self, changes: impl IntoIterator<Item = Change>) -> ByteRope {
        let mut out = ByteRope::new();
        let mut start = self.range.start;
        for change in changes {
            out.append(self.message.slice(start..change.range.start));
            out.push(change.text);
            start = change.range.end;
        }
        out.append(self.message.slice(start..self.range.end));
        out
    }

    fn parsed(&self) -> Result<&RawValue, &str> {
        let parsed = self.parsed.get_or_init(|| {
            let bytes = self.message.slice(self.range.clone()).into_bytes();
            serde_json::from_slice(&bytes).map_err(|_| String::from_utf8_lossy(&bytes).into())
        });
        parsed.as_deref().map_err(|text| &**text)
    }
}

impl Deref for Payload {
    type Target = RawValue;

    fn deref(&self) -> &RawValue {
        match &self.0 {
            Inner::Text(text) => text,
            Inner::Received(received) => received.parsed().unwrap_or(RawValue::NULL),
        }
    }
}

impl From<Box<RawValue>> for Payload {
    fn from(text: Box<RawValue>) -> Self {
        Self(Inner::Text(text))
    }
}

#[cfg(test)]
mod tests;
