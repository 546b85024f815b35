//! Comparisons of Go's templates: `eq`, `ne`, `lt`, `le`, `gt` and `ge`. Numbers are compared by their size:
//! a whole number of JSON and a fraction have one type in Go's data, `float64`.

use std::cmp::Ordering;

use gotmpl::{Template, TemplateError, Value};

type Compared<T> = Result<T, TemplateError>;

/// Adds the comparisons to an engine.
pub(super) fn with_comparisons(engine: Template) -> Template {
    engine
        .func("eq", |args| match args {
            [first, others @ ..] if !others.is_empty() => {
                for other in others {
                    if is_equal(first, other)? {
                        return Ok(Value::Bool(true));
                    }
                }
                Ok(Value::Bool(false))
            }
            _ => Err(wrong_count("eq", args)),
        })
        .func("ne", |args| match args {
            [left, right] => Ok(Value::Bool(!is_equal(left, right)?)),
            _ => Err(wrong_count("ne", args)),
        })
        .func("lt", |args| ordered("lt", args, Ordering::is_lt))
        .func("le", |args| ordered("le", args, Ordering::is_le))
        .func("gt", |args| ordered("gt", args, Ordering::is_gt))
        .func("ge", |args| ordered("ge", args, Ordering::is_ge))
}

fn wrong_count(name: &str, args: &[Value]) -> TemplateError {
    TemplateError::ArgCount { name: name.to_owned(), expected: 2, got: args.len() }
}

fn ordered(name: &str, args: &[Value], holds: fn(Ordering) -> bool) -> Compared<Value> {
    let [left, right] = args else { return Err(wrong_count(name, args)) };
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => numbers(left, right),
    };
    order.map(|order| Value::Bool(holds(order))).ok_or_else(|| incomparable(left, right))
}

fn is_equal(left: &Value, right: &Value) -> Compared<bool> {
    if let Some(order) = numbers(left, right) {
        return Ok(order.is_eq());
    }
    match (left, right) {
        (Value::Nil, Value::Nil) => Ok(true),
        (Value::Nil, _) | (_, Value::Nil) => Ok(false),
        (Value::Bool(left), Value::Bool(right)) => Ok(left == right),
        (Value::String(left), Value::String(right)) => Ok(left == right),
        _ => Err(incomparable(left, right)),
    }
}

/// Compares two numbers; `None` if a value has another type.
fn numbers(left: &Value, right: &Value) -> Option<Ordering> {
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => float(left)?.partial_cmp(&float(right)?),
    }
}

fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Int(whole) => Some(i128::from(*whole)),
        Value::Uint(whole) => Some(i128::from(*whole)),
        _ => None,
    }
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(number) => Some(*number),
        other => whole(other).map(|whole| whole as f64),
    }
}

fn incomparable(left: &Value, right: &Value) -> TemplateError {
    let (left, right) = (left.type_name(), right.type_name());
    TemplateError::Exec(format!("incompatible types for comparison: {left} and {right}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_by_their_size() {
        type Holds = fn(Ordering) -> bool;
        let (whole, fraction, huge) = (Value::Int(1), Value::Float(0.5), Value::Uint(u64::MAX));
        let cases: [(Holds, &Value, &Value, bool); 4] = [
            (Ordering::is_gt, &whole, &fraction, true),
            (Ordering::is_le, &fraction, &whole, true),
            (Ordering::is_lt, &huge, &whole, false),
            (Ordering::is_ge, &huge, &fraction, true),
        ];
        for (holds, left, right, expected) in cases {
            let args = [left.clone(), right.clone()];
            assert_eq!(ordered("lt", &args, holds).unwrap(), Value::Bool(expected), "{left} {right}");
        }
        assert!(is_equal(&Value::Int(3), &Value::Float(3.0)).unwrap());
        assert!(!is_equal(&Value::Nil, &Value::String("x".into())).unwrap());
        assert!(is_equal(&Value::String("1".into()), &Value::Int(1)).is_err());
        assert!(ordered("lt", &[Value::Nil, Value::Int(1)], Ordering::is_lt).is_err());
    }
}
