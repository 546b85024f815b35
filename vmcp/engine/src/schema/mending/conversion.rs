//! Conversion of one value to a type that a schema wants.

use jsonschema::JsonType;
use serde_json::{Number, Value};
use vmcp_json::nesting;

/// Longest text that is read as a number or a boolean, in bytes.
const MAX_SCALAR_BYTES: usize = 40;
/// Deepest list or object that is read from text.
const MAX_TEXT_DEPTH: usize = 64;
/// Floats below this are whole numbers without loss, 2^53.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Permission to put a value into a list of its own where a list is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrapping {
    Allowed,
    Forbidden,
}

/// Returns `value` as one of the wanted types; `None` if it cannot be read as such.
pub(super) fn converted(
    value: &Value,
    wants: &dyn Fn(JsonType) -> bool,
    wrapping: Wrapping,
) -> Option<Value> {
    let read = match value {
        Value::String(text) => from_text(text.trim(), wants),
        // Models write digits of an identifier as a number. Others than whole numbers have several spellings.
        Value::Number(number) if wants(JsonType::String) && !number.is_f64() => {
            Some(number.to_string().into())
        }
        _ => None,
    };
    let is_wrapped = wrapping == Wrapping::Allowed && wants(JsonType::Array) && says_something(value);
    read.or_else(|| is_wrapped.then(|| Value::Array(vec![value.clone()])))
}

/// Returns the option that `value` means: the same scalar, written as another type.
pub(super) fn listed_value(value: &Value, options: &[Value]) -> Option<Value> {
    let spelled = |value: &Value| match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    };
    let wanted = spelled(value)?;
    let is_meant = |option: &&Value| {
        let both_text = option.is_string() && value.is_string();
        spelled(option).is_some_and(|option| {
            !both_text
                && (option == wanted
                    || (option == "true" || option == "false") && option.eq_ignore_ascii_case(&wanted))
        })
    };
    options.iter().find(is_meant).cloned()
}

/// Returns the integer that a float is, if it is one without loss.
pub(super) fn integer(number: f64) -> Option<i64> {
    // A whole number below 2^53 converts without loss.
    (number.fract() == 0.0 && number.abs() < MAX_EXACT).then_some(number as i64)
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        _ => true,
    }
}

fn from_text(text: &str, wants: &dyn Fn(JsonType) -> bool) -> Option<Value> {
    if wants(JsonType::Null) && matches!(text, "" | "null" | "None") {
        return Some(Value::Null);
    }
    let number =
        if text.len() <= MAX_SCALAR_BYTES { serde_json::from_str::<Number>(text).ok() } else { None };
    if let Some(number) = number {
        let is_integer = !number.is_f64();
        return match number.as_f64().and_then(integer) {
            _ if is_integer && (wants(JsonType::Integer) || wants(JsonType::Number)) => Some(number.into()),
            Some(whole) if wants(JsonType::Integer) => Some(whole.into()),
            _ => wants(JsonType::Number).then(|| number.into()),
        };
    }
    if wants(JsonType::Boolean) && (text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")) {
        return Some(text.eq_ignore_ascii_case("true").into());
    }
    let is_wanted = (text.starts_with('[') && wants(JsonType::Array))
        || (text.starts_with('{') && wants(JsonType::Object));
    if !is_wanted || nesting::nests_deeper(text.as_bytes(), MAX_TEXT_DEPTH) {
        return None;
    }
    serde_json::from_str(text).ok()
}
