//! Arguments and claims as Cedar values, whole or not at all: a value that Cedar cannot hold is an
//! [`Unreadable`], and denies the calls whose policies read it.
//!
//! ```text
//! text, flag        <prefix>_<name>, as it is
//! number            <prefix>_<name>, decimal; <prefix>_<name>_long, a Long; <prefix>_<name>_text, digits
//! list, object      <prefix>_<name>, a set or a record; <prefix>_<name>_present, as ToolHive has it
//! null              <prefix>_<name>_present only
//! ```

use std::collections::BTreeMap;

use cedar_policy::RestrictedExpression;

use super::bounds::{ARGUMENT, ARGUMENTS, DERIVED};
use super::reads::Reads;
use crate::exact_json::{Entries, Json, entry};

/// Attributes of an entity, or entries of the context.
pub(super) type Attributes = BTreeMap<String, RestrictedExpression>;

/// Deepest nesting of objects and lists that is converted.
const MAX_DEPTH: usize = 10;

/// A value that Cedar cannot hold, and the reason. The text names the attribute, never the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` {reason}")]
pub(super) struct Unreadable {
    pub(super) name: String,
    pub(super) reason: &'static str,
}

/// Arguments of a call as policies read them.
#[derive(Debug, Clone, Default)]
pub(super) struct Arguments {
    /// Attributes `arg_<name>`, of the context and of the resource.
    pub(super) flat: Attributes,
    /// The record `arguments` of the context.
    pub(super) record: Option<RestrictedExpression>,
}

/// Converts the arguments that policies read.
pub(super) fn arguments(arguments: &Entries, reads: &Reads) -> Result<Arguments, Unreadable> {
    let flat = attributes(arguments, ARGUMENT, reads)?;
    if !reads.reads_record() {
        return Ok(Arguments { flat, record: None });
    }
    let mut entries = Vec::new();
    for (name, argument) in arguments.iter().filter(|(name, _)| reads.reads_key(name)) {
        let unreadable = |reason| Unreadable { name: format!("{ARGUMENTS}.{name}"), reason };
        entries.push((name.clone(), value(argument, 1).map_err(unreadable)?));
    }
    // Keys are unique since the text was parsed.
    let record = RestrictedExpression::new_record(entries).ok();
    Ok(Arguments { flat, record })
}

/// Converts the entries that policies read as attributes behind `prefix`.
pub(super) fn attributes(entries: &Entries, prefix: &str, reads: &Reads) -> Result<Attributes, Unreadable> {
    let mut attributes = Attributes::new();
    let mut add = |name: &str| -> Result<(), Unreadable> {
        let name_of = || format!("{prefix}{name}");
        match attribute(entries, name) {
            Ok(Some(value)) => _ = attributes.insert(name_of(), value),
            Ok(None) => {}
            Err(reason) => return Err(Unreadable { name: name_of(), reason }),
        }
        Ok(())
    };
    if reads.whole() {
        for (name, value) in entries {
            if matches!(value, Json::List(_) | Json::Object(_) | Json::Null) {
                add(&format!("{name}_present"))?;
            }
            add(name)?;
        }
    }
    for name in reads.behind(prefix) {
        add(name)?;
    }
    Ok(attributes)
}

/// Returns the attribute with this name: an entry's own value, or a value derived from an entry.
fn attribute(entries: &Entries, name: &str) -> Result<Option<RestrictedExpression>, &'static str> {
    let own = entry(entries, name);
    let mut derived =
        DERIVED.iter().filter_map(|suffix| Some((*suffix, entry(entries, name.strip_suffix(suffix)?)?)));
    let derived = derived.next();
    match (own, derived) {
        (Some(_), Some((suffix, base))) if suffix != "_present" || is_other(base) => {
            Err("is both a value of its own and worked out from another")
        }
        (Some(own), _) => value(own, 0).map(Some),
        (None, Some(("_present", base))) => Ok(is_other(base).then(|| RestrictedExpression::new_bool(true))),
        (None, Some(("_long", Json::Number(number)))) => {
            let long = number.long().ok_or("is no whole number of 64 bits")?;
            Ok(Some(RestrictedExpression::new_long(long)))
        }
        (None, Some(("_text", Json::Number(number)))) => {
            Ok(Some(RestrictedExpression::new_string(number.canonical())))
        }
        (None, Some(("_text", Json::Text(text)))) => Ok(Some(RestrictedExpression::new_string(text.clone()))),
        (None, Some((_, _))) => Err("is of another type"),
        (None, None) => Ok(None),
    }
}

/// True for a value whose presence ToolHive tells by `_present`.
fn is_other(value: &Json) -> bool {
    matches!(value, Json::List(_) | Json::Object(_) | Json::Null)
}

/// Converts a value; the error says why Cedar cannot hold it.
fn value(value_: &Json, depth: usize) -> Result<RestrictedExpression, &'static str> {
    if depth > MAX_DEPTH {
        return Err("is nested deeper than 10 levels");
    }
    Ok(match value_ {
        Json::Null => return Err("is or holds null"),
        Json::Flag(flag) => RestrictedExpression::new_bool(*flag),
        Json::Number(number) => RestrictedExpression::new_decimal(
            number.decimal().ok_or("has a number that no decimal holds exactly; read `_long` or `_text`")?,
        ),
        Json::Text(text) => RestrictedExpression::new_string(text.clone()),
        Json::List(items) => {
            let items: Result<Vec<_>, _> = items.iter().map(|item| value(item, depth + 1)).collect();
            RestrictedExpression::new_set(items?)
        }
        Json::Object(object) => {
            let entry = |(name, entry): &(String, Json)| Ok((name.clone(), value(entry, depth + 1)?));
            let entries: Result<Vec<_>, &'static str> = object.iter().map(entry).collect();
            RestrictedExpression::new_record(entries?).map_err(|_| "names a key twice")?
        }
    })
}
