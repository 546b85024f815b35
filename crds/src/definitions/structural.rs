//! Transforms a JSON schema of schemars, with all schemas inside it, into a structural one.

use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Map, Value, json};
use vmcp_config::{DURATION_PATTERN, MAX_BACKENDS, RANGE_KEY};

use crate::fields::cel_rules::QUANTITY_PATTERN;
use crate::fields::duration::DURATION;

/// Maximum characters of a duration or a decimal. CEL estimates the cost of a rule from the longest possible
/// text.
const LONGEST_NUMBER: u32 = 32;

#[derive(Debug, Clone)]
pub(super) struct Structural;

impl Transform for Structural {
    fn transform(&mut self, schema: &mut schemars::Schema) {
        let Some(object) = schema.as_object_mut() else { return };
        forget_null(object);
        push_down_range(object);
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        // The API server itself refuses or prunes unknown keys, unless any key is known.
        match object.get("additionalProperties") {
            Some(Value::Bool(true)) => keep_unknown(object),
            Some(Value::Bool(false)) => drop(object.remove("additionalProperties")),
            _ if takes_any_value(object) => keep_unknown(object),
            _ => {}
        }
        for key in ["title", "unevaluatedProperties"] {
            object.remove(key);
        }
        name_choices(object);
        describe_number(object);
        describe_quantity(object);
        name_operators(object);
        // The default of a block repeats the defaults of its keys, which stand beside them.
        let says_nothing =
            |default: &Value| default.is_null() || default.is_object() || *default == json!([]);
        if object.get("default").is_some_and(says_nothing) {
            object.remove("default");
        }
        if let Some(Value::String(format)) = object.get_mut("format")
            && format.starts_with("uint")
        {
            if format == "uint16" { "int32" } else { "int64" }.clone_into(format);
        }
    }
}

/// Lets the API server keep the keys of free JSON as written.
fn keep_unknown(object: &mut Map<String, Value>) {
    object.remove("additionalProperties");
    object.insert("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true));
}

/// Returns true for the schema of any JSON value: nothing but annotations.
fn takes_any_value(object: &Map<String, Value>) -> bool {
    object.keys().all(|key| matches!(key.as_str(), "description" | "title" | "default"))
}

/// Moves the range of a map of durations to its values.
fn push_down_range(object: &mut Map<String, Value>) {
    if let Some(entries) = object.get("additionalProperties").filter(|entries| entries.is_object()).cloned()
        && let (Some(range), Value::Object(mut entries)) = (object.remove(RANGE_KEY), entries)
    {
        entries.insert(RANGE_KEY.to_owned(), range);
        object.insert("additionalProperties".to_owned(), entries.into());
        object.insert("maxProperties".to_owned(), MAX_BACKENDS.into());
    }
}

/// Removes `null` from optional fields: in a schema, "may be absent" is not "may be null".
fn forget_null(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|kind| kind != "null");
        // Kubernetes has no fractions: decimals are text, so that of two types the first remains.
        if let Some(kind) = types.first().cloned() {
            object.insert("type".to_owned(), kind);
        }
    }
    if let Some(Value::Array(alternatives)) = object.get("anyOf") {
        let mut alternatives =
            alternatives.iter().filter(|each| each.get("type").is_none_or(|kind| kind != "null"));
        if let (Some(Value::Object(only)), None) = (alternatives.next().cloned(), alternatives.next()) {
            object.remove("anyOf");
            for (key, value) in only {
                // The description of the field says better than that of its type what the field is for.
                object.entry(key).or_insert(value);
            }
        }
    }
}

/// Turns a choice (`oneOf` of constants) into an enumeration; the meaning of each word goes into the
/// description.
fn name_choices(object: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = object.remove("oneOf") else { return };
    let word = |choice: &Value| choice.get("const").or_else(|| choice.get("enum")?.get(0)).cloned();
    let words: Vec<Value> = choices.iter().filter_map(word).collect();
    let mut meanings = Vec::new();
    for choice in &choices {
        if let (Some(Value::String(word)), Some(Value::String(meaning))) =
            (word(choice), choice.get("description"))
        {
            meanings.push(format!("`{word}`: {meaning}"));
        }
    }
    let own = object.get("description").and_then(Value::as_str).unwrap_or_default();
    let description = [&[own.to_owned()], meanings.as_slice()].concat().join(" ");
    object.insert("description".to_owned(), description.trim().into());
    object.insert("type".to_owned(), "string".into());
    object.insert("enum".to_owned(), words.into());
}

/// Describes durations and decimals: text of bounded length, with a CEL rule for the range.
fn describe_number(object: &mut Map<String, Value>) {
    let range = object.remove(RANGE_KEY);
    let is_duration = object.get("pattern").is_some_and(|pattern| pattern == DURATION_PATTERN);
    if is_duration {
        object.insert("pattern".to_owned(), DURATION.into());
        object.remove("minimum");
    }
    if is_duration || range.is_some() {
        object.insert("maxLength".to_owned(), LONGEST_NUMBER.into());
    }
    let range = range.as_ref().and_then(Value::as_str).and_then(|range| range.split_once(" to "));
    if let Some((least, most)) = range {
        let rule = if is_duration {
            format!("duration(self) >= duration('{least}') && duration(self) <= duration('{most}')")
        } else {
            format!("double(self) >= {least}.0 && double(self) <= {most}.0")
        };
        let (kind, example) =
            if is_duration { ("duration", "500ms, 30s or 1m30s") } else { ("decimal", "\"0.5\"") };
        let message = format!("must be a {kind} between {least} and {most}, such as {example}");
        object.insert("x-kubernetes-validations".to_owned(), json!([{ "rule": rule, "message": message }]));
    }
}

/// Adds the operators of label selectors, which the types of Kubernetes name only in prose.
fn name_operators(object: &mut Map<String, Value>) {
    let description = object.get("description").and_then(Value::as_str).unwrap_or_default();
    if description.starts_with("operator represents a key's relationship to a set of values") {
        object.insert("enum".to_owned(), json!(["In", "NotIn", "Exists", "DoesNotExist"]));
    }
}

/// Describes fields that Kubernetes writes as a number or as text, and quantities among them.
fn describe_quantity(object: &mut Map<String, Value>) {
    if object.get("x-kubernetes-int-or-string").is_none() {
        return;
    }
    object.insert("anyOf".to_owned(), json!([{ "type": "integer" }, { "type": "string" }]));
    let Some(Value::String(description)) = object.get_mut("description") else { return };
    if description.starts_with("Quantity is a") {
        "A quantity, such as `500m` or `1Gi`.".clone_into(description);
        object.insert("pattern".to_owned(), QUANTITY_PATTERN.into());
    }
}
