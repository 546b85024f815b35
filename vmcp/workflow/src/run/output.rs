//! Results of a run: the properties of `output`, each in its type.

use serde_json::{Map, Value};

use crate::definition::{Output, PropertyForm};
use crate::raw::RawOutputType;
use crate::template::{Data, Template};

/// Builds the result of a run. The error names the property. In a run that its user has cut short, a property
/// that has no value is left out, unless it is required.
pub(super) fn build(output: &Output, data: &Data, is_cut_short: bool) -> Result<Value, String> {
    let result = object(&output.properties, data, "output", is_cut_short)?;
    for name in &output.required {
        if result.get(name).is_none_or(Value::is_null) {
            return Err(format!("output.{name}: it is required and has no value"));
        }
    }
    Ok(Value::Object(result))
}

fn object(
    properties: &[crate::definition::OutputProperty],
    data: &Data,
    parent: &str,
    is_cut_short: bool,
) -> Result<Map<String, Value>, String> {
    let mut result = Map::new();
    for property in properties {
        let path = format!("{parent}.{}", property.name);
        let value = match &property.form {
            PropertyForm::Properties(nested) => object(nested, data, &path, is_cut_short).map(Value::Object),
            PropertyForm::Template(template) => {
                typed(template, property.kind, data).map_err(|error| format!("{path}: {error}"))
            }
        };
        let value = match (value, &property.default) {
            (Ok(value), _) => value,
            (Err(_), Some(default)) => {
                coerced(default.clone(), property.kind).map_err(|error| format!("{path}.default: {error}"))?
            }
            (Err(_), None) if is_cut_short => continue,
            (Err(error), None) => return Err(error),
        };
        result.insert(property.name.clone(), value);
    }
    Ok(result)
}

fn typed(template: &Template, kind: RawOutputType, data: &Data) -> Result<Value, String> {
    if kind == RawOutputType::String {
        return template.text(data).map(Value::String);
    }
    coerced(template.value(data)?, kind)
}

/// Returns a value in the type of its property: texts are read as numbers, truth values or JSON.
fn coerced(value: Value, kind: RawOutputType) -> Result<Value, String> {
    let fits = match kind {
        RawOutputType::String => value.is_string(),
        RawOutputType::Integer => value.is_i64() || value.is_u64(),
        RawOutputType::Number => value.is_number(),
        RawOutputType::Boolean => value.is_boolean(),
        RawOutputType::Object => value.is_object(),
        RawOutputType::Array => value.is_array(),
    };
    if fits {
        return Ok(value);
    }
    let read = match (kind, &value) {
        (RawOutputType::String, other) => Some(Value::String(other.to_string())),
        (RawOutputType::Integer, Value::Number(number)) => {
            let whole = number.as_f64().filter(|it| it.fract() == 0.0 && it.abs() < 9e15);
            whole.map(|whole| Value::from(whole as i64))
        }
        (RawOutputType::Integer, Value::String(text)) => text.trim().parse::<i64>().ok().map(Value::from),
        (RawOutputType::Number, Value::String(text)) => {
            text.trim().parse::<f64>().ok().filter(|it| it.is_finite()).map(Value::from)
        }
        (RawOutputType::Boolean, Value::String(text)) => match text.as_str() {
            "true" | "True" | "TRUE" | "1" => Some(Value::Bool(true)),
            "false" | "False" | "FALSE" | "0" => Some(Value::Bool(false)),
            _ => None,
        },
        (RawOutputType::Object | RawOutputType::Array, Value::String(text)) => {
            let parsed: Option<Value> = serde_json::from_str(text).ok();
            parsed.filter(|value| match kind {
                RawOutputType::Object => value.is_object(),
                _ => value.is_array(),
            })
        }
        _ => None,
    };
    read.ok_or_else(|| {
        let shown: String = value.to_string().chars().take(100).collect();
        let kind = serde_json::to_string(&kind).unwrap_or_default();
        format!("`{shown}` is no {}", kind.trim_matches('"'))
    })
}
