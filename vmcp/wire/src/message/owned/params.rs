//! [`OwnedParams`]: the parameters of a request or notification, with the places of their keys.

use std::borrow::Cow;
use std::sync::Arc;

use bytestring::ByteString;
use vmcp_json::object::ObjectError;
use vmcp_json::reader::Reader;
use vmcp_json::text;

use super::read::{Entry, Keys, Level, Span};
use crate::message::envelope::MAX_DEPTH;
use crate::message::params::ParamsError;

/// Parameters within the message that they came in, or of their own. Values are slices of that text.
#[derive(Debug, Clone)]
pub struct OwnedParams {
    /// The text that the offsets refer to.
    pub(crate) message: ByteString,
    /// `None` if the message has no parameters.
    pub(crate) span: Option<Span>,
    pub(crate) keys: Arc<Keys>,
}

impl Default for OwnedParams {
    fn default() -> Self {
        Self { message: ByteString::new(), span: None, keys: Arc::default() }
    }
}

impl OwnedParams {
    pub(super) fn new(message: ByteString, span: Option<Span>, keys: Keys) -> Self {
        Self { message, span, keys: Arc::new(keys) }
    }

    /// Returns `{}`, which a message has and which holds nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self::from_text("{}").unwrap_or_default()
    }

    /// Reads parameters that no message surrounds: the text of an object, nested no deeper than in a message
    /// ([`MAX_DEPTH`]).
    ///
    /// ```
    /// use vmcp_wire::owned::OwnedParams;
    ///
    /// let params = OwnedParams::from_text(r#"{"name":"echo"}"#)?;
    /// assert_eq!(params.get_str("name").as_deref(), Some("echo"));
    /// # Ok::<(), vmcp_wire::params::ParamsError>(())
    /// ```
    pub fn from_text(json: impl Into<ByteString>) -> Result<Self, ParamsError> {
        let message = json.into();
        let mut reader = Reader::new(message.as_bytes());
        let mut keys = Keys::default();
        let read = keys.read(&mut reader, &message).and_then(|span| reader.finish().map(|()| span));
        let span = read.map_err(|error| ParamsError::Params(ObjectError::Syntax(error.to_string())))?;
        if !span.is_some_and(|span| text::is_object(span.of(&message))) {
            return Err(ParamsError::Params(ObjectError::NotAnObject));
        }
        if keys.depth >= MAX_DEPTH {
            let problem = format!("nests more than {MAX_DEPTH} levels deep");
            return Err(ParamsError::Params(ObjectError::Syntax(problem)));
        }
        keys.check(&message)?;
        Ok(Self::new(message, span, keys))
    }

    /// True if the message has parameters; absent ones read as `{}`.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.span.is_some()
    }

    /// Returns the parameters as JSON text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.span.map_or("{}", |span| span.of(&self.message))
    }

    /// Returns the value of a key as JSON text.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.find(Level::Params, key).map(|(_, entry)| entry.value.of(&self.message))
    }

    /// Returns the plain text of a key whose value is a string.
    #[must_use]
    pub fn get_str(&self, key: &str) -> Option<Cow<'_, str>> {
        text::unquoted(self.get(key)?)
    }

    /// Returns the keys, in the order in which they were written.
    pub fn keys(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.entries(Level::Params).filter_map(|entry| text::unquoted(entry.key.of(&self.message)))
    }

    /// Returns a part of these parameters, as their accessors return it, without a copy.
    #[must_use]
    pub fn share(&self, part: &str) -> ByteString {
        // Everything that the accessors return is a slice of the message, or static.
        let within = self.message.as_bytes().as_ptr_range();
        let part_range = part.as_bytes().as_ptr_range();
        if within.start <= part_range.start && part_range.end <= within.end {
            self.message.slice_ref(part)
        } else {
            ByteString::from(part)
        }
    }

    pub(super) fn entries(&self, level: Level) -> impl Iterator<Item = &Entry> {
        self.keys.entries.iter().filter(move |entry| entry.level == level)
    }

    /// Returns an entry and its place among all entries.
    pub(super) fn find(&self, level: Level, key: &str) -> Option<(usize, &Entry)> {
        let mut entries = self.keys.entries.iter().enumerate();
        entries.find(|(_, entry)| entry.level == level && entry.is(&self.message, key))
    }

    pub(super) fn key_at(&self, at: usize) -> Option<Cow<'_, str>> {
        text::unquoted(self.keys.entries.get(at)?.key.of(&self.message))
    }
}
