//! Raw JSON, one level at a time: values stay slices of their text, so that a result of many megabytes never
//! becomes a tree.

use std::fmt;

use serde::Deserializer;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

/// Type of a JSON value, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number without fraction and exponent.
    Integer,
    /// Any other number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl Kind {
    /// Returns the name of the type, as JSON Schema has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Boolean => "boolean",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::String => "string",
            Kind::Array => "array",
            Kind::Object => "object",
        }
    }
}

/// Returns the type of a value.
pub(crate) fn kind(raw: &RawValue) -> Kind {
    let text = raw.get();
    match text.bytes().next() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::String,
        Some(b't' | b'f') => Kind::Boolean,
        Some(b'n') | None => Kind::Null,
        Some(_) if text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => Kind::Number,
        Some(_) => Kind::Integer,
    }
}

/// Returns the elements of an array; `None` for another type.
pub(crate) fn items(raw: &RawValue) -> Option<Vec<&RawValue>> {
    if kind(raw) != Kind::Array {
        return None;
    }
    serde_json::from_str(raw.get()).ok()
}

/// Returns the entries of an object in their order, repeated keys included; `None` for another type.
pub(crate) fn entries(raw: &RawValue) -> Option<Vec<(String, &RawValue)>> {
    if kind(raw) != Kind::Object {
        return None;
    }
    let mut text = serde_json::Deserializer::from_str(raw.get());
    text.deserialize_map(Entries).ok()
}

/// Returns the text of a string; `None` for another type.
pub(crate) fn string(raw: &RawValue) -> Option<String> {
    if kind(raw) != Kind::String {
        return None;
    }
    serde_json::from_str(raw.get()).ok()
}

/// Parses a whole text; `None` for a text that is not JSON.
pub(crate) fn parse(text: &str) -> Option<&RawValue> {
    serde_json::from_str(text).ok()
}

struct Entries;

impl<'a> Visitor<'a> for Entries {
    type Value = Vec<(String, &'a RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_level_is_read_and_what_is_deeper_stays_text() {
        let raw = parse(r#"{"a": [1, 2], "a": 2.5, "é\n": null}"#).unwrap();
        let entries = entries(raw).unwrap();
        let read: Vec<_> = entries.iter().map(|(key, value)| (key.as_str(), value.get())).collect();
        assert_eq!(read, [("a", "[1, 2]"), ("a", "2.5"), ("é\n", "null")]);
        assert_eq!(items(entries[0].1).unwrap().len(), 2);
        let kinds: Vec<_> = entries.iter().map(|(_, value)| kind(value).name()).collect();
        assert_eq!(kinds, ["array", "number", "null"]);
        assert!(items(raw).is_none() && string(raw).is_none() && parse("{").is_none());
    }

    #[test]
    fn nesting_without_end_costs_no_stack() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(items(parse(&deep).unwrap()).unwrap().len(), 1);
    }
}
