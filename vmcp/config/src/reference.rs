//! `docs/reference/configuration.md`: every setting of the schema, as tables for people.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::check::resolve;
use super::{duration, schema};

const HEAD: &str = "\
# Settings of `vmcp.yaml`

Generated from the JSON schema by `vmcp schema --markdown`; do not edit. What the settings are for, with examples:
[configuration](../user/configuration.md). The schema itself, for editors: [vmcp.schema.json](vmcp.schema.json).

In a path, `[]` stands for each item of a list and `<name>` for a key of your own.
";
const TABLE: &str = "
| path | type | default | allowed | meaning |
|---|---|---|---|---|
";
const NOTHING: &str = "–";

/// Every setting as Markdown, one table a block; `docs/reference/configuration.md` is its printed form.
pub fn reference_markdown() -> String {
    let root = schema::shared();
    let mut page = format!("{HEAD}\n{}\n", one_line(description(root)));
    for (name, block) in properties(root) {
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## `{name}`\n\n{}\n{TABLE}", one_line(description(block)));
        write_nested(&mut page, name, block);
    }
    page
}

/// Rows for what is inside of a setting: the keys of a block, of the items of a list, or of the entries of a map.
fn write_nested(page: &mut String, path: &str, setting: &Value) {
    let definition = resolve(schema::shared(), setting);
    if let Some(items) = definition.get("items") {
        write_nested(page, &format!("{path}[]"), items);
    }
    if let Some(entries) = definition.get("additionalProperties").filter(|entries| entries.is_object()) {
        write_nested(page, &format!("{path}.<name>"), entries);
    }
    for (key, setting) in properties(definition) {
        let path = format!("{path}.{key}");
        write_row(page, &path, setting);
        write_nested(page, &path, setting);
    }
}

fn write_row(page: &mut String, path: &str, setting: &Value) {
    let kind = kind(setting);
    let default = setting.get("default").map_or_else(|| NOTHING.to_owned(), |value| code(&plain(value)));
    let (allowed, meaning) = (allowed(setting), one_line(description(setting)));
    let _ = writeln!(page, "| `{path}` | {kind} | {default} | {allowed} | {meaning} |");
}

/// The type in words.
fn kind(setting: &Value) -> String {
    let definition = resolve(schema::shared(), setting);
    if definition.get("oneOf").is_some() {
        return "word".to_owned();
    }
    if let Some(Value::Array(alternatives)) = definition.get("anyOf") {
        return alternatives.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    if let Some(pattern) = definition.get("pattern") {
        return if pattern == duration::PATTERN { "duration" } else { "decimal" }.to_owned();
    }
    match definition.get("type").and_then(Value::as_str) {
        Some("array") => format!("list of {}s", definition.get("items").map(kind).unwrap_or_default()),
        Some("object") => {
            match definition.get("additionalProperties").filter(|entries| entries.is_object()) {
                Some(entries) => format!("map of {}s", kind(entries)),
                None => "block".to_owned(),
            }
        }
        Some("integer") => "whole number".to_owned(),
        other => other.unwrap_or_default().to_owned(),
    }
}

/// The words of a choice with what each means, or the range of a number.
fn allowed(setting: &Value) -> String {
    let definition = resolve(schema::shared(), setting);
    if let Some(Value::Array(choices)) = definition.get("oneOf") {
        let choice = |choice: &Value| {
            let word = choice.get("const").map(plain).unwrap_or_default();
            format!("{}: {}", code(&word), one_line(description(choice)))
        };
        return choices.iter().map(choice).collect::<Vec<_>>().join("<br>");
    }
    if let Some(range) = definition.get(duration::RANGE) {
        return plain(range);
    }
    let bound = |name| definition.get(name).filter(|_| definition.get("pattern").is_none()).map(plain);
    match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("at least {least}"),
        (None, Some(most)) => format!("at most {most}"),
        (None, None) => NOTHING.to_owned(),
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

fn description(schema: &Value) -> &str {
    schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

/// A value as people write it: a string without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// Text that fits a cell.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
