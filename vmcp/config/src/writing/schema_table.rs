//! Renders the fields of a JSON Schema as rows of a Markdown table.
//!
//! Both generated references use it: the settings of `vmcp.yaml` and the fields of the Kubernetes resources.
//! It reads the keywords of both schemas: `$ref` into `$defs`, choices as `oneOf` or `enum`, and ranges as
//! numbers, as [`RANGE`](duration::RANGE) or in the message of a CEL rule of Kubernetes.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::values::decimal;
use crate::values::duration;

/// Stands in a cell that has nothing to say.
const NOTHING: &str = "–";

/// Head of the table; the rows follow.
const HEAD: &str = "
| field | type | default | allowed | meaning |
|---|---|---|---|---|
";

/// Writes tables of the fields of one schema.
///
/// # Examples
///
/// ```
/// use vmcp_config::SchemaTable;
///
/// let schema = serde_json::json!({
///     "required": ["port"],
///     "properties": { "port": { "type": "integer", "minimum": 1, "maximum": 65535, "description": "Port to listen on." } },
/// });
/// let mut page = String::new();
/// SchemaTable::new(&schema, &[]).write(&mut page, "server", &schema);
/// assert!(page.ends_with("| **`server.port`** | whole number | – | 1 to 65535 | Port to listen on. |\n"));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct SchemaTable<'a> {
    root: &'a Value,
    described_elsewhere: &'a [(&'a str, &'a str)],
}

impl<'a> SchemaTable<'a> {
    /// Creates a renderer. `$ref` is looked up in `root`. A field named in `described_elsewhere` gets the
    /// given words as its type and no rows for its content.
    pub fn new(root: &'a Value, described_elsewhere: &'a [(&'a str, &'a str)]) -> Self {
        Self { root, described_elsewhere }
    }

    /// Appends a table of all fields inside of `schema`, whose own path is `path`.
    pub fn write(&self, page: &mut String, path: &str, schema: &Value) {
        page.push_str(HEAD);
        self.write_fields(page, path, schema);
    }

    /// Appends rows for the content of a field: the keys of a block, of the items of a list, or of the
    /// entries of a map.
    fn write_fields(&self, page: &mut String, path: &str, schema: &Value) {
        let definition = resolve(self.root, schema);
        if let Some(items) = definition.get("items") {
            self.write_fields(page, &format!("{path}[]"), items);
        }
        if let Some(entries) = entries(definition) {
            self.write_fields(page, &format!("{path}.<name>"), entries);
        }
        let required = definition.get("required").and_then(Value::as_array);
        for (key, field) in properties(definition) {
            let path = format!("{path}.{key}");
            let elsewhere = self.described_elsewhere.iter().find(|(name, _)| name == key);
            let is_required = required.is_some_and(|required| required.iter().any(|name| name == key));
            let bold = if is_required { "**" } else { "" };
            let field_type =
                elsewhere.map_or_else(|| self.type_in_words(field), |(_, words)| (*words).to_owned());
            let default =
                field.get("default").map_or_else(|| NOTHING.to_owned(), |value| code(&plain(value)));
            let (allowed, meaning) = (self.allowed(field), one_line(description(field)));
            // Writing to a string cannot fail.
            let _ =
                writeln!(page, "| {bold}`{path}`{bold} | {field_type} | {default} | {allowed} | {meaning} |");
            if elsewhere.is_none() {
                self.write_fields(page, &path, field);
            }
        }
    }

