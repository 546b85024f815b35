//! [`JsonRope`]: a rope of JSON text, made of slices of a received message and the few texts inserted between
//! them.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// One JSON value as a rope: pieces that are written one after another.
///
/// Nothing is copied until [`JsonRope::write_to`], so a megabyte of content costs one copy on its way
/// through.
///
/// ```
/// use vmcp_json::json_rope::JsonRope;
///
/// let mut message = b"{\"result\":".to_vec();
/// JsonRope::from("[1,2]").write_to(&mut message);
/// assert_eq!(message, b"{\"result\":[1,2]");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JsonRope<'a> {
    pieces: Vec<Cow<'a, str>>,
}

impl<'a> JsonRope<'a> {
    /// Returns the number of bytes that [`JsonRope::write_to`] appends.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).sum()
    }

    /// True for a rope without text, which is not a JSON value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.iter().all(|piece| piece.is_empty())
    }

    /// Appends the text to `out`.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            out.extend_from_slice(piece.as_bytes());
        }
    }

    /// Returns the text as a whole; borrowed if the rope is a single borrowed slice, that is, if nothing was
    /// changed.
    #[must_use]
    pub fn into_cow(mut self) -> Cow<'a, str> {
        match self.pieces.len() {
            1 => self.pieces.pop().unwrap_or_default(),
            _ => Cow::Owned(self.pieces.concat()),
        }
    }

    /// Returns the text as an owned raw value. The text is parsed once more; on the path of a large result,
    /// prefer [`JsonRope::write_to`].
    pub fn into_raw(self) -> Result<Box<RawValue>, serde_json::Error> {
        RawValue::from_string(self.into_cow().into_owned())
    }

    /// Iterates over the pieces.
    pub fn pieces(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().map(AsRef::as_ref)
    }

    /// Appends a piece; an empty one is left out.
    pub(crate) fn push(&mut self, piece: impl Into<Cow<'a, str>>) {
        let piece = piece.into();
        if !piece.is_empty() {
            self.pieces.push(piece);
        }
    }

    /// Appends the pieces of another value.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.pieces.append(&mut other.pieces);
    }

    /// True if the rope is the single piece `text`.
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(self.pieces.as_slice(), [only] if only == text)
    }
}

impl<'a> From<&'a str> for JsonRope<'a> {
    /// `json` must be one JSON value.
    fn from(json: &'a str) -> Self {
        Self { pieces: vec![Cow::Borrowed(json)] }
    }
}

impl From<String> for JsonRope<'_> {
    /// `json` must be one JSON value.
    fn from(json: String) -> Self {
        Self { pieces: vec![Cow::Owned(json)] }
    }
}

impl<'a> From<&'a RawValue> for JsonRope<'a> {
    fn from(raw: &'a RawValue) -> Self {
        Self::from(raw.get())
    }
}
