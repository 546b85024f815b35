//! A JSON schema as a tree of its properties.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::effective::{effective, types};
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

/// Shows the properties of a schema: name, type, description, bounds; nested ones below. At most 300
/// properties, six levels deep.
pub fn tree(schema: &Value) -> Markup {
    let mut left = MAX_TOTAL;
    if properties(schema, schema).is_some() {
        branch(schema, schema, MAX_DEPTH, &mut left)
    } else {
        html! { p { "No arguments are described." } }
    }
}

/// Returns the properties of an object, or of the items of a list, with the schema that has them.
fn properties<'a>(root: &'a Value, schema: &'a Value) -> Option<(&'a Value, &'a Map<String, Value>)> {
    let of = |holder: &'a Value| {
        let properties = holder.get("properties")?.as_object()?;
        (!properties.is_empty()).then_some((holder, properties))
    };
    let schema = effective(root, schema);
    of(schema).or_else(|| of(effective(root, schema.get("items")?)))
}

/// Shows the properties of a part of the schema `root`.
fn branch(root: &Value, schema: &Value, depth: usize, left: &mut usize) -> Markup {
    let Some((holder, properties)) = properties(root, schema) else { return html! {} };
    if depth == 0 {
        return html! { p { "Deeper levels are in the definition." } };
    }
    let shown = properties.len().min(MAX_PROPERTIES).min(*left);
    *left -= shown;
    html! {
        ul.tree {
            @for (name, property) in properties.iter().take(shown) {
                li {
                    code { (text::line(name)) } " " span.type { (text::line(&type_name(root, property))) }
                    @if is_required(holder, name) { " " strong { "required" } }
                    @if let Some(description) = description(root, property) {
                        p.prose dir="auto" { (text::inert(description, MAX_DESCRIPTION)) }
                    }
                    @for (bound, value) in all_bounds(root, property) { " " span.bound { (bound) ": " (text::line(&value)) } }
                    (branch(root, property, depth - 1, left))
                }
            }
            @if properties.len() > shown {
                li { (properties.len() - shown) " more properties are in the definition." }
            }
        }
    }
}

/// Returns true if the schema demands a property.
fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|required| required == name))
}

/// Returns the type of a property in a word or two.
pub(super) fn type_name(root: &Value, property: &Value) -> String {
    let property = effective(root, property);
    let names = types(property);
    let own = match names.as_slice() {
        [] if property.get("enum").is_some() => "one of".to_owned(),
        [] => "any".to_owned(),
        names => names.join(" or "),
    };
    let items = property.get("items").map(|items| types(effective(root, items)));
    match items.as_deref() {
        Some([item]) if own == "array" => format!("array of {item}"),
        _ => own,
    }
}

/// Returns the description of a property: its own, or that of the schema to which it leads.
pub(super) fn description<'a>(root: &'a Value, property: &'a Value) -> Option<&'a str> {
    let text = |schema: &'a Value| schema.get("description").and_then(Value::as_str);
    text(property).or_else(|| text(effective(root, property)))
}

/// Returns the bounds of a property, and those of the schema to which it leads.
fn all_bounds(root: &Value, property: &Value) -> Vec<(&'static str, String)> {
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
    const KEYS: [&str; 9] =
        ["enum", "default", "format", "minimum", "maximum", "minLength", "maxLength", "pattern", "const"];
    let shown = |value: &Value| match value {
        Value::Array(values) => {
            let more = values.len().saturating_sub(MAX_VALUES);
            let first: Vec<_> = values.iter().take(MAX_VALUES).map(ToString::to_string).collect();
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            first.join(", ") + &more
        }
        other => other.to_string(),
    };
    KEYS.iter().filter_map(|key| Some((*key, shown(property.get(*key)?)))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
