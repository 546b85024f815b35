//! Data of a template: JSON as [`gotmpl::Value`]s, which are cheap to clone.

use std::collections::BTreeMap;
use std::sync::Arc;

use gotmpl::Value as GoValue;
use serde_json::{Number, Value};

/// Values that a template can refer to.
#[derive(Clone)]
pub(crate) struct Data(GoValue);

impl Data {
    /// Makes the data of JSON.
    pub(crate) fn new(json: &Value) -> Data {
        Data(from_json(json))
    }

    /// Makes the data of named parts, which are shared, not copied.
    pub(crate) fn of_parts(parts: impl IntoIterator<Item = (Arc<str>, Data)>) -> Data {
        Data(GoValue::Map(Arc::new(parts.into_iter().map(|(key, part)| (key, part.0)).collect())))
    }

    /// Returns the value as the engine takes it.
    pub(crate) fn value(&self) -> &GoValue {
        &self.0
    }
}

/// Converts JSON; whole numbers stay whole.
pub(super) fn from_json(json: &Value) -> GoValue {
    match json {
        Value::Null => GoValue::Nil,
        Value::Bool(is) => GoValue::Bool(*is),
        Value::Number(number) => from_number(number),
        Value::String(text) => GoValue::String(text.as_str().into()),
        Value::Array(items) => GoValue::List(items.iter().map(from_json).collect()),
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| (Arc::from(key.as_str()), from_json(value)));
            GoValue::Map(Arc::new(entries.collect::<BTreeMap<_, _>>()))
        }
    }
}

fn from_number(number: &Number) -> GoValue {
    match (number.as_i64(), number.as_u64()) {
        (Some(whole), _) => GoValue::Int(whole),
        (None, Some(whole)) => GoValue::Uint(whole),
        (None, None) => GoValue::Float(number.as_f64().unwrap_or_default()),
    }
}
