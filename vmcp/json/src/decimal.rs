//! [`Decimal`]: the digits of a number, without an allocation.

/// Most digits of a number.
const MAX_DIGITS: usize = 20;

/// The decimal digits of a number. `to_string` allocates, and goes through the machinery of `fmt`.
///
/// ```
/// use vmcp_json::decimal::Decimal;
///
/// assert_eq!(Decimal::new(1024).as_str(), "1024");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Decimal {
    /// The digits, at the end.
    digits: [u8; MAX_DIGITS],
    begin: usize,
}

impl Decimal {
    /// Writes the digits of a number.
    #[must_use]
    pub fn new(number: u64) -> Self {
        let (mut digits, mut begin, mut left) = ([b'0'; MAX_DIGITS], MAX_DIGITS, number);
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
            begin -= 1;
            if left == 0 {
                break;
            }
        }
        Self { digits, begin }
    }

    /// Returns the digits as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.digits.get(self.begin..).unwrap_or_default()
    }

    /// Returns the digits as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Digits are ASCII.
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_of_the_library() {
        let powers = (0..20).map(|power| 10_u64.pow(power));
        for number in powers.flat_map(|power| [power - 1, power, power + 1]).chain([u64::MAX, 255, 1024]) {
            assert_eq!(Decimal::new(number).as_str(), number.to_string());
        }
    }
}
