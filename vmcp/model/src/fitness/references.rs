//! References of a schema that lead nowhere, and patterns that do not compile.

use std::collections::HashSet;

use serde_json::Value;

use super::keywords::{Shape, shape};

/// Keys whose values are data and no schemas.
const DATA: [&str; 5] = ["const", "default", "enum", "example", "examples"];
/// The schema of JSON Schema itself that clients bring along (Ajv); it does not know later drafts.
const KNOWN_SCHEMA: &str = "http://json-schema.org/draft-07/schema";

/// Longest name of a part, in bytes, whose ends are looked up too; a longer one is compared whole.
const MAX_NAME_BYTES: usize = 512;
/// Most ends of a name that are looked up, the shortest ones. A name of slashes alone has one for each byte.
const MAX_ENDS: usize = 16;

/// Returns the references of a schema that lead nowhere.
pub(super) fn unresolved(root: &Value) -> Vec<String> {
    let (mut references, mut names) = (Vec::new(), HashSet::new());
    collect(root, true, &mut references, &mut names);
    references.sort_unstable();
    references.dedup();
    let ends = ends(&names);
    references.retain(|reference| !leads_somewhere(root, reference, &names, &ends));
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

/// Returns the names, and their ends behind their last slashes: a schema may name its parts by URI, and refer
/// to them by relative ones. A set, because a schema may have thousands of both.
fn ends(names: &HashSet<String>) -> HashSet<&str> {
    let mut ends: HashSet<&str> = names.iter().map(String::as_str).collect();
    for name in names.iter().filter(|name| name.len() <= MAX_NAME_BYTES) {
        let cuts = name.rmatch_indices('/').take(MAX_ENDS);
        ends.extend(cuts.filter_map(|(at, _)| name.get(at + 1..)));
    }
    ends
}

fn leads_somewhere(root: &Value, reference: &str, names: &HashSet<String>, ends: &HashSet<&str>) -> bool {
    let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    if !document.is_empty() {
        return document == KNOWN_SCHEMA || ends.contains(document);
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;

    #[test]
    fn parts_are_found_by_their_names_and_the_ends_of_these() {
        let schema = json!({
            "$defs": { "a": { "$id": "https://x.example/parts/a.json" }, "b": { "$id": "b" } },
            "anyOf": [{ "$ref": "a.json" }, { "$ref": "parts/a.json" }, { "$ref": "b" }, { "$ref": ".json" },
                { "$ref": "arts/a.json" }],
        });
        assert_eq!(unresolved(&schema), [".json", "arts/a.json"]);
        let deep = |folders: usize| format!("{}z", "d/".repeat(folders));
        let schema = json!({
            "$id": deep(100),
            "anyOf": [{ "$ref": deep(MAX_ENDS - 1) }, { "$ref": deep(MAX_ENDS) }],
        });
        assert_eq!(unresolved(&schema), [deep(MAX_ENDS)], "few ends of a long name");
    }

    #[test]
    fn thousands_of_names_and_references_are_compared_once() {
        let part = |number: usize| {
            (format!("p{number}"), json!({ "$id": format!("n{number}"), "$ref": format!("r{number}") }))
        };
        let parts: serde_json::Map<String, Value> = (0..20_000).map(part).collect();
        let begun = Instant::now();
        assert_eq!(unresolved(&json!({ "$defs": parts })).len(), 20_000);
        // A comparison of each pair takes a minute.
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}
