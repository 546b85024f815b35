//! Decimals, written as a number or as a string (Kubernetes has no decimals) and kept as text until
//! validated.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::problems::Report;

/// Regular expression of a decimal's text, as the schema has it.
pub(crate) const PATTERN: &str = r"^([0-9]*\.)?[0-9]+$";

/// Reads a string or a number as text.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    struct Text;

    impl de::Visitor<'_> for Text {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string or a number")
        }
        fn visit_str<E>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }
        fn visit_u64<E>(self, number: u64) -> Result<String, E> {
            Ok(number.to_string())
        }
        fn visit_i64<E>(self, number: i64) -> Result<String, E> {
            Ok(number.to_string())
        }
        fn visit_f64<E>(self, number: f64) -> Result<String, E> {
            Ok(number.to_string())
        }
    }

    deserializer.deserialize_any(Text)
}

/// Decimal as written in the file: `"0.6"` or `0.6`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawDecimal(#[serde(deserialize_with = "text")] String);

impl From<&str> for RawDecimal {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl JsonSchema for RawDecimal {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Decimal".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number"], "pattern": PATTERN })
    }
}

impl RawDecimal {
    /// Returns the number. Reports a problem for another text or a number outside of `range`; the least one
    /// stands in.
    pub(crate) fn validate(&self, path: &str, range: &RangeInclusive<f32>, report: &mut Report) -> f32 {
        let (least, most) = (range.start(), range.end());
        match self.0.trim().parse::<f32>() {
            Ok(number) if range.contains(&number) => number,
            _ => {
                let shown = report.shown(path, &self.0);
                report.problem(
                    path,
                    format!("{shown} is not a number between {least} and {most}"),
                    format!("write a decimal, such as \"{most:.1}\""),
                );
                *least
            }
        }
    }
}
