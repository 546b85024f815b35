//! Reads and replaces top-level keys of a JSON object and leaves every other byte as it was.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The value of `key`, or `None` if the object has no such key.
pub(crate) fn get<'a>(object: &'a RawValue, key: &str) -> Option<&'a RawValue> {
    let Entries(entries) = serde_json::from_str(object.get()).ok()?;
    entries.into_iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

/// Sets keys to values, which are JSON texts. A key that is there keeps its place, a new one comes last.
///
/// Fails if `object` is no JSON object or a value is no JSON. Of a repeated key, only the first is replaced;
/// definitions with a repeated key that we read never get this far.
pub(crate) fn set(object: &RawValue, changes: &[(&str, String)]) -> Result<Box<RawValue>, serde_json::Error> {
    let text = object.get();
    let Entries(entries) = serde_json::from_str(text)?;
    let mut edits: Vec<(Range<usize>, Cow<'_, str>)> = Vec::with_capacity(changes.len());
    let mut added = String::new();
    for (key, json) in changes {
        if let Some((_, value)) = entries.iter().find(|(name, _)| name == key) {
            // The value borrows from `text`, so the distance of the two pointers is its place.
            let start = value.get().as_ptr().addr() - text.as_ptr().addr();
            edits.push((start..start + value.get().len(), Cow::Borrowed(json)));
        } else {
            if !(entries.is_empty() && added.is_empty()) {
                added.push(',');
            }
            added.push_str(&serde_json::to_string(key)?);
            added.push(':');
            added.push_str(json);
        }
    }
    if let Some(end) = text.rfind('}').filter(|_| !added.is_empty()) {
        edits.push((end..end, Cow::Owned(added)));
    }
    edits.sort_by_key(|(range, _)| range.start);

    let mut result =
        String::with_capacity(text.len() + edits.iter().map(|(_, new)| new.len()).sum::<usize>());
    let mut done = 0;
    for (range, new) in edits {
        result.push_str(text.get(done..range.start).unwrap_or_default());
        result.push_str(&new);
        done = range.end;
    }
    result.push_str(text.get(done..).unwrap_or_default());
    RawValue::from_string(result)
}

/// The entries of an object in their order, repeated keys included; values are not looked into.
struct Entries<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Entries<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some((Key(key), value)) = map.next_entry()? {
                    entries.push((key, value));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// A key that is borrowed unless it contains an escape.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn replaces_in_place_and_appends() {
        let object = raw("{ \"n\\u0061me\" : \"a\" , \"x\": [1.0e5, {\"name\":2}],\n \"d\":null }");
        let edited =
            set(&object, &[("d", "\"D\"".into()), ("new", "{}".into()), ("name", "\"b\"".into())]).unwrap();
        assert_eq!(
            edited.get(),
            "{ \"n\\u0061me\" : \"b\" , \"x\": [1.0e5, {\"name\":2}],\n \"d\":\"D\" ,\"new\":{}}"
        );
        assert_eq!(get(&edited, "x").unwrap().get(), "[1.0e5, {\"name\":2}]");
        assert!(get(&edited, "y").is_none() && get(&raw("[1]"), "y").is_none());
    }

    #[test]
    fn empty_objects_and_other_values() {
        assert_eq!(
            set(&raw("{ }"), &[("a", "1".into()), ("b", "2".into())]).unwrap().get(),
            r#"{ "a":1,"b":2}"#
        );
        assert_eq!(set(&raw(r#"{"a":"}"}"#), &[]).unwrap().get(), r#"{"a":"}"}"#);
        assert!(set(&raw("[]"), &[("a", "1".into())]).is_err());
    }
}
