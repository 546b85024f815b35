//! The shape of one value.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::keys::is_name;
use super::{Field, MAX_KEYS, ObjectShape, Scalar, Shape, max_keys};

/// Deepest nesting that is looked into, lists and objects together.
const MAX_DEPTH: usize = 8;
/// Elements of a list, and values of a map, that are looked at.
const MAX_ITEMS: usize = 64;

impl Shape {
    /// Returns the shape of a value that a result of this principal had. `principal`: a digest.
    ///
    /// ```
    /// use serde_json::json;
    /// use vmcp_script::shapes::Shape;
    ///
    /// let mut shape = Shape::of(&json!({ "id": 7, "tags": ["a", "b"] }), 1);
    /// shape.merge(&Shape::of(&json!({ "id": 8, "next": null }), 1));
    /// assert_eq!(shape.text(1), r#"{"id": int, "next"?: None, "tags"?: list[str]}"#);
    /// ```
    pub fn of(value: &Value, principal: u64) -> Shape {
        shape_at(value, principal, 0, 0)
    }
}

/// `depth`: lists and objects around the value; `level`: objects alone.
fn shape_at(value: &Value, principal: u64, depth: usize, level: usize) -> Shape {
    let scalar = |scalar| Shape { scalars: BTreeSet::from([scalar]), ..Shape::default() };
    match value {
        Value::Null => scalar(Scalar::Null),
        Value::Bool(_) => scalar(Scalar::Bool),
        Value::Number(number) if number.is_f64() => scalar(Scalar::Float),
        Value::Number(_) => scalar(Scalar::Int),
        Value::String(_) => scalar(Scalar::Str),
        Value::Array(_) if depth >= MAX_DEPTH => Shape { deep: true, ..Shape::default() },
        Value::Array(items) => {
            let items = items.iter().take(MAX_ITEMS);
            let items = joined(items.map(|item| shape_at(item, principal, depth + 1, level)), level);
            Shape { list: Some(Box::new(items)), ..Shape::default() }
        }
        Value::Object(_) if depth >= MAX_DEPTH || level >= MAX_KEYS.len() => {
            Shape { deep: true, ..Shape::default() }
        }
        Value::Object(entries) => {
            let object = Some(object_at(entries, principal, depth, level));
            Shape { object, ..Shape::default() }
        }
    }
}

fn object_at(entries: &Map<String, Value>, principal: u64, depth: usize, level: usize) -> ObjectShape {
    let inner = |value: &Value| shape_at(value, principal, depth + 1, level + 1);
    if entries.len() > max_keys(level) || !entries.keys().all(|key| is_name(key)) {
        let values = joined(entries.values().take(MAX_ITEMS).map(inner), level + 1);
        return ObjectShape::Map(Box::new(values));
    }
    let field = |(key, value): (&String, &Value)| {
        let seen_by = BTreeSet::from([principal]);
        (key.clone(), Field { shape: inner(value), optional: false, seen_by })
    };
    ObjectShape::Record(entries.iter().map(field).collect::<BTreeMap<_, _>>())
}

fn joined(shapes: impl Iterator<Item = Shape>, level: usize) -> Shape {
    let mut all = Shape::default();
    shapes.for_each(|shape| all.merge_at(&shape, level));
    all
}

/// Returns the value that a script gets of a result: its structured content, else its only text, parsed if it
/// is a JSON object or list. `None` for every other result.
pub fn content(result: &mut Value) -> Option<Value> {
    let structured = result.get_mut("structuredContent").map(Value::take);
    if let Some(structured) = structured.filter(|value| !value.is_null()) {
        return Some(structured);
    }
    let [block] = result.get("content")?.as_array()?.as_slice() else { return None };
    // The shape of a text is the same whatever it says.
    Some(match parsed(text_of(block)?) {
        Value::String(_) => Value::String(String::new()),
        value => value,
    })
}

/// Returns a text as JSON, if it is an object or a list; a number in a text stays a text.
pub fn parsed(text: &str) -> Value {
    let is_container = text.trim_start().starts_with(['{', '[']);
    let parsed = is_container.then(|| serde_json::from_str::<Value>(text).ok()).flatten();
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Returns the text of a block of text.
pub fn text_of(block: &Value) -> Option<&str> {
    block.get("type").filter(|kind| *kind == "text")?;
    block.get("text")?.as_str()
}
