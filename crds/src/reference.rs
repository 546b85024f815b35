//! `docs/reference/resources.md`: every field of the definitions, as tables for people.

use std::fmt::Write as _;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value, json};

use crate::definitions::{self, GROUP, VERSION};

const HEAD: &str = "\
# Resources

Generated from the resource definitions by `make crds`; do not edit. What the resources are for, with examples:
[Kubernetes](../operator/kubernetes.md). The same in a cluster: `kubectl explain vmcp.spec.optimizer`.

In a path, `[]` stands for each item of a list and `<name>` for a key of your own. Fields in **bold** are required.
";
const TABLE: &str = "
| field | type | default | allowed | meaning |
|---|---|---|---|---|
";
const NOTHING: &str = "–";

/// Fields whose content is described elsewhere, and what they are.
const ELSEWHERE: [(&str, &str); 7] = [
    ("resources", "as in a container"),
    ("backendSelector", "label selector"),
    ("ingressFrom", "list of peers, as in a NetworkPolicy"),
    ("conditions", "list of conditions"),
    ("managed", "as `spec` of an EmbeddingServer"),
    ("podTemplateSpec", "as in a Deployment"),
    ("imagePullSecrets", "list of names, as in a pod"),
];

/// Every field as Markdown, one section a kind; `docs/reference/resources.md` is its printed form.
pub fn reference_markdown() -> String {
    let mut page = format!("{HEAD}\nAll are of `apiVersion: {GROUP}/{VERSION}`.\n");
    for definition in definitions::all() {
        write_kind(&mut page, &definition);
    }
    page
}

// Writing to a string cannot fail, so that the results below are dropped.
fn write_kind(page: &mut String, definition: &CustomResourceDefinition) {
    let names = &definition.spec.names;
    let version = definition.spec.versions.first();
    let root = json!(version.and_then(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref()));
    let short = names.short_names.iter().flatten().map(|name| format!("`{name}`")).collect::<Vec<_>>();
    let _ = write!(page, "\n## {}\n\n{}", names.kind, description(&root));
    if !short.is_empty() {
        let _ = write!(page, " Short names: {}.", short.join(", "));
    }
    page.push('\n');
    let mut messages = Vec::new();
    collect_messages(&root, &mut messages);
    for part in ["spec", "status"] {
        let rows = part_of(&root, part);
        let _ = write!(page, "\n### {} `{part}`\n{TABLE}", names.kind);
        write_fields(page, part, &rows);
        if part == "spec" && !messages.is_empty() {
            page.push_str("\nRefused, besides what is not allowed above:\n\n");
            for message in &messages {
                let _ = writeln!(page, "- {message}");
            }
        }
    }
}

fn part_of(root: &Value, part: &str) -> Value {
    root.get("properties").and_then(|properties| properties.get(part)).cloned().unwrap_or_default()
}

/// Rows for what is inside of a field: the keys of a block, of the items of a list, or of the entries of a map.
fn write_fields(page: &mut String, path: &str, schema: &Value) {
    if let Some(items) = schema.get("items") {
        write_fields(page, &format!("{path}[]"), items);
    }
    if let Some(entries) = schema.get("additionalProperties") {
        write_fields(page, &format!("{path}.<name>"), entries);
    }
    let required = schema.get("required").and_then(Value::as_array);
    for (key, field) in schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter) {
        let path = format!("{path}.{key}");
        let known = ELSEWHERE.iter().find(|(name, _)| name == key).map(|(_, kind)| *kind);
        let bold =
            if required.is_some_and(|required| required.iter().any(|name| name == key)) { "**" } else { "" };
        let kind = known.map_or_else(|| kind(field), str::to_owned);
        let default =
            field.get("default").map_or_else(|| NOTHING.to_owned(), |value| format!("`{}`", plain(value)));
        let (allowed, meaning) = (allowed(field), one_line(description(field)));
        let _ = writeln!(page, "| {bold}`{path}`{bold} | {kind} | {default} | {allowed} | {meaning} |");
        if known.is_none() {
            write_fields(page, &path, field);
        }
    }
}

/// The type in words.
fn kind(field: &Value) -> String {
    if field.get("enum").is_some() {
        return "word".to_owned();
    }
    if field.get("x-kubernetes-int-or-string").is_some() {
        return if field.get("pattern").is_some() { "quantity" } else { "number or percentage" }.to_owned();
    }
    let rule = field.pointer("/x-kubernetes-validations/0/rule").and_then(Value::as_str).unwrap_or_default();
    if rule.starts_with("duration(self)") {
        return "duration".to_owned();
    }
    if rule.starts_with("double(self)") {
        return "decimal, in quotes".to_owned();
    }
    match field.get("type").and_then(Value::as_str) {
        Some("array") => format!("list of {}s", field.get("items").map(kind).unwrap_or_default()),
        Some("object") => match field.get("additionalProperties") {
            Some(entries) => format!("map of {}s", kind(entries)),
            None => "block".to_owned(),
        },
        Some("integer") => "whole number".to_owned(),
        other => other.unwrap_or_default().to_owned(),
    }
}

/// The words of a choice, or the range of a number.
fn allowed(field: &Value) -> String {
    if let Some(Value::Array(words)) = field.get("enum") {
        return words.iter().map(|word| format!("`{}`", plain(word))).collect::<Vec<_>>().join(", ");
    }
    let message = field.pointer("/x-kubernetes-validations/0/message").and_then(Value::as_str);
    if let Some(range) = message.and_then(range) {
        return range.replace(" and ", " to ");
    }
    // Limits are floats in the type of a schema.
    let bound = |name| field.get(name).and_then(Value::as_f64);
    match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("at least {least}"),
        (None, Some(most)) => format!("at most {most}"),
        (None, None) => field.get("additionalProperties").map_or_else(|| NOTHING.to_owned(), allowed),
    }
}

/// `1ms and 24h` of the message of a rule about a range.
fn range(message: &str) -> Option<&str> {
    let (_, range) = message.strip_prefix("must be a ")?.split_once("between ")?;
    range.split_once(", such as").map(|(range, _)| range)
}

/// The messages of rules, but for those about ranges, which stand with their fields.
fn collect_messages(schema: &Value, messages: &mut Vec<String>) {
    for rule in schema.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten() {
        if let Some(message) =
            rule.get("message").and_then(Value::as_str).filter(|text| range(text).is_none())
            && !messages.iter().any(|known| known == message)
        {
            messages.push(message.to_owned());
        }
    }
    match schema {
        Value::Object(entries) => entries.values().for_each(|value| collect_messages(value, messages)),
        Value::Array(items) => items.iter().for_each(|value| collect_messages(value, messages)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn description(schema: &Value) -> &str {
    schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

/// A value as people write it: a string without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Text that fits a cell.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
