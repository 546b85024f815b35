//! JSON as Cedar values, in the types that ToolHive gives them: a number is a decimal, because JSON does not
//! tell whole numbers from others.

use std::collections::BTreeMap;

use cedar_policy::RestrictedExpression;
use serde_json::{Map, Number, Value};

/// Attributes of an entity, or entries of the context.
pub(super) type Attributes = BTreeMap<String, RestrictedExpression>;

/// Deepest nesting of objects and lists that is converted; deeper values are left out.
const MAX_DEPTH: usize = 10;

/// Converts claims: each becomes `claim_<name>`.
pub(super) fn claims(claims: &Map<String, Value>) -> Attributes {
    let claims = claims.iter();
    claims.filter_map(|(name, claim)| Some((format!("claim_{name}"), value(claim, 0)?))).collect()
}

/// Converts arguments: each text, flag and number becomes `arg_<name>`, all else `arg_<name>_present`.
pub(super) fn arguments(arguments: &Map<String, Value>) -> Attributes {
    let (simple, other): (Vec<_>, Vec<_>) = arguments
        .iter()
        .partition(|(_, argument)| argument.is_string() || argument.is_boolean() || argument.is_number());
    let simple = simple.into_iter().filter_map(|(name, it)| Some((format!("arg_{name}"), value(it, 0)?)));
    // Last: an argument called `x_present` must not stand for the presence of `x`.
    let present = other.into_iter().map(|(name, _)| (format!("arg_{name}_present"), true));
    simple.chain(present.map(|(name, flag)| (name, RestrictedExpression::new_bool(flag)))).collect()
}

/// Converts all arguments into one record, nested ones too.
pub(super) fn record(object: &Map<String, Value>) -> Option<RestrictedExpression> {
    nested(object, 0)
}

fn nested(object: &Map<String, Value>, depth: usize) -> Option<RestrictedExpression> {
    let entries = object.iter().filter_map(|(name, entry)| Some((name.clone(), value(entry, depth + 1)?)));
    RestrictedExpression::new_record(entries).ok()
}

/// Converts a value; `None` for null, a number out of a decimal's range, and values that are nested too deep.
fn value(value_: &Value, depth: usize) -> Option<RestrictedExpression> {
    match value_ {
        _ if depth > MAX_DEPTH => None,
        Value::Null => None,
        Value::Bool(flag) => Some(RestrictedExpression::new_bool(*flag)),
        Value::Number(number) => decimal(number).map(RestrictedExpression::new_decimal),
        Value::String(text) => Some(RestrictedExpression::new_string(text.clone())),
        Value::Array(items) => {
            let items = items.iter().filter_map(|item| value(item, depth + 1));
            Some(RestrictedExpression::new_set(items))
        }
        Value::Object(object) => nested(object, depth),
    }
}

/// Writes a number as Cedar's `decimal` takes it: four digits behind the point.
fn decimal(number: &Number) -> Option<String> {
    /// Largest whole part of a decimal.
    const MAX: f64 = 922_337_203_685_477.0;
    if let Some(whole) = number.as_i64() {
        return ((whole as f64).abs() <= MAX).then(|| format!("{whole}.0"));
    }
    number.as_f64().filter(|number| number.abs() <= MAX).map(|number| format!("{number:.4}"))
}
