//! Values between Python and JSON.

use monty_types::MontyObject;
use num_bigint::BigInt;
use serde_json::{Map, Number, Value};

use super::parallel;

/// Deepest nesting of a value that leaves a script; JSON readers refuse more.
const MAX_DEPTH: usize = 100;

/// Errors of a value that cannot leave a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    /// Nested too deep.
    #[error("a value is nested more than {MAX_DEPTH} levels deep")]
    Deep,
    /// Contains itself.
    #[error("a value contains itself")]
    Cycle,
    /// Has the placeholder of a call that `parallel` has not made yet.
    #[error("the result of a call inside of parallel is there when parallel returns")]
    Pending,
}

/// Returns a Python value as JSON. Tuples and sets become lists; an integer beyond 64 bits, a float without
/// a value in JSON, a date and every other object become text, as `str` or `repr` writes it.
pub(super) fn to_json(value: &MontyObject) -> Result<Value, Unfit> {
    json_at(value, 0)
}

fn json_at(value: &MontyObject, depth: usize) -> Result<Value, Unfit> {
    if depth > MAX_DEPTH {
        return Err(Unfit::Deep);
    }
    let list = |items: &[MontyObject]| {
        let items: Result<Vec<_>, _> = items.iter().map(|item| json_at(item, depth + 1)).collect();
        items.map(Value::Array)
    };
    Ok(match value {
        MontyObject::None => Value::Null,
        MontyObject::Bool(value) => Value::Bool(*value),
        MontyObject::Int(value) => Value::from(*value),
        // Ids of some servers need all 64 bits.
        MontyObject::BigInt(value) => {
            u64::try_from(value).map_or_else(|_| Value::String(value.to_string()), Value::from)
        }
        MontyObject::Float(number) => {
            Number::from_f64(*number).map_or_else(|| Value::String(text(value)), Value::Number)
        }
        MontyObject::String(text) => Value::String(text.clone()),
        MontyObject::List(items)
        | MontyObject::Tuple(items)
        | MontyObject::Set(items)
        | MontyObject::FrozenSet(items) => list(items)?,
        MontyObject::NamedTuple { field_names, values, .. } => {
            let entries = field_names.iter().zip(values);
            let entries = entries.map(|(name, value)| Ok((name.clone(), json_at(value, depth + 1)?)));
            Value::Object(entries.collect::<Result<Map<_, _>, Unfit>>()?)
        }
        MontyObject::Dict(pairs) => {
            let entries = pairs.into_iter().map(|(key, value)| Ok((text(key), json_at(value, depth + 1)?)));
            Value::Object(entries.collect::<Result<Map<_, _>, Unfit>>()?)
        }
        // A placeholder has no attributes, so it would leave as an empty object.
        MontyObject::ClassInstance(_) if parallel::place(value).is_some() => return Err(Unfit::Pending),
        MontyObject::ClassInstance(instance) => {
            let pairs = (&instance.attrs).into_iter();
            let entries = pairs.map(|(key, value)| Ok((text(key), json_at(value, depth + 1)?)));
            Value::Object(entries.collect::<Result<Map<_, _>, Unfit>>()?)
        }
        MontyObject::Cycle(..) => return Err(Unfit::Cycle),
        other => Value::String(text(other)),
    })
}

/// Returns a value as `str` writes it.
pub(super) fn text(value: &MontyObject) -> String {
    match value {
        MontyObject::Repr(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns JSON as a Python value.
pub(super) fn from_json(value: Value) -> MontyObject {
    match value {
        Value::Null => MontyObject::None,
        Value::Bool(value) => MontyObject::Bool(value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => MontyObject::Int(value),
            (None, Some(value)) => MontyObject::BigInt(BigInt::from(value)),
            (None, None) => MontyObject::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => MontyObject::String(text),
        Value::Array(items) => MontyObject::List(items.into_iter().map(from_json).collect()),
        Value::Object(entries) => {
            let pairs = entries.into_iter().map(|(key, value)| (MontyObject::String(key), from_json(value)));
            MontyObject::dict(pairs.collect::<Vec<_>>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_go_there_and_back() {
        let value = json!({ "a": [1, -2, 0.5, null, true, "ü\u{1F600}"], "b": { "c": 18_446_744_073_709_551_615_u64 } });
        assert_eq!(to_json(&from_json(value.clone())).unwrap(), value);
        let beyond = MontyObject::BigInt(BigInt::from(u64::MAX) + 1);
        assert_eq!(to_json(&beyond).unwrap(), "18446744073709551616", "integers beyond 64 bits are text");
        let [infinite, none] = [f64::INFINITY, f64::NAN].map(MontyObject::Float);
        let odd = MontyObject::Tuple(vec![infinite, none, MontyObject::Bytes(vec![1])]);
        assert_eq!(to_json(&odd).unwrap(), json!(["inf", "nan", "b'\\x01'"]));
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = (0..200).fold(MontyObject::None, |inner, _| MontyObject::List(vec![inner]));
        assert_eq!(to_json(&deep), Err(Unfit::Deep));
    }

    #[test]
    fn a_placeholder_leaves_no_script() {
        let list = MontyObject::List(vec![parallel::placeholder(0)]);
        assert_eq!(to_json(&list), Err(Unfit::Pending));
        assert_eq!(to_json(&parallel::instance("fs", 1)), Ok(json!({})), "a server is another instance");
    }
}
