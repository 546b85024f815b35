//! `trim`, `instr` and `replace` in place of SQLite's own. Results are the same, but for the last digit of
//! some reals.
//!
//! The time of SQLite's grows with the product of two lengths, and SQLite looks at limits between calls: an
//! `ltrim` of 40,000 characters by as many took 4.6 s. The time of these grows with the sum.

use std::borrow::Cow;
use std::collections::HashSet;

use memchr::memmem;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error, Result, ffi};

/// Bytes of a set of characters up to which it is searched as it is.
const FEW_BYTES: usize = 16;

/// Registers the functions; a result of more than `max_bytes` is an error.
pub(super) fn register(connection: &Connection, max_bytes: usize) -> Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    for (name, at_start, at_end) in [("trim", true, true), ("ltrim", true, false), ("rtrim", false, true)] {
        let trimmed = move |context: &Context<'_>| Ok(trim(context, at_start, at_end));
        connection.create_scalar_function(name, 2, flags, trimmed)?;
    }
    connection.create_scalar_function("instr", 2, flags, |context: &Context<'_>| Ok(instr(context)))?;
    let replaced = move |context: &Context<'_>| replace(context, max_bytes);
    connection.create_scalar_function("replace", 3, flags, replaced)
}

/// Removes characters of a set from the ends of a text.
fn trim(context: &Context<'_>, at_start: bool, at_end: bool) -> Value {
    let (Some(whole), Some(set)) = (text(context.get_raw(0)), text(context.get_raw(1))) else {
        return Value::Null;
    };
    let many: HashSet<char> = if set.len() > FEW_BYTES { set.chars().collect() } else { HashSet::new() };
    let is_in_set = |c: char| if many.is_empty() { set.contains(c) } else { many.contains(&c) };
    let mut left = &*whole;
    if at_start {
        left = left.trim_start_matches(is_in_set);
    }
    if at_end {
        left = left.trim_end_matches(is_in_set);
    }
    Value::Text(left.to_owned())
}

/// Returns the place of a part, counted from one in characters, of two blobs in bytes; 0 without one.
fn instr(context: &Context<'_>) -> Value {
    let place = |found: Option<usize>| {
        let place = found.map_or(0, |before| before + 1);
        Value::Integer(i64::try_from(place).unwrap_or(i64::MAX))
    };
    let (whole, part) = (context.get_raw(0), context.get_raw(1));
    if let (ValueRef::Blob(whole), ValueRef::Blob(part)) = (whole, part) {
        return place(memmem::find(whole, part));
    }
    let (Some(whole), Some(part)) = (text(whole), text(part)) else { return Value::Null };
    let found = memmem::find(whole.as_bytes(), part.as_bytes());
    place(found.map(|at| whole.get(..at).unwrap_or_default().chars().count()))
}

/// Replaces all places of a part.
fn replace(context: &Context<'_>, max_bytes: usize) -> Result<Value> {
    let (whole, part) = (text(context.get_raw(0)), text(context.get_raw(1)));
    let (Some(whole), Some(part)) = (whole, part) else { return Ok(Value::Null) };
    if part.is_empty() {
        return Ok(Value::Text(whole.into_owned()));
    }
    let Some(other) = text(context.get_raw(2)) else { return Ok(Value::Null) };
    let places = memmem::find_iter(whole.as_bytes(), part.as_bytes()).count();
    let kept = whole.len().saturating_sub(places * part.len());
    if places.saturating_mul(other.len()).saturating_add(kept) > max_bytes {
        let reason = "string or blob too big".to_owned();
        return Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_TOOBIG), Some(reason)));
    }
    Ok(Value::Text(whole.replace(&*part, &other)))
}

/// Returns a value as SQLite makes a text of it; `None` for NULL.
fn text(value: ValueRef<'_>) -> Option<Cow<'_, str>> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string().into()),
        ValueRef::Real(number) => Some(real(number).into()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes)),
    }
}

/// Writes a number with a point, and with an exponent where it has more than 17 places. It has the fewest
/// digits that read back as the number; SQLite writes a 17th digit to some.
fn real(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let with_point = |digits: &str| {
        if digits.contains('.') { digits.to_owned() } else { format!("{digits}.0") }
    };
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..=16).contains(&exponent) {
        return with_point(&number.to_string());
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", with_point(digits), exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the value of an expression, as SQLite writes its literal.
    fn value(connection: &Connection, expression: &str) -> String {
        connection.query_row(&format!("SELECT quote({expression})"), (), |row| row.get(0)).unwrap()
    }

    #[test]
    fn results_are_those_of_sqlite() {
        let (own, sqlite) = (Connection::open_in_memory().unwrap(), Connection::open_in_memory().unwrap());
        register(&own, 1 << 20).unwrap();
        let values = [
            "NULL",
            "''",
            "'a'",
            "'aba'",
            "'b'",
            "'äöä'",
            "'ö'",
            "' x '",
            "x'6162'",
            "x'62'",
            "12",
            "1",
            "-7",
            "1.5",
            "-0.25",
            "3.0",
            "1e20",
            "1.25e-7",
            "123456789.125",
            "0.1",
            "'abcdefghijklmnopqrstuvwxyzä'",
        ];
        for one in values {
            for other in values {
                for call in [
                    format!("trim({one}, {other})"),
                    format!("ltrim({one}, {other})"),
                    format!("rtrim({one}, {other})"),
                    format!("instr({one}, {other})"),
                    format!("'' || replace({one}, {other}, 'ß')"),
                    format!("'' || replace({other}, 'a', {one})"),
                ] {
                    assert_eq!(value(&own, &call), value(&sqlite, &call), "{call}");
                }
            }
        }
        assert_eq!(value(&own, "trim('  a ')"), "'a'", "one argument stays SQLite's");
    }

    #[test]
    fn a_text_that_would_be_too_long_is_not_made() {
        let own = Connection::open_in_memory().unwrap();
        register(&own, 1_000).unwrap();
        assert_eq!(value(&own, "length(replace(printf('%.500c', 'a'), 'a', 'bb'))"), "1000");
        let longer = "SELECT replace(printf('%.501c', 'a'), 'a', 'bb')";
        let error = own.query_row(longer, (), |row| row.get::<_, String>(0)).unwrap_err();
        assert!(error.to_string().contains("string or blob too big"), "{error}");
    }
}
