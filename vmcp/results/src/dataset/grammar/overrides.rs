//! `parameters` of an operation: values that override its literals, by name.

use serde_json::{Map, Value};

use super::fields::Fields;
use super::{Condition, Limit, Operation, Order, OrderKey};

/// Puts the values of known parameters in force, and notes their names in `used`.
pub(super) fn apply(
    operation: &mut Operation,
    columns: &[String],
    parameters: &Map<String, Value>,
    used: &mut Vec<String>,
) -> Result<(), String> {
    let fields = Fields::new(columns);
    let field = |name: &str, value: &Value| {
        let text = value.as_str().unwrap_or_default();
        fields.named(text).ok_or_else(|| format!("parameters.{name} names no field: {value}"))
    };
    let list = |name: &str, value: &Value| match value {
        Value::Array(names) => names.iter().map(|value| field(name, value)).collect(),
        value => Ok(vec![field(name, value)?]),
    };
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_null()) {
        if used.contains(name) {
            continue;
        }
        match name.as_str() {
            "limit" | "n" | "top" | "top_n" => {
                let count = value.as_u64().filter(|count| *count > 0);
                let count =
                    count.ok_or_else(|| format!("parameters.{name} must be a whole number from 1"))?;
                let limit = operation.limit.unwrap_or(Limit { count, from_end: false, is_top: false });
                operation.limit = Some(Limit { count, ..limit });
            }
            "sort_by" | "order_by" => {
                let descends = operation.order.first().is_some_and(|order| order.descends);
                operation.order = vec![Order { by: OrderKey::Field(field(name, value)?), descends }];
            }
            "group_by" => operation.group = list(name, value)?,
            "fields" | "columns" => operation.select = list(name, value)?,
            "threshold" | "value" => {
                let Some(literal) = only_literal(operation.filter.as_mut(), None) else { continue };
                literal.clone_from(value);
            }
            name => {
                let Some(literal) =
                    fields.named(name).and_then(|field| only_literal(operation.filter.as_mut(), Some(field)))
                else {
                    continue;
                };
                literal.clone_from(value);
            }
        }
        used.push(name.clone());
    }
    // Read last: it changes an order that another parameter may have made.
    for name in ["order", "direction"] {
        let Some(value) = parameters.get(name).and_then(Value::as_str) else { continue };
        let Some(first) = operation.order.first_mut() else { continue };
        first.descends = match value.to_lowercase().as_str() {
            "desc" | "descending" => true,
            "asc" | "ascending" => false,
            _ => return Err(format!("parameters.{name} must be `asc` or `desc`")),
        };
        used.push(name.to_owned());
    }
    Ok(())
}

/// Returns the literal of the only comparison, of all or with a field.
fn only_literal(condition: Option<&mut Condition>, wanted: Option<usize>) -> Option<&mut Value> {
    let mut literals = Vec::new();
    collect(condition?, wanted, &mut literals);
    if literals.len() == 1 { literals.pop() } else { None }
}

fn collect<'a>(condition: &'a mut Condition, wanted: Option<usize>, literals: &mut Vec<&'a mut Value>) {
    match condition {
        Condition::And(one, other) | Condition::Or(one, other) => {
            collect(one, wanted, literals);
            collect(other, wanted, literals);
        }
        Condition::Compare { field, value, .. } => {
            if wanted.is_none_or(|wanted| wanted == *field) {
                literals.push(value);
            }
        }
    }
}
