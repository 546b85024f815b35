//! Reads arguments that a model wrote. Every error names the field, and the limit where there is one, so that
//! the model can mend its call.

use std::fmt::Display;

use serde_json::value::RawValue;

/// Errors in arguments. The text is for the model that wrote them.
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
        /// The accepted values.
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
        /// Unit of `actual` and `limit`.
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
    /// Returns the error of a field that must be `expected`.
    pub fn invalid(field: &'static str, expected: impl Display) -> InputError {
        InputError::Invalid { field, expected: expected.to_string() }
    }
}

/// Returns the field as a string; the caller has dropped `null`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_not_bytes() {
        assert_eq!(at_most_chars("f", "äöü", 3), Ok(()));
        assert_eq!(
            at_most_chars("f", "äöüß", 3).unwrap_err().to_string(),
            "f is too long: 4 characters, the limit is 3"
        );
    }
}
