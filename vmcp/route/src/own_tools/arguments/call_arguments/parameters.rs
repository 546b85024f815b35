//! Parameters of the called tool, in the places and forms in which models send them.

use serde_json::Value;
use serde_json::value::RawValue;
use vmcp_config::Limits;
use vmcp_json::nesting;
use vmcp_json::object::Object;
use vmcp_json::text::empty_object;

use crate::own_tools::arguments::input::InputError;

/// Returns the parameters of the two fields that may hold them; `None` if neither is there.
pub(super) fn of_fields(
    parameters: Option<&RawValue>,
    arguments: Option<&RawValue>,
    limits: &Limits,
) -> Result<Option<Box<RawValue>>, InputError> {
    let read = |field, value: Option<&RawValue>| value.map(|value| object(field, value, limits)).transpose();
    match (read("parameters", parameters)?, read("arguments", arguments)?) {
        (Some(first), Some(second)) if !same(&first, &second) => {
            Err(InputError::Contradiction { first: "parameters", second: "arguments" })
        }
        (first, second) => Ok(first.or(second)),
    }
}

/// Returns the parameters that stand beside the tool's name: all keys but `fields`.
pub(super) fn beside(
    arguments: &RawValue,
    fields: &[&str],
    limits: &Limits,
) -> Result<Box<RawValue>, InputError> {
    let unreadable = |error: &dyn std::fmt::Display| InputError::Unreadable(error.to_string());
    let object = Object::parse(arguments).map_err(|error| unreadable(&error))?;
    let mut edit = object.edit();
    for field in fields {
        edit.remove(field);
    }
    let rest = edit.finish().into_raw().map_err(|error| unreadable(&error))?;
    within(&rest, "parameters", limits)?;
    Ok(rest)
}

/// Reads an object, or a string that holds one as JSON; an empty string or list is an empty object.
fn object(field: &'static str, value: &RawValue, limits: &Limits) -> Result<Box<RawValue>, InputError> {
    within(value, field, limits)?;
    if value.get().starts_with('{') {
        return Ok(value.to_owned());
    }
    // An empty object of a language that has one kind of empty container.
    if value.get().bytes().filter(|byte| !byte.is_ascii_whitespace()).eq(*b"[]") {
        return Ok(empty_object().to_owned());
    }
    let not_an_object = || InputError::invalid(field, "an object");
    let text: String = serde_json::from_str(value.get()).map_err(|_| not_an_object())?;
    if matches!(text.trim(), "" | "null" | "None" | "[]") {
        return Ok(empty_object().to_owned());
    }
    let inner: Box<RawValue> = serde_json::from_str(text.trim()).map_err(|_| not_an_object())?;
    within(&inner, field, limits)?;
    if inner.get().starts_with('{') { Ok(inner) } else { Err(not_an_object()) }
}

fn within(value: &RawValue, field: &'static str, limits: &Limits) -> Result<(), InputError> {
    let json = value.get();
    let too_long = |actual, limit, unit| Err(InputError::TooLong { field, actual, limit, unit });
    if json.len() > limits.parameters_bytes {
        return too_long(json.len(), limits.parameters_bytes, "bytes");
    }
    match nesting::depth(json.as_bytes()) {
        levels if levels > limits.parameters_depth => {
            too_long(levels, limits.parameters_depth, "levels of nesting")
        }
        _ => Ok(()),
    }
}

fn same(first: &RawValue, second: &RawValue) -> bool {
    let value = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
    first.get() == second.get() || value(first) == value(second)
}
