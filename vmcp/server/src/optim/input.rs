//! Reading arguments that a model wrote: every mistake names the field and the limit (R022-37).

use std::fmt::Display;

use serde_json::value::RawValue;

/// Why arguments were refused. The text is for the model that wrote them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// A required field is absent or blank.
    #[error("{0} is required")]
    Missing(&'static str),
    /// A field has another type or is out of its range.
    #[error("{field} must be {expected}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What it must be.
        expected: String,
    },
    /// A field is too large.
    #[error("{field} is too long: {actual} {unit}, the limit is {limit}")]
    TooLong {
        /// The field.
        field: &'static str,
        /// Its size.
        actual: usize,
        /// The largest size.
        limit: usize,
        /// What is counted.
        unit: &'static str,
    },
    /// Two names of one field were given with different values.
    #[error(
        "{first} and {second} are two names of one field and were given different values; give one of them"
    )]
    Contradiction {
        /// One name.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// The arguments as a whole cannot be read.
    #[error("arguments must be a JSON object without repeated keys: {0}")]
    Unreadable(String),
}

impl InputError {
    /// A field that must be `expected`.
    pub fn invalid(field: &'static str, expected: impl Display) -> InputError {
        InputError::Invalid { field, expected: expected.to_string() }
    }
}

/// The field as a string; `null` was dropped by the caller.
pub fn string(field: &'static str, value: &RawValue) -> Result<String, InputError> {
    serde_json::from_str(value.get()).map_err(|_| InputError::invalid(field, "a string"))
}

/// Refuses a text of more than `limit` characters.
pub fn at_most_chars(field: &'static str, text: &str, limit: usize) -> Result<(), InputError> {
    // Bytes bound characters from above, so the usual text is never counted.
    if text.len() <= limit {
        return Ok(());
    }
    match text.chars().count() {
        actual if actual > limit => Err(InputError::TooLong { field, actual, limit, unit: "characters" }),
        _ => Ok(()),
    }
}

/// How deeply a JSON text nests: 0 for a scalar, 1 for `{}` and `[]`. Linear, without recursion.
pub fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json.bytes() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_ignores_brackets_in_strings() {
        for (json, expected) in
            [("1", 0), ("{}", 1), (r#"{"a":[1,{"b":2}]}"#, 3), (r#"{"a":"[[[\"{{"}"#, 1), ("[[],[[]]]", 3)]
        {
            assert_eq!(depth(json), expected, "{json}");
        }
        assert_eq!(depth(&"[".repeat(1_000_000)), 1_000_000);
    }

    #[test]
    fn characters_are_counted_not_bytes() {
        assert_eq!(at_most_chars("f", "äöü", 3), Ok(()));
        assert_eq!(
            at_most_chars("f", "äöüß", 3).unwrap_err().to_string(),
            "f is too long: 4 characters, the limit is 3"
        );
    }
}
