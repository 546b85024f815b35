//! `docs/reference/resources.md`: every field of the definitions, as tables for people.

use std::fmt::Write as _;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use vmcp_config::{SchemaTable, range_of_rule};

use crate::definitions;
use crate::definitions::api_group::{GROUP, VERSION};
use crate::fields::pending;

const HEAD: &str = "\
# Resources

Generated from the resource definitions by `make crds`; do not edit. What the resources are for, with examples:
[Kubernetes](../operator/kubernetes.md). The same in a cluster: `kubectl explain vmcp.spec.optimizer`.

In a path, `[]` stands for each item of a list and `<name>` for a key of your own. Fields in **bold** are required.
";
/// Fields whose content is described elsewhere, with a short description.
const ELSEWHERE: [(&str, &str); 8] = [
    ("resources", "as in a container"),
    ("backendSelector", "label selector"),
    ("ingressFrom", "list of peers, as in a NetworkPolicy"),
    ("behavior", "as in a HorizontalPodAutoscaler"),
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
    let mut root = json!(version.and_then(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref()));
    name_untyped(&mut root);
    let short = names.short_names.iter().flatten().map(|name| format!("`{name}`")).collect::<Vec<_>>();
    let _ = write!(page, "\n## {}\n\n{}", names.kind, description(&root));
    if !short.is_empty() {
        let _ = write!(page, " Short names: {}.", short.join(", "));
    }
    page.push('\n');
    let table = SchemaTable::new(&root, &ELSEWHERE);
    let mut messages = Vec::new();
    collect_messages(&root, &mut messages);
    for part in ["spec", "status"] {
        let rows = part_of(&root, part);
        let _ = writeln!(page, "\n### {} `{part}`", names.kind);
        table.write(page, part, &rows);
        if part == "spec" && !messages.is_empty() {
            page.push_str("\nRefused, besides what is not allowed above:\n\n");
            for message in &messages {
                let _ = writeln!(page, "- {message}");
            }
        }
    }
}

/// Gives fields whose content no schema describes a type in words: pending ones, and free JSON.
fn name_untyped(schema: &mut Value) {
    if let Value::Object(entries) = schema {
        let preserves = entries.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
        if preserves && !entries.contains_key("type") {
            let description = entries.get("description").and_then(Value::as_str).unwrap_or_default();
            let is_pending = description.starts_with(pending::DESCRIPTION);
            let kind = if is_pending { "as in ToolHive" } else { "any value" };
            entries.insert("type".to_owned(), kind.into());
        }
        entries.values_mut().for_each(name_untyped);
    }
}

fn part_of(root: &Value, part: &str) -> Value {
    root.get("properties").and_then(|properties| properties.get(part)).cloned().unwrap_or_default()
}

/// The messages of rules, but for those about ranges, which stand with their fields.
fn collect_messages(schema: &Value, messages: &mut Vec<String>) {
    for rule in schema.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten() {
        if let Some(message) =
            rule.get("message").and_then(Value::as_str).filter(|text| range_of_rule(text).is_none())
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
