//! A JSON schema as a tree of its properties.

use std::io;

use maud::{Markup, html};
use serde_json::Value;

use super::effective::{effective, types};
use super::members::{Members, is_object, members};
use crate::text;

/// Levels that are shown; deeper ones are in the definition.
const MAX_DEPTH: usize = 6;
/// Most properties of one object that are shown.
const MAX_PROPERTIES: usize = 100;
/// Most properties of a whole schema that are shown.
const MAX_TOTAL: usize = 300;
/// Most characters of a property's description; the whole one is in the definition.
const MAX_DESCRIPTION: usize = 1_000;
/// Most values of an enumeration that are shown.
const MAX_VALUES: usize = 20;
/// Most bytes of the JSON of a bound.
const MAX_JSON: usize = 1_000;
/// Bounds of a property, in the order in which they are read.
const KEYS: [&str; 25] = [
    "enum",
    "const",
    "default",
    "examples",
    "format",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "prefixItems",
    "minProperties",
    "maxProperties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "dependentRequired",
    "contentMediaType",
    "deprecated",
];

/// Shows the properties of a schema: name, type, description, bounds; nested ones below. At most 300
/// properties, six levels deep.
pub fn tree(schema: &Value) -> Markup {
    let mut left = MAX_TOTAL;
    if properties(schema, schema).is_empty() {
        html! { p { "No arguments are described." } }
    } else {
        branch(schema, schema, MAX_DEPTH, &mut left)
    }
}

/// Returns the properties of an object, or of the items of a list.
fn properties<'a>(root: &'a Value, schema: &'a Value) -> Members<'a> {
    let own = members(root, schema);
    match effective(root, schema).get("items") {
        Some(items) if own.is_empty() => members(root, items),
        _ => own,
    }
}

/// Shows the properties of a part of the schema `root`.
fn branch(root: &Value, schema: &Value, depth: usize, left: &mut usize) -> Markup {
    let properties = properties(root, schema);
    if properties.is_empty() {
        return html! {};
    }
    if depth == 0 {
        return html! { p { "Deeper levels are in the definition." } };
    }
    let shown = properties.list.len().min(MAX_PROPERTIES).min(*left);
    let hidden = properties.list.len() - shown + properties.more;
    *left -= shown;
    html! {
        ul.tree {
            @for member in properties.list.iter().take(shown) {
                @let property = &*member.schema;
                li {
                    code { (text::line(member.name)) } " " span.type { (text::line(&type_name(root, property))) }
                    @if properties.is_required(member.name) { " " strong { "required" } }
                    @if let Some(description) = description(root, property) {
                        p.prose dir="auto" { (text::inert(description, MAX_DESCRIPTION)) }
                    }
                    @for (bound, value) in all_bounds(root, property) { " " span.bound { (bound) ": " (text::line(&value)) } }
                    (branch(root, property, depth - 1, left))
                }
            }
            @if hidden > 0 { li { (hidden) " more properties are in the definition." } }
        }
    }
}

/// Returns the type of a property in a word or two.
pub(super) fn type_name(root: &Value, property: &Value) -> String {
    if is_object(root, property) {
        return "object".to_owned();
    }
    let property = effective(root, property);
    let names = types(property);
    let own = match names.as_slice() {
        [] if property.get("enum").is_some() => "one of".to_owned(),
        [] => "any".to_owned(),
        names => names.join(" or "),
    };
    let Some(items) = property.get("items").filter(|_| own == "array") else { return own };
    if is_object(root, items) {
        return "array of object".to_owned();
    }
    match types(effective(root, items)).as_slice() {
        [item] => format!("array of {item}"),
        _ => own,
    }
}

/// Returns the description of a property: its own, or that of the schema to which it leads.
pub(super) fn description<'a>(root: &'a Value, property: &'a Value) -> Option<&'a str> {
    let text = |schema: &'a Value| schema.get("description").and_then(Value::as_str);
    text(property).or_else(|| text(effective(root, property)))
}

/// Returns the bounds of a property, and those of the schema to which it leads.
pub(super) fn all_bounds(root: &Value, property: &Value) -> Vec<(&'static str, String)> {
    let schema = effective(root, property);
    let mut all = bounds(schema);
    if !std::ptr::eq(schema, property) {
        let own = bounds(property);
        all.retain(|(key, _)| own.iter().all(|(own, _)| own != key));
        all.extend(own);
    }
    all
}

/// Returns the bounds of a property's values, in the order in which they are read.
fn bounds(property: &Value) -> Vec<(&'static str, String)> {
    let shown = |value: &Value| match value {
        Value::Array(values) => {
            let more = values.len().saturating_sub(MAX_VALUES);
            let first: Vec<_> = values.iter().take(MAX_VALUES).map(short).collect();
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            first.join(", ") + &more
        }
        other => short(other),
    };
    KEYS.iter().filter_map(|key| Some((*key, shown(property.get(*key)?)))).collect()
}

