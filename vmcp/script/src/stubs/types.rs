//! Types in Python of JSON schemas.

use std::fmt::Write as _;

use serde_json::Value;

use crate::names::{is_identifier, python_name};

/// Deepest nesting of types; deeper ones are `Any`.
const MAX_DEPTH: usize = 6;
/// Most types of one stub; further ones are `Any`. Bounds the work of a schema that contains itself.
const MAX_TYPES: usize = 2_000;
/// Most classes of one stub; further objects are `dict[str, Any]`.
const MAX_SHAPES: usize = 12;
/// Most choices of a `Literal`; with more, the type of the first stands.
const MAX_CHOICES: usize = 16;

/// Classes of objects with known keys, before the function that uses them.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    classes: Vec<(String, String)>,
    depth: usize,
    types: usize,
}

impl Shapes {
    /// Returns the classes as text.
    pub(super) fn text(&self) -> String {
        self.classes.iter().map(|(_, text)| text.as_str()).collect()
    }

    fn add(&mut self, title: &str, body: &str) -> String {
        let base = python_name(title);
        let used = |name: &str| self.classes.iter().find(|(class, _)| class == name);
        let mut name = base.clone();
        let mut number = 2;
        while let Some((_, text)) = used(&name) {
            if *text == class(&name, body) {
                return name;
            }
            name = format!("{base}{number}");
            number += 1;
        }
        self.classes.push((name.clone(), class(&name, body)));
        name
    }
}

fn class(name: &str, body: &str) -> String {
    format!("class {name}(TypedDict):\n{body}")
}

/// Returns the type of a schema. `root` holds the definitions that `$ref` names.
pub(super) fn python_type(schema: &Value, root: &Value, shapes: &mut Shapes) -> String {
    if shapes.depth >= MAX_DEPTH || shapes.types >= MAX_TYPES {
        return "Any".to_owned();
    }
    shapes.types += 1;
    shapes.depth += 1;
    let written = written(schema, root, shapes);
    shapes.depth -= 1;
    written
}

fn written(schema: &Value, root: &Value, shapes: &mut Shapes) -> String {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let found = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return found.map_or_else(|| "Any".to_owned(), |found| python_type(found, root, shapes));
    }
    if let Some(value) = schema.get("const") {
        return format!("Literal[{}]", literal(value));
    }
    if let Some(choices) = schema.get("enum").and_then(Value::as_array).filter(|it| it.len() <= MAX_CHOICES) {
        return format!("Literal[{}]", joined(choices.iter().map(literal), ", "));
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(options) = schema.get(key).and_then(Value::as_array) {
            return union(options.iter().map(|option| python_type(option, root, shapes)).collect());
        }
    }
    // Generators wrap a reference so, to put a default or a description beside it.
    if let Some([only]) = schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice)
        && schema.get("properties").is_none()
    {
        return python_type(only, root, shapes);
    }
    match schema.get("type") {
        Some(Value::String(name)) => named(name, schema, root, shapes),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str);
            union(names.map(|name| named(name, schema, root, shapes)).collect())
        }
        _ if schema.get("properties").is_some() => named("object", schema, root, shapes),
        _ => "Any".to_owned(),
    }
}

fn named(name: &str, schema: &Value, root: &Value, shapes: &mut Shapes) -> String {
    match name {
        "string" => "str".to_owned(),
        "integer" => "int".to_owned(),
        "number" => "float".to_owned(),
        "boolean" => "bool".to_owned(),
        "null" => "None".to_owned(),
        "array" => match schema.get("items") {
            Some(items) => format!("list[{}]", python_type(items, root, shapes)),
            None => "list".to_owned(),
        },
        "object" => object(schema, root, shapes),
        _ => "Any".to_owned(),
    }
}

fn object(schema: &Value, root: &Value, shapes: &mut Shapes) -> String {
    let properties = schema.get("properties").and_then(Value::as_object).filter(|it| !it.is_empty());
    let Some(properties) = properties.filter(|_| shapes.classes.len() < MAX_SHAPES) else {
        return match schema.get("additionalProperties").filter(|values| values.is_object()) {
            Some(values) => format!("dict[str, {}]", python_type(values, root, shapes)),
            None => "dict[str, Any]".to_owned(),
        };
    };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|it| it == name));
    let mut body = String::new();
    for (name, property) in properties {
        let value = python_type(property, root, shapes);
        let value = if is_required(name) { value } else { format!("NotRequired[{value}]") };
        // A key that cannot be an identifier stands as a comment: a class cannot have it.
        let sign = if is_identifier(name) { "" } else { "# " };
        // Writing to a string cannot fail.
        let _ = writeln!(body, "    {sign}{}: {value}", comment_free(name));
    }
    let title = schema.get("title").and_then(Value::as_str).filter(|title| is_identifier(title));
    shapes.add(title.unwrap_or("Shape"), &body)
}

/// Returns a name in one line.
fn comment_free(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a value as Python writes it.
pub(super) fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Array(items) => format!("[{}]", joined(items.iter().map(literal), ", ")),
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| {
                format!("{}: {}", Value::from(key.as_str()), literal(value))
            };
            format!("{{{}}}", joined(entries.iter().map(entry), ", "))
        }
        // Texts of JSON are texts of Python, too.
        Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

fn union(options: Vec<String>) -> String {
    let mut kept: Vec<String> = Vec::new();
    for option in options {
        if option == "Any" {
            return option;
        }
        if !kept.contains(&option) {
            kept.push(option);
        }
    }
    if kept.is_empty() { "Any".to_owned() } else { kept.join(" | ") }
}

fn joined(texts: impl Iterator<Item = String>, with: &str) -> String {
    texts.collect::<Vec<_>>().join(with)
}
