//! Arguments of a call: JSON whose templates are filled in.

use serde_json::{Map, Value};

use crate::definition::Arguments;
use crate::template::{Data, Template};

/// Fills in the arguments of a call. The error names the key.
pub(super) fn fill(arguments: &Arguments, data: &Data) -> Result<Map<String, Value>, String> {
    match filled(arguments, data, "")? {
        Value::Object(arguments) => Ok(arguments),
        _ => Ok(Map::new()),
    }
}

fn filled(arguments: &Arguments, data: &Data, path: &str) -> Result<Value, String> {
    match arguments {
        Arguments::Constant(value) => Ok(value.clone()),
        Arguments::Template(template) => {
            template.value(data).map_err(|error| format!("arguments{path}: {error}"))
        }
        Arguments::List(items) => {
            let items = items.iter().enumerate();
            items.map(|(index, item)| filled(item, data, &format!("{path}[{index}]"))).collect()
        }
        Arguments::Object(entries) => {
            let entries = entries.iter();
            let fill = |(key, value): &(String, Arguments)| {
                Ok((key.clone(), filled(value, data, &format!("{path}.{key}"))?))
            };
            entries.map(fill).collect::<Result<_, _>>().map(Value::Object)
        }
    }
}

/// Evaluates a condition.
pub(super) fn holds(condition: &Template, data: &Data) -> Result<bool, String> {
    let text = condition.text(data).map_err(|error| format!("condition: {error}"))?;
    match text.trim() {
        "true" | "True" | "TRUE" => Ok(true),
        "false" | "False" | "FALSE" => Ok(false),
        other => {
            let shown: String = other.chars().take(100).collect();
            let source = condition.source();
            Err(format!("condition: {source} yields `{shown}`, neither `true` nor `false`"))
        }
    }
}

/// Returns the items of a list: a list, or the JSON of one.
pub(super) fn items(collection: &Template, data: &Data) -> Result<Vec<Value>, String> {
    let value = collection.value(data).map_err(|error| format!("collection: {error}"))?;
    let value = match value {
        Value::String(text) => serde_json::from_str(&text)
            .map_err(|error| format!("collection: the text is not the JSON of a list: {error}"))?,
        other => other,
    };
    match value {
        Value::Array(items) => Ok(items),
        // A result without items, as Go servers write it.
        Value::Null => Ok(Vec::new()),
        _ => Err(format!("collection: {} yields no list", collection.source())),
    }
}