    fn type_in_words(&self, field: &Value) -> String {
        let definition = resolve(self.root, field);
        if definition.get("enum").is_some() || definition.get("oneOf").is_some() {
            return "word".to_owned();
        }
        if definition.get("x-kubernetes-int-or-string").is_some() {
            let quantity = definition.get("pattern").is_some();
            return if quantity { "quantity" } else { "number or percentage" }.to_owned();
        }
        // A Kubernetes schema has neither durations nor decimals: the CEL rule of a string says that it is
        // one.
        let rule = definition.pointer("/x-kubernetes-validations/0/rule").and_then(Value::as_str);
        let rule = rule.unwrap_or_default();
        let pattern = definition.get("pattern").and_then(Value::as_str);
        if rule.starts_with("duration(self)") || pattern == Some(duration::PATTERN) {
            return "duration".to_owned();
        }
        if rule.starts_with("double(self)") {
            return "decimal, in quotes".to_owned();
        }
        if pattern == Some(decimal::PATTERN) {
            return "decimal".to_owned();
        }
        if let Some(Value::Array(alternatives)) = definition.get("anyOf") {
            return alternatives.iter().map(|each| self.type_in_words(each)).collect::<Vec<_>>().join(" or ");
        }
        match not_null(definition.get("type")) {
            Some("array") => {
                let items = definition.get("items").map(|items| self.type_in_words(items));
                format!("list of {}s", items.unwrap_or_default())
            }
            Some("object") => match entries(definition) {
                Some(entries) => format!("map of {}s", self.type_in_words(entries)),
                None => "block".to_owned(),
            },
            Some("integer") => "whole number".to_owned(),
            Some(other) => other.to_owned(),
            None => "any JSON".to_owned(),
        }
    }

    /// Returns the words of a choice, with the meaning of each if the schema has it, or the range of a
    /// number.
    fn allowed(&self, field: &Value) -> String {
        let definition = resolve(self.root, field);
        if let Some(Value::Array(words)) = definition.get("enum") {
            return words.iter().map(|word| code(&plain(word))).collect::<Vec<_>>().join(", ");
        }
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
        let message = definition.pointer("/x-kubernetes-validations/0/message").and_then(Value::as_str);
        if let Some(range) = message.and_then(range_of_rule) {
            return range.replace(" and ", " to ");
        }
        // A duration may be a bare number of seconds, at least 0, which says nothing about its range.
        let is_duration = definition.get("pattern").is_some_and(|pattern| pattern == duration::PATTERN);
        let bound = |name| definition.get(name).filter(|_| !is_duration).and_then(Value::as_f64);
        match (bound("minimum"), bound("maximum")) {
            (Some(least), Some(most)) => format!("{least} to {most}"),
            (Some(least), None) => format!("at least {least}"),
            (None, Some(most)) => format!("at most {most}"),
            (None, None) => entries(definition).map_or_else(|| NOTHING.to_owned(), |each| self.allowed(each)),
        }
    }
}

/// Returns the range in the message of a CEL rule about a range: `1ms and 24h`. `None` for any other rule.
pub fn range_of_rule(message: &str) -> Option<&str> {
    let (_, range) = message.strip_prefix("must be a ")?.split_once("between ")?;
    range.split_once(", such as").map(|(range, _)| range)
}

/// Returns the word of `type`: of an optional field, the word beside `null`.
fn not_null(kind: Option<&Value>) -> Option<&str> {
    match kind? {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        kind => kind.as_str(),
    }
}

/// Returns the schema of a map's entries; `None` for a block of known keys.
fn entries(definition: &Value) -> Option<&Value> {
    definition.get("additionalProperties").filter(|entries| entries.is_object())
}

/// Yields the keys of a block in the order of their declaration, each with its schema.
pub(crate) fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

pub(crate) fn description(schema: &Value) -> &str {
    schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

/// Formats a value as people write it: a string without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// Makes text fit a cell: one line, with `|` escaped.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Follows `$ref`, which always points into `$defs`; a schema without one is returned unchanged.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema.get("$ref").and_then(Value::as_str);
    reference.and_then(|reference| root.pointer(reference.strip_prefix('#')?)).unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::SchemaTable;

    #[test]
    fn an_optional_field_has_the_type_of_its_value() {
        let schema = json!({ "properties": {
            "count": { "type": ["integer", "null"], "description": "A." },
            "since": { "type": ["null", "string"], "description": "B." },
            "sample": { "description": "C." },
        } });
        let mut page = String::new();
        SchemaTable::new(&schema, &[]).write(&mut page, "status", &schema);
        let types: Vec<_> = page.lines().skip(2).filter_map(|row| row.split(" | ").nth(1)).collect();
        assert_eq!(types, ["whole number", "string", "any JSON"], "{page}");
    }
}
