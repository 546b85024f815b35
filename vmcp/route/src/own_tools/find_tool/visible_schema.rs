//! Removes invisible characters from the descriptions inside a schema: a model would obey what its user does
//! not see.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use vmcp_config::sanitize;

/// Keys whose values are data that a call has to repeat exactly.
const DATA: [&str; 5] = ["const", "default", "enum", "example", "examples"];
/// Keys whose values are text to be read.
const TEXTS: [&str; 3] = ["title", "description", "$comment"];

/// Returns the schema with visible descriptions and titles; byte for byte as it is, where they are so
/// already.
pub(crate) fn visible_schema(schema: &RawValue) -> Cow<'_, RawValue> {
    // Only these can stand for an invisible character in JSON.
    let is_plain = schema.get().is_ascii() && !schema.get().contains("\\u");
    if is_plain {
        return Cow::Borrowed(schema);
    }
    let Ok(mut value) = serde_json::from_str(schema.get()) else { return Cow::Borrowed(schema) };
    if !clean(&mut value) {
        return Cow::Borrowed(schema);
    }
    to_raw_value(&value).map_or(Cow::Borrowed(schema), Cow::Owned)
}

/// Cleans the texts at any depth; returns true if one has changed.
fn clean(schema: &mut Value) -> bool {
    match schema {
        Value::Object(entries) => {
            let mut has_changed = false;
            for (key, entry) in entries {
                has_changed |= match entry {
                    Value::String(text) if TEXTS.contains(&key.as_str()) => {
                        let visible = sanitize::visible(text);
                        std::mem::replace(text, visible) != *text
                    }
                    _ if DATA.contains(&key.as_str()) => false,
                    entry => clean(entry),
                };
            }
            has_changed
        }
        Value::Array(items) => items.iter_mut().fold(false, |changed, item| clean(item) | changed),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(schema: &str) -> String {
        visible_schema(&RawValue::from_string(schema.to_owned()).unwrap()).get().to_owned()
    }

    #[test]
    fn descriptions_inside_a_schema_hide_nothing_and_data_stays() {
        let hidden = r#"{"type":"object","properties":{"a\u200b":{"description":"one\u200b\n two","enum":["x\u200d"]},
            "description":{"title":"b\udb40\udc41","default":{"description":"\u200b"}}}}"#;
        let expected = "{\"type\":\"object\",\"properties\":{\"a\u{200b}\":{\"description\":\"one\\n two\",\"enum\":[\"x\u{200d}\"]},\
            \"description\":{\"title\":\"b\",\"default\":{\"description\":\"\u{200b}\"}}}}";
        assert_eq!(cleaned(hidden), expected);
    }

    #[test]
    fn a_schema_that_hides_nothing_keeps_its_bytes() {
        for schema in [r#"{"b": 1, "a": 1E+2}"#, r#"{ "description" : "Gr\u00fc\u00dfe, 日本" }"#, "null"] {
            assert_eq!(cleaned(schema), schema);
        }
    }
}
