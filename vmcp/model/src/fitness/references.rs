//! References of a schema that lead nowhere, and patterns that do not compile.

use std::collections::HashSet;

use serde_json::Value;

use super::keywords::{Shape, shape};

/// Keys whose values are data and no schemas.
const DATA: [&str; 5] = ["const", "default", "enum", "example", "examples"];
/// The schema of JSON Schema itself that clients bring along (Ajv); it does not know later drafts.
const KNOWN_SCHEMA: &str = "http://json-schema.org/draft-07/schema";

/// Returns the references of a schema that lead nowhere.
pub(super) fn unresolved(root: &Value) -> Vec<String> {
    let (mut references, mut names) = (Vec::new(), HashSet::new());
    collect(root, true, &mut references, &mut names);
    references.sort_unstable();
    references.dedup();
    references.retain(|reference| !leads_somewhere(root, reference, &names));
    references.into_iter().map(str::to_owned).collect()
}

/// Collects references, and the names that references may use. `is_schema` is false for a map of names that
/// their author chose.
fn collect<'a>(
    value: &'a Value,
    is_schema: bool,
    references: &mut Vec<&'a str>,
    names: &mut HashSet<String>,
) {
    match value {
        Value::Object(keywords) => {
            for (key, value) in keywords {
                match (key.as_str(), value) {
                    ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) if is_schema => {
                        references.push(reference);
                    }
                    ("$anchor" | "$dynamicAnchor", Value::String(name)) if is_schema => {
                        names.insert(format!("#{name}"));
                    }
                    ("$id" | "id", Value::String(id)) if is_schema => {
                        names.insert(id.trim_end_matches('#').to_owned());
                    }
                    (key, _) if is_schema && DATA.contains(&key) => {}
                    (key, value) => {
                        let is_map =
                            is_schema && matches!(shape(key), Some(Shape::SchemaMap | Shape::DependencyMap));
                        collect(value, !is_map, references, names);
                    }
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, is_schema, references, names)),
        _ => {}
    }
}

fn leads_somewhere(root: &Value, reference: &str, names: &HashSet<String>) -> bool {
    let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    if !document.is_empty() {
        // A schema may name its parts by URI. Relative ones are compared by their end.
        let is_named = |name: &String| name == document || name.ends_with(&format!("/{document}"));
        return document == KNOWN_SCHEMA || names.iter().any(is_named);
    }
    match fragment {
        "" => true,
        pointer if pointer.starts_with('/') => root.pointer(&percent_decoded(pointer)).is_some(),
        name => names.contains(&format!("#{name}")),
    }
}

/// Decodes `%41` of a fragment; other bytes stay.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits =
            tail.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            bytes.push(byte);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
