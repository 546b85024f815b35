//! Numbers of axes: nice steps, and short texts with k, M, B and T.

/// Values of an axis and how they are written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ticks {
    /// The values, rising in equal steps.
    pub(super) values: Vec<f64>,
    /// Their texts.
    pub(super) labels: Vec<String>,
}

impl Ticks {
    /// Returns about `wanted` ticks at multiples of 1, 2 or 5 times a power of ten, which enclose the range.
    pub(super) fn enclosing(least: f64, most: f64, wanted: usize) -> Ticks {
        let (least, most) = widened(least, most);
        let step = nice_step((most - least) / wanted.max(2) as f64);
        // A place that is a multiple but for the last bits counts as the multiple.
        let first = (least / step + 1e-9).floor();
        let end = (most / step - 1e-9).ceil();
        let count = (end - first).clamp(1.0, 50.0) as usize;
        let values: Vec<f64> = (0..=count).map(|place| (first + place as f64) * step).collect();
        let largest = values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        let labels = values.iter().map(|value| text(*value, largest, step)).collect();
        Ticks { values, labels }
    }

    /// Returns the least and the largest value.
    pub(super) fn range(&self) -> (f64, f64) {
        let first = self.values.first().copied().unwrap_or(0.0);
        (first, self.values.last().copied().unwrap_or(first + 1.0))
    }
}

/// Returns a range with a length that its numbers can express.
fn widened(least: f64, most: f64) -> (f64, f64) {
    let size = least.abs().max(most.abs());
    if size == 0.0 {
        return (0.0, 1.0);
    }
    // Closer ticks would have equal texts.
    if most - least > size * 1e-9 { (least, most) } else { (least - size * 0.1, most + size * 0.1) }
}

/// Returns the smallest step of 1, 2, 5 or 10 times a power of ten that is not below `rough`.
pub(super) fn nice_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= rough * 0.999).unwrap_or(10.0);
    digit * power
}

/// Units of large numbers.
const UNITS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")];

/// Returns the text of a tick, for an axis up to `largest` in steps of `step`.
fn text(value: f64, largest: f64, step: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e15).contains(&largest) {
        return scientific(value, step);
    }
    let (divisor, unit) = UNITS.into_iter().find(|(unit, _)| largest >= unit.max(1e4)).unwrap_or((1.0, ""));
    let decimals = (-(step / divisor).log10().floor()).clamp(0.0, 9.0) as usize;
    minus(&format!("{:.decimals$}{unit}", value / divisor))
}

fn scientific(value: f64, step: f64) -> String {
    let decimals = (value.abs().log10().floor() - step.log10().floor()).clamp(0.0, 9.0) as usize;
    minus(&format!("{value:.decimals$e}"))
}

/// Returns a value alone in four significant digits: `1.25M`, `0.0312`, `17`.
pub(super) fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let size = value.abs();
    if !(1e-4..1e15).contains(&size) {
        return minus(&trimmed(&format!("{value:.3e}")));
    }
    let (divisor, unit) = UNITS.into_iter().find(|(unit, _)| size >= unit.max(1e4)).unwrap_or((1.0, ""));
    let scaled = value / divisor;
    let decimals = (3.0 - scaled.abs().log10().floor()).clamp(0.0, 7.0) as usize;
    minus(&format!("{}{unit}", trimmed(&format!("{scaled:.decimals$}"))))
}

/// Returns a value with all its digits, for categories: two numbers never share a text.
pub(super) fn exact(value: f64) -> String {
    let is_plain = value == 0.0 || (1e-4..1e15).contains(&value.abs());
    minus(&if is_plain { (value + 0.0).to_string() } else { format!("{value:e}") })
}

/// Removes zeros at the end of a fraction.
fn trimmed(text: &str) -> String {
    let (digits, exponent) = text.split_at(text.find('e').unwrap_or(text.len()));
    if !digits.contains('.') {
        return text.to_owned();
    }
    format!("{}{exponent}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// Returns the number with minus signs in place of hyphens.
fn minus(text: &str) -> String {
    text.replace('-', "\u{2212}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_enclose_the_range() {
        for (least, most, expected) in [
            (0.0, 10.0, "0 2 4 6 8 10"),
            (0.0, 0.0, "0 0.2 0.4 0.6 0.8 1.0"),
            (-3.0, 7.0, "−4 −2 0 2 4 6 8"),
            (0.0, 45_000.0, "0 10k 20k 30k 40k 50k"),
            (0.0, 3_200_000.0, "0 1M 2M 3M 4M"),
            (0.0, 9000.0, "0 2k 4k 6k 8k 10k"),
            (0.0, 5000.0, "0 1000 2000 3000 4000 5000"),
            (0.0, 0.37, "0 0.1 0.2 0.3 0.4"),
            (0.0, 3e-7, "0 1e−7 2e−7 3e−7"),
        ] {
            let ticks = Ticks::enclosing(least, most, 5);
            let (first, last) = ticks.range();
            assert!(first <= least && last >= most, "{ticks:?}");
            assert_eq!(ticks.labels.join(" "), expected);
        }
    }

    #[test]
    fn extreme_ranges_keep_a_bounded_number_of_ticks() {
        for (least, most) in [(-1e100, 1e100), (1e15, 1e15 + 1.0), (1e-100, 2e-100), (7.0, 7.0)] {
            let ticks = Ticks::enclosing(least, most, 5);
            assert!((2..=51).contains(&ticks.values.len()), "{ticks:?}");
            assert!(ticks.values.iter().all(|value| value.is_finite()), "{ticks:?}");
        }
    }

    #[test]
    fn values_have_four_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (1_250_000.0, "1.25M"),
            (0.031_23, "0.03123"),
            (17.0, "17"),
            (-9999.0, "−9999"),
            (12_345.0, "12.35k"),
            (1e18, "1e18"),
        ] {
            assert_eq!(short(value), expected);
        }
    }

    #[test]
    fn categories_keep_all_digits() {
        for (value, expected) in [(2026.0, "2026"), (12_345.0, "12345"), (-0.5, "−0.5"), (1e20, "1e20")] {
            assert_eq!(exact(value), expected);
        }
    }
}
