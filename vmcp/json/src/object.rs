//! [`Object`]: the top-level entries of a JSON object as slices of its text; and [`Edit`], which changes some
//! of them and leaves every other byte as it was.

mod edit;

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use serde_json::value::RawValue;

pub use edit::Edit;

use crate::scan;
use crate::text;

/// The reason why a text cannot be read as an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// Another kind of value.
    #[error("expected a JSON object")]
    NotAnObject,
    /// Not JSON. Cannot happen for the text of a [`RawValue`].
    #[error("invalid JSON: {0}")]
    Syntax(String),
    /// A repeated key: parsers disagree on which value counts, so a check made here might not hold for the
    /// backend.
    #[error("duplicate key `{0}`")]
    DuplicateKey(String),
    /// A key with half a surrogate pair.
    #[error("key {0} is not valid Unicode")]
    Key(String),
}

/// The entries of an object, in the order in which they were written. Values are slices of the object's text.
///
/// ```
/// use vmcp_json::object::Object;
///
/// let object = Object::parse_str(r#"{ "name" : "a", "x": 1e400 }"#)?;
/// assert_eq!(object.get_str("name").as_deref(), Some("a"));
/// assert_eq!(object.text("x"), Some("1e400"), "no number type could hold it");
/// # Ok::<(), vmcp_json::object::ObjectError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Object<'a> {
    raw: &'a str,
    entries: Vec<Entry<'a>>,
}

/// One entry; the spans count bytes of the object's text.
#[derive(Debug, Clone)]
struct Entry<'a> {
    key: Cow<'a, str>,
    key_span: Range<usize>,
    value: &'a str,
    value_span: Range<usize>,
}

impl Default for Object<'_> {
    fn default() -> Self {
        Self { raw: "{}", entries: Vec::new() }
    }
}

impl<'a> Object<'a> {
    /// Reads the top level of `raw`. A [`RawValue`] is valid JSON, so nested values are skipped and not
    /// parsed.
    pub fn parse(raw: &'a RawValue) -> Result<Self, ObjectError> {
        Self::parse_valid(raw.get())
    }

    /// Reads as [`Object::parse`] does, from the text of one valid JSON value, such as [`Object::text`]
    /// returns.
    pub fn parse_valid(raw: &'a str) -> Result<Self, ObjectError> {
        let json = raw.as_bytes();
        if json.first() != Some(&b'{') {
            return Err(ObjectError::NotAnObject);
        }
        let mut entries = Vec::with_capacity(4);
        let mut at = scan::skip_space(json, 1);
        while json.get(at) == Some(&b'"') {
            let key_span = at..scan::string_end(json, at + 1);
            // The first skip ends at the colon, the second behind it.
            let value_start = scan::skip_space(json, scan::skip_space(json, key_span.end) + 1);
            let value_span = value_start..scan::value_end(json, value_start);
            at = scan::skip_space(json, value_span.end);
            entries.push(Entry::new(raw, key_span, value_span)?);
            if json.get(at) == Some(&b',') {
                at = scan::skip_space(json, at + 1);
            }
        }
        match first_duplicate(&entries) {
            Some(key) => Err(ObjectError::DuplicateKey(key.to_owned())),
            None => Ok(Self { raw, entries }),
        }
    }

    /// Reads as [`Object::parse`] does, from text that is checked first.
    pub fn parse_str(text: &'a str) -> Result<Self, ObjectError> {
        Self::parse(serde_json::from_str(text).map_err(|e| ObjectError::Syntax(e.to_string()))?)
    }

    /// Returns the value of a key as JSON text.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| entry.value)
    }

    /// Returns the value of a key. The value is parsed once more to become a [`RawValue`]; where text will
    /// do, prefer [`Object::text`].
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a RawValue> {
        serde_json::from_str(self.text(key)?).ok()
    }

    /// Returns the plain text of a key whose value is a string.
    #[must_use]
    pub fn get_str(&self, key: &str) -> Option<Cow<'a, str>> {
        text::unquoted(self.text(key)?)
    }

    /// Iterates over the keys, in the order in which they were written.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.key.as_ref())
    }

    /// Iterates over the entries, in the order in which they were written. Parses each value once more, as
    /// [`Object::get`] does.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        let entry = |entry: &'_ Entry<'a>| serde_json::from_str(entry.value).ok();
        self.entries.iter().filter_map(move |one| Some((one.key.as_ref(), entry(one)?)))
    }

    /// Iterates over the values as JSON text, in the order in which they were written.
    pub fn values(&self) -> impl Iterator<Item = &'a str> {
        self.entries.iter().map(|entry| entry.value)
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True for an object without entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the object as it was written.
    #[must_use]
    pub fn raw(&self) -> &'a str {
        self.raw
    }

    /// Begins an [`Edit`]; the object itself stays as it is.
    #[must_use]
    pub fn edit(&self) -> Edit<'_, 'a> {
        Edit::new(self)
    }
}

impl<'a> Entry<'a> {
    fn new(raw: &'a str, key_span: Range<usize>, value_span: Range<usize>) -> Result<Self, ObjectError> {
        let key = raw.get(key_span.clone()).unwrap_or_default();
        let value = raw.get(value_span.clone()).unwrap_or_default();
        let key = text::unquoted(key).ok_or_else(|| ObjectError::Key(key.to_owned()))?;
        Ok(Self { key, key_span, value, value_span })
    }
}

/// Checks that each key, as written, is valid Unicode and that none is repeated in any spelling.
pub fn check_keys<'a>(written: impl Iterator<Item = &'a str> + Clone) -> Result<(), ObjectError> {
    // Most keys have no escape, and most objects few keys: they are compared where they stand.
    let is_plain = |key: &str| memchr::memchr(b'\\', key.as_bytes()).is_none();
    if written.clone().take(MAX_KEYS_COMPARED_PAIRWISE + 1).count() <= MAX_KEYS_COMPARED_PAIRWISE
        && written.clone().all(is_plain)
    {
        let is_repeated =
            |(count, key): &(usize, &str)| written.clone().take(*count).any(|other| other == *key);
        return match written.clone().enumerate().find(is_repeated) {
            Some((_, key)) => {
                Err(ObjectError::DuplicateKey(text::unquoted(key).unwrap_or_default().into_owned()))
            }
            None => Ok(()),
        };
    }
    let keys = written.map(|key| text::unquoted(key).ok_or_else(|| ObjectError::Key(key.to_owned())));
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    match repeated(keys.iter().map(AsRef::as_ref)) {
        Some(key) => Err(ObjectError::DuplicateKey(key.to_owned())),
        None => Ok(()),
    }
}

/// Up to this many keys are compared pairwise, which is faster than hashing; most objects have a handful.
const MAX_KEYS_COMPARED_PAIRWISE: usize = 16;

fn first_duplicate<'e>(entries: &'e [Entry<'_>]) -> Option<&'e str> {
    let keys = entries.iter().map(|entry| entry.key.as_ref());
    if entries.len() <= MAX_KEYS_COMPARED_PAIRWISE {
        let seen = |count, key: &str| entries.iter().take(count).any(|entry| entry.key == key);
        let mut keys = keys.enumerate();
        return keys.find(|(count, key)| seen(*count, key)).map(|(_, key)| key);
    }
    repeated(keys)
}

fn repeated<'e>(mut keys: impl Iterator<Item = &'e str>) -> Option<&'e str> {
    let mut seen = HashSet::new();
    keys.find(|key| !seen.insert(*key))
}

#[cfg(test)]
mod tests;
