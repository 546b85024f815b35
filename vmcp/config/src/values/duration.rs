//! Durations as Kubernetes and Go write them: `30s`, `1m30s`, `500ms`; a bare number is seconds.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::problems::Report;
use crate::values::decimal;

/// Longest duration that any setting takes, 24 h.
pub(crate) const MAX_DURATION: Duration = Duration::from_hours(24);

/// Regular expression of a duration's text, as the schema has it.
pub const PATTERN: &str = r"^([0-9]+(\.[0-9]+)?(ms|us|µs|ns|h|m|s)?)+$";
/// Key of the schema for the range of a duration or decimal in words, `1ms to 24h`: JSON Schema has no range
/// for text.
pub const RANGE: &str = "x-range";

/// Duration as written in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawDuration(#[serde(deserialize_with = "decimal::text")] String);

impl From<&str> for RawDuration {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl JsonSchema for RawDuration {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "number"],
            "pattern": PATTERN,
            "minimum": 0,
        })
    }
}

impl RawDuration {
    /// Returns the duration. Reports a problem for another text (the least duration stands in) or a duration
    /// outside of `range`.
    pub(crate) fn validate(
        &self,
        path: &str,
        range: &RangeInclusive<Duration>,
        report: &mut Report,
    ) -> Duration {
        let shown = report.shown(path, &self.0);
        let Some(duration) = parse(&self.0) else {
            report.problem(
                path,
                format!("{shown} is not a duration"),
                "write a number with a unit, such as `500ms`, `30s` or `1m30s`",
            );
            return *range.start();
        };
        if !range.contains(&duration) {
            let (least, most) = (format(*range.start()), format(*range.end()));
            report.problem(
                path,
                format!("{shown} is not between {least} and {most}"),
                "choose a duration within these bounds",
            );
        }
        duration
    }
}

/// Parses a duration: `1m30s` is 90 seconds, a bare number is seconds. `None` if the text is not a duration
/// or overflows.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use vmcp_config::parse_duration;
///
/// assert_eq!(parse_duration("1m30s"), Some(Duration::from_secs(90)));
/// assert_eq!(parse_duration("0.25"), Some(Duration::from_millis(250)));
/// assert_eq!(parse_duration("1 minute"), None);
/// ```
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at_checked(unit_at)?;
        let unit_end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, next) = tail.split_at_checked(unit_end)?;
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = next;
    }
    (!text.is_empty()).then_some(total)
}

/// Formats a range for the schema's [`RANGE`]: `1ms to 24h`.
pub(crate) fn words(range: &RangeInclusive<Duration>) -> String {
    format!("{} to {}", format(*range.start()), format(*range.end()))
}

/// Formats a duration as the shortest text that [`parse`] reads back, down to milliseconds: `1m30s`, `500ms`,
/// `0s`.
pub fn format(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s"), (millis.into(), "ms")];
    let parts: Vec<_> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect();
    if parts.is_empty() { "0s".to_owned() } else { parts.concat() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_kubernetes_and_go_write() {
        for (text, millis) in [
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("500ms", 500),
            ("1.5s", 1500),
            ("30", 30_000),
            ("0.25", 250),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "30x", "-1s", "1 s", "NaN", "inf", "1e400s", "1s2"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_formatted_is_read_back(millis in 0_u64..1 << 40) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&format(duration)), Some(duration));
        }

        #[test]
        fn arbitrary_text_never_panics(text in ".*") {
            let _ = parse(&text);
        }
    }
}
