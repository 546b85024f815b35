//! Durations as Go writes them: `1h30m`, `1.5s`, `300ms`.

use std::time::Duration;

/// Units and their nanoseconds; longer names first, so that `ms` is not read as `m`.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    // The micro sign, and the Greek letter.
    ("\u{b5}s", 1e3),
    ("\u{3bc}s", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// Reads a duration as Go's `time.ParseDuration` does, without a sign; `None` for another text.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(digits)?;
        let number: f64 = number.parse().ok()?;
        let (after, unit) =
            UNITS.iter().find_map(|(name, size)| after.strip_prefix(name).map(|after| (after, size)))?;
        nanos += number * unit;
        rest = after;
    }
    // Two centuries: far beyond every limit, and within u64.
    (!text.is_empty() && nanos < 6.3e18).then(|| Duration::from_nanos(nanos as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go_are_read() {
        for (text, millis) in
            [("30s", 30_000), ("1h30m", 5_400_000), ("1.5s", 1500), ("300ms", 300), ("2m3s4ms", 123_004)]
        {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["5us", "5\u{b5}s", "5\u{3bc}s"] {
            assert_eq!(parse(text), Some(Duration::from_micros(5)), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1 s", "1x", "1.2.3s", "9999999999999h"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
