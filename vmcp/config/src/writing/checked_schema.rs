//! The schema as the checker reads it: a table of definitions, each parsed when a document first needs it. To
//! generate the schema from the raw types takes 3 ms, a fifth of a start, and 1 MiB.

use std::fmt::Write as _;
use std::sync::{LazyLock, OnceLock};

use serde_json::Value;

use super::schema::shared;

/// The table of this version, as [`checked_schema`] wrote it.
const TABLE: &str = include_str!("checked_schema.txt");

/// Name of the schema of the file itself.
const ROOT: &str = "";

/// A line of the table.
struct Definition {
    name: &'static str,
    text: &'static str,
    parsed: OnceLock<Value>,
}

static DEFINITIONS: LazyLock<Vec<Definition>> = LazyLock::new(|| {
    let lines = TABLE.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(name, text)| Definition { name, text, parsed: OnceLock::new() }).collect()
});

/// Returns the table: a line for each definition, its name and its schema without descriptions, in the order
/// of names. The first line, without a name, is the schema of the file.
pub fn checked_schema() -> String {
    let mut root = shared().clone();
    let definitions = root.as_object_mut().and_then(|root| root.remove("$defs")).unwrap_or_default();
    let mut rows: Vec<(&str, &Value)> = vec![(ROOT, &root)];
    rows.extend(definitions.as_object().into_iter().flatten().map(|(name, schema)| (name.as_str(), schema)));
    rows.sort_by_key(|(name, _)| *name);
    let mut table = String::new();
    for (name, schema) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{name} {}", without_descriptions(schema));
    }
    table
}

fn without_descriptions(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            // A setting may be called `description`, too: its schema is an object.
            let kept = members.iter().filter(|(key, value)| *key != "description" || !value.is_string());
            kept.map(|(key, value)| (key.clone(), without_descriptions(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_descriptions).collect(),
        other => other.clone(),
    }
}

/// Returns the schema of the file.
pub(crate) fn root() -> &'static Value {
    definition(ROOT).unwrap_or(&Value::Null)
}

/// Returns a definition, which `$ref` names as `#/$defs/NAME`.
pub(crate) fn definition(name: &str) -> Option<&'static Value> {
    // In a debug build, a new setting works before `make schema` has put it into the table.
    if cfg!(debug_assertions) {
        let root = shared();
        return if name == ROOT { Some(root) } else { root.get("$defs")?.get(name) };
    }
    committed(name)
}

/// Returns a definition of the table.
fn committed(name: &str) -> Option<&'static Value> {
    let definitions: &'static [Definition] = &DEFINITIONS;
    let index = definitions.binary_search_by_key(&name, |definition| definition.name).ok()?;
    let Definition { text, parsed, .. } = definitions.get(index)?;
    // A table that does not parse fails a test.
    Some(parsed.get_or_init(|| serde_json::from_str(text).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_definition_as_generated() {
        let mut names = vec![ROOT];
        names.extend(shared()["$defs"].as_object().unwrap().keys().map(String::as_str));
        for name in names {
            let mut generated = definition(name).unwrap().clone();
            generated.as_object_mut().unwrap().remove("$defs");
            assert_eq!(committed(name), Some(&without_descriptions(&generated)), "{name}: make schema");
        }
        assert_eq!(committed("Unknown"), None);
    }

    #[test]
    fn settings_called_description_stay() {
        let step = committed("CompositeTool").unwrap();
        assert!(step["properties"]["description"].is_object());
        assert!(!TABLE.contains("\"description\":\""));
    }
}