/// Returns JSON of at most [`MAX_JSON`] bytes; of a longer value, its beginning.
fn short(value: &Value) -> String {
    let mut written = Beginning(Vec::new());
    match serde_json::to_writer(&mut written, value) {
        Ok(()) => String::from_utf8_lossy(&written.0).into_owned(),
        Err(_) => format!("{}…", String::from_utf8_lossy(&written.0)),
    }
}

/// The first [`MAX_JSON`] bytes that are written; further ones are an error, which ends the writing.
struct Beginning(Vec<u8>);

impl io::Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = MAX_JSON.saturating_sub(self.0.len());
        if room == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let fitting = bytes.iter().take(room);
        let before = self.0.len();
        self.0.extend(fitting);
        Ok(self.0.len() - before)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn properties_have_their_type_bounds_and_children() {
        let schema = json!({"required": ["to"], "properties": {
            "to": {"type": "array", "items": {"type": "object", "properties": {"mail": {"type": "string"}}}},
            "kind": {"enum": ["<b>", "c"], "description": "Kind of <i>mail</i>"},
        }});
        let shown = tree(&schema).into_string();
        assert!(shown.contains("array of object") && shown.contains("<strong>required</strong>"), "{shown}");
        assert!(shown.contains("mail") && shown.contains("Kind of &lt;i&gt;"), "{shown}");
        assert!(shown.contains("enum: <bdi>&quot;&lt;b&gt;&quot;, &quot;c&quot;"), "{shown}");
        assert_eq!(shown.matches("<ul").count(), 2);
    }

    #[test]
    fn alternatives_of_objects_are_shown_and_their_discriminator_is_a_choice() {
        let schema = json!({"oneOf": [
            {"type": "object", "required": ["kind"], "properties": {
                "kind": {"const": "a"}, "x": {"type": "string"},
            }},
            {"type": "object", "required": ["kind"], "properties": {
                "kind": {"const": "b"}, "y": {"type": "number", "multipleOf": 0.25, "exclusiveMinimum": 0},
            }},
        ]});
        let shown = tree(&schema).into_string();
        for part in [
            "enum: <bdi>&quot;a&quot;, &quot;b&quot;</bdi>",
            "<bdi>x</bdi>",
            "<bdi>y</bdi>",
            "multipleOf: <bdi>0.25</bdi>",
            "exclusiveMinimum: <bdi>0</bdi>",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert_eq!(shown.matches("<strong>required</strong>").count(), 1, "{shown}");
        let list = json!({"properties": {"shapes": {"type": "array", "items": schema}}});
        let shown = tree(&list).into_string();
        assert!(shown.contains("array of object") && shown.contains("<bdi>y</bdi>"), "{shown}");
    }

    #[test]
    fn a_long_bound_is_cut_while_it_is_written() {
        assert_eq!(short(&json!([1, "a"])), "[1,\"a\"]");
        let long = short(&json!({"a": "é".repeat(1 << 20)}));
        assert!(long.len() <= MAX_JSON + 8 && long.ends_with('…'), "{}", long.len());
    }

    #[test]
    fn properties_beside_a_condition_are_shown() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}},
            "allOf": [{"if": {"required": ["a"]}, "then": {"required": ["b"]}}]});
        let shown = tree(&schema).into_string();
        assert!(shown.contains("<bdi>a</bdi>"), "{shown}");
    }

    #[test]
    fn references_are_followed_also_where_they_never_end() {
        let schema = json!({
            "$defs": {"Node": {"type": "object", "description": "A node", "properties": {
                "next": {"$ref": "#/$defs/Node"}, "size": {"type": ["integer", "null"], "minimum": 1},
            }}},
            "properties": {"first": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}], "default": null}},
        });
        let shown = tree(&schema).into_string();
        assert_eq!(shown.matches("<ul").count(), MAX_DEPTH);
        assert!(shown.contains("<bdi>first</bdi></code> <span class=\"type\"><bdi>object</bdi>"), "{shown}");
        assert!(shown.contains("A node") && shown.contains("minimum: <bdi>1</bdi>"), "{shown}");
        assert!(shown.contains("default: <bdi>null</bdi>") && shown.contains("Deeper levels"), "{shown}");
    }

    #[test]
    fn a_schema_of_any_size_and_depth_stays_bounded() {
        let wide: Map<String, Value> =
            (0..5_000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
        let shown = tree(&json!({ "properties": wide })).into_string();
        assert!(shown.contains("4900 more properties"), "{}", shown.len());
        let deep = (0..200).fold(json!({"type": "string"}), |inner, _| json!({"properties": {"x": inner}}));
        assert_eq!(tree(&deep).into_string().matches("<ul").count(), MAX_DEPTH);
        let inner: Map<String, Value> = (0..100).map(|n| (format!("q{n}"), json!({}))).collect();
        let outer: Map<String, Value> =
            (0..100).map(|n| (format!("p{n}"), json!({ "properties": inner.clone() }))).collect();
        assert_eq!(tree(&json!({ "properties": outer })).into_string().matches("<code>").count(), MAX_TOTAL);
    }
}
