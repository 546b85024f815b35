//! Raw JSON, one level at a time: values stay slices of their text, so that a result of many megabytes never
//! becomes a tree.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::{RawValue, to_raw_value};
use vmcp_json::text;

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
    let mut entries = Vec::new();
    each_entry(raw, |key, value| {
        entries.push((key, value));
        true
    });
    Some(entries)
}

/// Gives `visit` each element of an array until it returns false: elements beyond a limit cost no memory.
/// Another type has none.
pub(crate) fn each_item<'a>(raw: &'a RawValue, visit: impl FnMut(&'a RawValue) -> bool) {
    if kind(raw) == Kind::Array {
        // An error is the end that `visit` asked for, because a raw value is valid.
        let _ = serde_json::Deserializer::from_str(raw.get()).deserialize_seq(Items(visit));
    }
}

/// As [`each_item`], for the entries of an object in their order, repeated keys included.
pub(crate) fn each_entry<'a>(raw: &'a RawValue, visit: impl FnMut(String, &'a RawValue) -> bool) {
    if kind(raw) == Kind::Object {
        let _ = serde_json::Deserializer::from_str(raw.get()).deserialize_map(Entries(visit));
    }
}

/// Returns the number of elements of an array; `None` for another type.
pub(crate) fn length(raw: &RawValue) -> Option<usize> {
    let mut length = 0;
    each_item(raw, |_| {
        length += 1;
        true
    });
    (kind(raw) == Kind::Array).then_some(length)
}

/// Returns the text of a string; `None` for another type. Half a surrogate pair, which no Rust string holds,
/// becomes the replacement character.
pub(crate) fn string(raw: &RawValue) -> Option<String> {
    // The text of another type may have many megabytes; it is not scanned.
    if kind(raw) != Kind::String {
        return None;
    }
    let mended = || Some(text::unquoted(&text::without_half_surrogates(raw.get())?)?.into_owned());
    text::unquoted(raw.get()).map(Cow::into_owned).or_else(mended)
}

/// Parses a whole text; `None` for a text that is not JSON.
pub(crate) fn parse(text: &str) -> Option<&RawValue> {
    serde_json::from_str(text).ok()
}

struct Items<F>(F);

impl<'a, F: FnMut(&'a RawValue) -> bool> Visitor<'a> for Items<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'a>>(mut self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element()? {
            if !(self.0)(item) {
                return Err(A::Error::custom("ended"));
            }
        }
        Ok(())
    }
}

struct Entries<F>(F);

impl<'a, F: FnMut(String, &'a RawValue) -> bool> Visitor<'a> for Entries<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            let key = string(key).ok_or_else(|| A::Error::custom("a key is no string"))?;
            if !(self.0)(key, value) {
                return Err(A::Error::custom("ended"));
            }
        }
        Ok(())
    }
}

/// Returns a text as a JSON string.
pub(crate) fn quoted(text: &str) -> Box<RawValue> {
    to_raw_value(text).unwrap_or_default()
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
        assert_eq!((length(entries[0].1), length(raw)), (Some(2), None));
        let mut seen = 0;
        each_item(entries[0].1, |_| {
            seen += 1;
            false
        });
        assert_eq!(seen, 1, "the visitor ends it");
        let halves = parse(r#"{"\ud83d":"cut \ud83d","b":2}"#).unwrap();
        let halves = super::entries(halves).unwrap();
        assert_eq!((halves.len(), halves[0].0.as_str()), (2, "\u{fffd}"));
        assert_eq!(string(halves[0].1).as_deref(), Some("cut \u{fffd}"));
        assert!(items(raw).is_none() && string(raw).is_none() && parse("{").is_none());
    }

    #[test]
    fn nesting_without_end_costs_no_stack() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(items(parse(&deep).unwrap()).unwrap().len(), 1);
    }
}
