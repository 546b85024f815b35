//! A JSON object as an ordered list of its top-level entries, and edits that leave all other bytes as they were.

mod edit;

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

pub use edit::Edit;

use crate::json;

/// Why a text cannot be read as an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// Some other kind of value.
    #[error("expected a JSON object")]
    NotAnObject,
    /// Not JSON. Cannot happen for the text of a `RawValue`.
    #[error("invalid JSON: {0}")]
    Syntax(String),
    /// A key that is there twice means different things to different readers, so that a check made here would not
    /// hold behind us.
    #[error("duplicate key `{0}`")]
    DuplicateKey(String),
    /// A key that holds half of a surrogate pair.
    #[error("key {0} is not valid Unicode")]
    Key(String),
}

/// The entries of an object, in order. Values are slices of the text it was read from.
#[derive(Debug, Clone)]
pub struct Object<'a> {
    raw: &'a str,
    entries: Vec<Entry<'a>>,
}

/// One entry. The offsets count bytes of the object's text.
#[derive(Debug, Clone)]
struct Entry<'a> {
    key: Cow<'a, str>,
    key_start: usize,
    key_end: usize,
    value: &'a RawValue,
    value_start: usize,
    value_end: usize,
}

impl Default for Object<'_> {
    fn default() -> Self {
        Self { raw: "{}", entries: Vec::new() }
    }
}

impl<'a> Object<'a> {
    /// Reads the top level of `raw`. Nested values are checked for syntax and otherwise skipped.
    pub fn parse(raw: &'a RawValue) -> Result<Self, ObjectError> {
        Self::parse_str(raw.get())
    }

    /// As [`Object::parse`], for text that may be anything.
    pub fn parse_str(text: &'a str) -> Result<Self, ObjectError> {
        let raw = text.trim_matches([' ', '\t', '\n', '\r']);
        if !raw.starts_with('{') {
            return Err(ObjectError::NotAnObject);
        }
        let Pairs(pairs) = serde_json::from_str(raw).map_err(|e| ObjectError::Syntax(e.to_string()))?;
        let entries = pairs
            .into_iter()
            .map(|(key, value)| Entry::new(raw, key, value))
            .collect::<Result<Vec<_>, _>>()?;
        match first_duplicate(&entries) {
            Some(key) => Err(ObjectError::DuplicateKey(key.to_owned())),
            None => Ok(Self { raw, entries }),
        }
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| entry.value)
    }

    /// The text of a key whose value is a string.
    #[must_use]
    pub fn get_str(&self, key: &str) -> Option<Cow<'a, str>> {
        json::unquoted(self.get(key)?)
    }

    /// The entries, in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.entries.iter().map(|entry| (entry.key.as_ref(), entry.value))
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The object as it was written.
    #[must_use]
    pub fn raw(&self) -> &'a str {
        self.raw
    }

    /// Begins an edit; the object itself stays as it is.
    #[must_use]
    pub fn edit(&self) -> Edit<'_, 'a> {
        Edit::new(self)
    }
}

impl<'a> Entry<'a> {
    fn new(raw: &str, key: &'a RawValue, value: &'a RawValue) -> Result<Self, ObjectError> {
        // Both are slices of `raw`, so the distance of their addresses is their place in it.
        let offset = |part: &RawValue| part.get().as_ptr().addr().wrapping_sub(raw.as_ptr().addr());
        let (key_start, value_start) = (offset(key), offset(value));
        Ok(Self {
            key_start,
            key_end: key_start + key.get().len(),
            value_start,
            value_end: value_start + value.get().len(),
            key: json::unquoted(key).ok_or_else(|| ObjectError::Key(key.get().to_owned()))?,
            value,
        })
    }
}

/// Most objects have a handful of keys, which are compared faster than hashed.
const FEW: usize = 16;

fn first_duplicate<'e>(entries: &'e [Entry<'_>]) -> Option<&'e str> {
    let mut keys = entries.iter().map(|entry| entry.key.as_ref());
    if entries.len() <= FEW {
        let seen = |count, key: &str| entries.iter().take(count).any(|entry| entry.key == key);
        return keys.enumerate().find(|(count, key)| seen(*count, key)).map(|(_, key)| key);
    }
    let mut seen = HashSet::with_capacity(entries.len());
    keys.find(|key| !seen.insert(*key))
}

/// Keys and values of an object, undecoded.
struct Pairs<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;

        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::with_capacity(4);
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(PairsVisitor)
    }
}

#[cfg(test)]
mod tests;
