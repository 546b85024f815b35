//! Secret strings, masked wherever they are formatted or serialized.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

/// Text printed in place of a secret.
pub const MASK: &str = "***";

/// A value that `Debug`, `Display` and serialization mask; only [`Secret::expose`] returns it.
///
/// # Examples
///
/// ```
/// use vmcp_config::Secret;
///
/// let token = Secret::from("t0ken");
/// assert_eq!(format!("{token} {token:?}"), "*** ***");
/// assert_eq!(token.expose(), "t0ken");
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Returns the value itself, which must never be logged.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value)
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self(value.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

impl JsonSchema for Secret {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// Fewest different characters of a secret.
const MIN_DISTINCT_CHARS: usize = 8;
/// Shortest text that may be repeated to make a secret, in characters.
const MIN_UNIT_CHARS: usize = 16;

/// Returns why a secret can be guessed, whatever its length: it has few different characters, or repeats a
/// short text. `None` for others, which may still be words that people know.
pub(crate) fn weakness(secret: &Secret) -> Option<&'static str> {
    let chars: Vec<char> = secret.expose().chars().collect();
    let distinct: BTreeSet<&char> = chars.iter().collect();
    if distinct.len() < MIN_DISTINCT_CHARS {
        return Some("it has fewer than 8 different characters");
    }
    let repeats = |unit: usize| chars.iter().zip(chars.iter().skip(unit)).all(|(one, other)| one == other);
    let is_repeated = (1..MIN_UNIT_CHARS.min(chars.len())).any(repeats);
    is_repeated.then_some("it repeats a text of fewer than 16 characters")
}

#[cfg(test)]
mod strength_tests {
    use super::*;

    #[test]
    fn a_long_secret_that_can_be_guessed_is_weak() {
        for weak in [
            "a".repeat(64),
            "password".repeat(4),
            "12345678901234567890123456789012".to_owned(),
            "abcdefghij abcdefghij abcdefghij".to_owned(),
            "00000000000000000000000000000001".to_owned(),
        ] {
            assert!(weakness(&Secret::from(weak.as_str())).is_some(), "{weak}");
        }
        for strong in
            ["9f86d081884c7d659a2feaa0c55ad015", "q1xM8Zr0hYw2n5Jt", "a secret of enough characters"]
        {
            assert_eq!(weakness(&Secret::from(strong)), None, "{strong}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_shown_nowhere_but_by_expose() {
        let secret = Secret::from("sk-123");
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
        assert_eq!(serde_json::to_string(&secret).unwrap(), r#""***""#);
        assert_eq!(secret.expose(), "sk-123");
    }
}
