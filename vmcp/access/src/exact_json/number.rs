//! [`Number`]: a JSON number by its digits, and the Cedar values that hold it exactly.

/// Longest number that is written out in digits; a longer one keeps its exponent.
const MAX_PLAIN_DIGITS: i64 = 64;
/// Digits behind the point of Cedar's `decimal`.
const DECIMAL_SCALE: i64 = 4;

/// A number without rounding. Equal numbers are equal, however they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Number {
    negative: bool,
    /// Digits without zeros at either end; empty for zero.
    digits: String,
    /// The number is `digits` divided by ten to this power.
    scale: i64,
}

impl Number {
    /// Reads a number of JSON's grammar.
    pub(crate) fn new(text: &str) -> Number {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        // An exponent beyond 64 bits has the effect of the largest one: no Cedar value holds the number.
        let saturated = if exponent.starts_with('-') { i64::MIN / 4 } else { i64::MAX / 4 };
        let exponent = exponent.parse::<i64>().unwrap_or(saturated).clamp(i64::MIN / 4, i64::MAX / 4);
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0').trim_end_matches('0');
        let dropped = all.len() - all.trim_end_matches('0').len();
        if digits.is_empty() {
            return Number { negative: false, digits: String::new(), scale: 0 };
        }
        let count = |length: usize| i64::try_from(length).unwrap_or(i64::MAX / 4);
        let scale = count(fraction.len()) - count(dropped) - exponent;
        Number { negative, digits: digits.to_owned(), scale }
    }

    /// Returns the number as Cedar's `decimal` is written; `None` if it has more than four digits behind the
    /// point, or is out of range.
    pub(crate) fn decimal(&self) -> Option<String> {
        let units = self.units_of(DECIMAL_SCALE)?;
        let (whole, fraction) = (units.unsigned_abs() / 10_000, units.unsigned_abs() % 10_000);
        Some(format!("{}{whole}.{fraction:04}", self.sign()))
    }

    /// Returns a whole number of 64 bits.
    pub(crate) fn long(&self) -> Option<i64> {
        self.units_of(0)
    }

    /// Returns the number in one spelling: digits without exponent, up to 64 of them; `1000` for `1e3`.
    pub(crate) fn canonical(&self) -> String {
        let (sign, digits) = (self.sign(), &self.digits);
        let length = i64::try_from(digits.len()).unwrap_or(i64::MAX / 4);
        if digits.is_empty() {
            return "0".to_owned();
        }
        let written = length.max(self.scale).saturating_add((-self.scale).max(0));
        if written > MAX_PLAIN_DIGITS {
            return format!("{sign}{digits}e{}", -self.scale);
        }
        let (scale, zeros) =
            (usize::try_from(self.scale).unwrap_or(0), usize::try_from(-self.scale).unwrap_or(0));
        if scale == 0 {
            return format!("{sign}{digits}{}", "0".repeat(zeros));
        }
        let padded = format!("{}{digits}", "0".repeat((scale + 1).saturating_sub(digits.len())));
        let (whole, fraction) = padded.split_at(padded.len() - scale);
        format!("{sign}{whole}.{fraction}")
    }

    /// Converts to a number of the JSON library; null if it would be rounded.
    pub(crate) fn into_value(self) -> serde_json::Value {
        let parsed: Option<serde_json::Number> = serde_json::from_str(&self.canonical()).ok();
        let exact = parsed.filter(|parsed| Number::new(&parsed.to_string()) == self);
        exact.map_or(serde_json::Value::Null, serde_json::Value::Number)
    }

    /// Returns the number in units of ten to the power of `-scale`; `None` if that is not whole, or too
    /// large.
    fn units_of(&self, scale: i64) -> Option<i64> {
        let power = u32::try_from(scale.checked_sub(self.scale)?).ok()?;
        if self.digits.is_empty() {
            return Some(0);
        }
        let units = self.digits.parse::<i128>().ok()?.checked_mul(10_i128.checked_pow(power)?)?;
        i64::try_from(if self.negative { -units } else { units }).ok()
    }

    fn sign(&self) -> &'static str {
        if self.negative { "-" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_held_exactly_or_not_at_all() {
        for (text, decimal, long, canonical) in [
            ("5000", Some("5000.0000"), Some(5000), "5000"),
            ("5e3", Some("5000.0000"), Some(5000), "5000"),
            ("-0.0", Some("0.0000"), Some(0), "0"),
            ("0.1", Some("0.1000"), None, "0.1"),
            ("-12.50", Some("-12.5000"), None, "-12.5"),
            ("1000.00001", None, None, "1000.00001"),
            ("1000.000000000000000000000001", None, None, "1000.000000000000000000000001"),
            ("922337203685477.5807", Some("922337203685477.5807"), None, "922337203685477.5807"),
            ("922337203685477.5808", None, None, "922337203685477.5808"),
            ("922337203685478", None, Some(922_337_203_685_478), "922337203685478"),
            ("4111111111111111", None, Some(4_111_111_111_111_111), "4111111111111111"),
            ("9223372036854775807", None, Some(i64::MAX), "9223372036854775807"),
            ("-9223372036854775808", None, Some(i64::MIN), "-9223372036854775808"),
            ("18446744073709551616", None, None, "18446744073709551616"),
            ("1E+300", None, None, "1e300"),
            ("1e-300", None, None, "1e-300"),
            ("120e-1", Some("12.0000"), Some(12), "12"),
            ("0.0001e4", Some("1.0000"), Some(1), "1"),
            ("1e999999999999999999999", None, None, "1e2305843009213693951"),
        ] {
            let number = Number::new(text);
            assert_eq!(number.decimal().as_deref(), decimal, "{text}");
            assert_eq!(number.long(), long, "{text}");
            assert_eq!(number.canonical(), canonical, "{text}");
        }
        assert_eq!(Number::new("1.50").into_value(), serde_json::json!(1.5));
        assert_eq!(Number::new("18446744073709551615").into_value(), serde_json::json!(u64::MAX));
        assert_eq!(Number::new("1000.00000000000000001").into_value(), serde_json::Value::Null);
        assert_eq!(Number::new("1.50e1"), Number::new("15"));
    }
}
