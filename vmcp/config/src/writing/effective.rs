//! Rendering of the configuration in force as YAML, for `--print-config`: defaults filled in, secrets masked,
//! and references to the environment in place of their values.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::problems;
use crate::raw::RawConfig;
use crate::values::masked;
use crate::values::secret::MASK;

/// Renders the raw configuration; `references` has the text, as written, of values that came from elsewhere,
/// by path.
pub(crate) fn render(raw: &RawConfig, references: &BTreeMap<String, String>) -> String {
    let mut value = serde_json::to_value(raw).unwrap_or_default();
    masked::mask(&mut value);
    restore(&mut value, "", references);
    // Neither step can fail: the types hold nothing but strings, numbers, lists and maps with string keys.
    serde_saphyr::to_string(&value).unwrap_or_default()
}

fn restore(value: &mut Value, path: &str, references: &BTreeMap<String, String>) {
    match value {
        Value::Object(entries) => {
            entries.retain(|_, entry| !entry.is_null());
            for (key, entry) in entries {
                restore(entry, &problems::key(path, key), references);
            }
        }
        Value::Array(items) => {
            for (index, entry) in items.iter_mut().enumerate() {
                restore(entry, &problems::item(path, index), references);
            }
        }
        Value::String(text) => {
            // A secret stays masked, because the reference may hold a default: `${TOKEN:-t0ken}`.
            if let Some(written) = references.get(path)
                && text != MASK
            {
                text.clone_from(written);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
