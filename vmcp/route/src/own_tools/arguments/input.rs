//! Reads arguments that a model wrote. Every error names the field, and the limit where there is one, so that
//! the model can mend its call.

use std::fmt::Display;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use vmcp_json::text;

/// Errors in arguments. The text is for the model that wrote them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InputError {
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
    pub(crate) fn invalid(field: &'static str, expected: impl Display) -> InputError {
        InputError::Invalid { field, expected: expected.to_string() }
    }
}

/// Returns the field as a string; the caller has dropped `null`.
pub(crate) fn string(field: &'static str, value: &RawValue) -> Result<String, InputError> {
    serde_json::from_str(value.get()).map_err(|_| InputError::invalid(field, "a string"))
}

/// Drops a value that says nothing: `null` or a blank text, which models send for "no value".
pub(crate) fn given(value: Option<&RawValue>) -> Option<&RawValue> {
    let says_something =
        |json: &str| json != "null" && text::unquoted(json).is_none_or(|text| !text.trim().is_empty());
    value.filter(|value| says_something(value.get()))
}

/// Reads a value as models write it: `"3"`, `3.0` and `"True"` too, and names in any letter case.
pub(crate) fn lenient<T: DeserializeOwned>(
    field: &'static str,
    value: &RawValue,
    expected: impl Display,
) -> Result<T, InputError> {
    let json = value.get();
    let plain = text::unquoted(json).map(|text| text.trim().to_lowercase());
    let number = plain.as_deref().unwrap_or(json).parse::<f64>().ok().filter(|number| number.is_finite());
    let readings = [
        Some(json.to_owned()),
        plain.as_deref().map(text::quoted),
        plain.clone(),
        // A whole number without a fraction; a negative one counts as 0 where the type is unsigned.
        number.map(|number| format!("{:.0}", number.trunc())),
        number.map(|_| "0".to_owned()),
        number.map(|number| (number != 0.0).to_string()),
    ];
    let read = readings.into_iter().flatten().find_map(|reading| serde_json::from_str(&reading).ok());
    read.ok_or_else(|| InputError::invalid(field, expected))
}

/// Reads a number of results: `None` for 0, which models send for "no value"; a larger one than `most`
/// counts as `most`.
pub(crate) fn count(
    field: &'static str,
    value: Option<&RawValue>,
    most: usize,
) -> Result<Option<usize>, InputError> {
    let Some(value) = given(value) else { return Ok(None) };
    let expected = format_args!("a whole number from 1 to {most}");
    let plain = text::unquoted(value.get());
    let number: f64 = plain
        .as_deref()
        .unwrap_or(value.get())
        .trim()
        .parse()
        .map_err(|_| InputError::invalid(field, expected))?;
    // A float becomes the nearest number that the type has: a negative one 0, a huge one the largest.
    let count = number as usize;
    Ok(Some(count.min(most)).filter(|count| *count > 0))
}

/// Refuses a text of more than `limit` characters.
pub(crate) fn at_most_chars(field: &'static str, text: &str, limit: usize) -> Result<(), InputError> {
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

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn values_are_read_as_models_write_them() {
        let flag = |json: &str| lenient::<bool>("f", &raw(json), "true or false").ok();
        for (json, read) in [
            ("true", true),
            ("\"True\"", true),
            ("\"false\"", false),
            ("1", true),
            ("0", false),
            ("\"1\"", true),
        ] {
            assert_eq!(flag(json), Some(read), "{json}");
        }
        assert_eq!((flag("\"yes\""), flag("[]"), flag("{}")), (None, None, None));
        let number = |json: &str| lenient::<usize>("f", &raw(json), "a whole number").ok();
        for (json, read) in [("3", 3), ("\"3\"", 3), ("3.0", 3), ("\" 3.0 \"", 3), ("2.7", 2), ("-1", 0)] {
            assert_eq!(number(json), Some(read), "{json}");
        }
        assert_eq!((number("\"many\""), number("[3]"), number("1e300")), (None, None, Some(0)));
        assert_eq!(lenient::<f64>("f", &raw("\"0.5\""), "a number"), Ok(0.5));
        assert_eq!(lenient::<String>("f", &raw("\"Top\""), "a text"), Ok("Top".to_owned()));
    }

    #[test]
    fn null_and_blank_text_say_nothing() {
        for json in ["null", "\"\"", "\" \\n\""] {
            assert!(given(Some(&raw(json))).is_none(), "{json}");
        }
        for json in ["0", "false", "[]", "\"x\""] {
            assert!(given(Some(&raw(json))).is_some(), "{json}");
        }
    }

    #[test]
    fn a_number_of_results_is_clamped() {
        let read = |json: &str| count("limit", Some(&raw(json)), 50).map_err(|error| error.to_string());
        for (json, limit) in [
            ("0", None),
            ("null", None),
            ("\"\"", None),
            ("-3", None),
            ("3.0", Some(3)),
            ("\"30\"", Some(30)),
            ("100", Some(50)),
            ("1e300", Some(50)),
        ] {
            assert_eq!(read(json), Ok(limit), "{json}");
        }
        assert_eq!(read("\"all\""), Err("limit must be a whole number from 1 to 50".to_owned()));
        assert!(read("[3]").is_err());
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
