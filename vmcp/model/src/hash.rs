//! Schema hash of a tool: changes exactly when its definition does, whatever the order of keys in its schema.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// SHA-256 of `name + description + canonical JSON of inputSchema`, shown as 64 hexadecimal digits.
///
/// The parts are concatenated without separators, so only hashes of one tool may be compared.
///
/// # Examples
///
/// ```
/// use serde_json::json;
/// use vmcp_model::hash::{SchemaHash, canonical_json};
///
/// let hash = |schema| SchemaHash::of("fetch", "Get a page.", &canonical_json(&schema));
/// let one = hash(json!({ "type": "object", "properties": {} }));
/// assert_eq!(one, hash(json!({ "properties": {}, "type": "object" })));
/// assert_ne!(one, hash(json!({ "type": "object" })));
/// assert_eq!(one.to_string().parse(), Ok(one));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SchemaHash([u8; 32]);

impl SchemaHash {
    /// Hashes the three parts; `canonical_schema` is the output of [`canonical_json`], or empty without a
    /// schema.
    pub fn of(name: &str, description: &str, canonical_schema: &str) -> SchemaHash {
        let mut hasher = Sha256::new();
        hasher.update(name);
        hasher.update(description);
        hasher.update(canonical_schema);
        SchemaHash(hasher.finalize().into())
    }
}

impl FromStr for SchemaHash {
    type Err = hex::FromHexError;

    /// Reads 64 hexadecimal digits.
    fn from_str(text: &str) -> Result<SchemaHash, hex::FromHexError> {
        let mut hash = [0; 32];
        hex::decode_to_slice(text, &mut hash)?;
        Ok(SchemaHash(hash))
    }
}

impl fmt::Display for SchemaHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for SchemaHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Formats JSON with sorted keys and without spaces: equal for values that differ only in the order of keys
/// or in white space.
///
/// Recurses as deep as the value, which serde_json limits to 128 levels when it parses.
pub fn canonical_json(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (position, (key, item)) in entries.into_iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write_canonical(item, out);
            }
            out.push('}');
        }
        Value::String(text) => write_string(text, out),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}

fn write_string(text: &str, out: &mut String) {
    // Most strings in schemas need no escape; serde_json writes the others.
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn known_value() {
        // printf '%s' 'fetchGet a page.{"properties":{"url":{"type":"string"}},"type":"object"}' | sha256sum
        let schema = json!({"type": "object", "properties": {"url": {"type": "string"}}});
        let hash = SchemaHash::of("fetch", "Get a page.", &canonical_json(&schema));
        assert_eq!(hash.to_string(), "2021b527cc1548721791ea7ec0f1eeb3a49fb4380d018d3b87e2c14c679ea95f");
        assert_ne!(hash, SchemaHash::of("fetch", "Get a page!", &canonical_json(&schema)));
    }

    #[test]
    fn canonical_form() {
        let value = json!({"b": [1, 2.5, null, {"z": true, "a": "é\n\"\\"}], "a": {}});
        assert_eq!(canonical_json(&value), r#"{"a":{},"b":[1,2.5,null,{"a":"é\n\"\\","z":true}]}"#);
    }
}
