//! [`Ratio`]: exact numbers, rounded to the nearest float at the end.

use num_bigint::{BigInt, BigUint, Sign};
use num_integer::Integer as _;

/// A fraction; its denominator is above zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ratio {
    numerator: BigInt,
    denominator: BigUint,
}

/// Bits of a quotient before it is rounded: more than the 53 of a float, so that the rest decides ties only.
const QUOTIENT_BITS: i64 = 66;
/// Bits of a root before it is rounded.
const ROOT_BITS: i64 = 64;

impl From<BigInt> for Ratio {
    fn from(numerator: BigInt) -> Ratio {
        Ratio { numerator, denominator: BigUint::from(1_u8) }
    }
}

impl Ratio {
    /// Returns the exact value of a finite float.
    pub(super) fn of_f64(value: f64) -> Option<Ratio> {
        if !value.is_finite() {
            return None;
        }
        let bits = value.to_bits();
        let (exponent, fraction) = (((bits >> 52) & 0x7ff).cast_signed(), bits & ((1 << 52) - 1));
        // Subnormal numbers lack the leading bit.
        let (mantissa, exponent) =
            if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
        let sign = if value.is_sign_negative() { Sign::Minus } else { Sign::Plus };
        let mantissa = BigUint::from(mantissa);
        let shift = exponent.unsigned_abs();
        let (numerator, denominator) = if exponent >= 0 {
            (mantissa << shift, BigUint::from(1_u8))
        } else {
            (mantissa, BigUint::from(1_u8) << shift)
        };
        Some(Ratio { numerator: BigInt::from_biguint(sign, numerator), denominator }.reduced())
    }

    fn reduced(self) -> Ratio {
        let common = self.numerator.magnitude().gcd(&self.denominator);
        if common <= BigUint::from(1_u8) {
            return self;
        }
        let denominator = &self.denominator / &common;
        Ratio { numerator: self.numerator / BigInt::from(common), denominator }
    }

    fn plus(&self, other: &Ratio) -> Ratio {
        if self.denominator == other.denominator {
            let numerator = &self.numerator + &other.numerator;
            return Ratio { numerator, denominator: self.denominator.clone() };
        }
        let common = self.denominator.lcm(&other.denominator);
        let scaled = |ratio: &Ratio| &ratio.numerator * BigInt::from(&common / &ratio.denominator);
        Ratio { numerator: scaled(self) + scaled(other), denominator: common }
    }

    fn squared_distance(&self, center: &Ratio) -> Ratio {
        let opposite = Ratio { numerator: -&center.numerator, denominator: center.denominator.clone() };
        let distance = self.plus(&opposite);
        Ratio {
            numerator: &distance.numerator * &distance.numerator,
            denominator: &distance.denominator * &distance.denominator,
        }
    }

    /// Divides by a count above zero.
    pub(super) fn divided(self, count: usize) -> Ratio {
        Ratio { numerator: self.numerator, denominator: self.denominator * BigUint::from(count) }.reduced()
    }

    /// Returns the number if it is whole.
    pub(super) fn whole(&self) -> Option<BigInt> {
        let (whole, rest) = self.numerator.div_rem(&BigInt::from(self.denominator.clone()));
        (rest.sign() == Sign::NoSign).then_some(whole)
    }

    /// Returns the nearest float; ties go to the even one.
    pub(super) fn to_f64(&self) -> f64 {
        let magnitude = self.numerator.magnitude();
        let shift = QUOTIENT_BITS + bits(&self.denominator) - bits(magnitude);
        let (scaled, by) = scaled(magnitude, &self.denominator, shift);
        let (quotient, rest) = scaled.div_rem(&by);
        let is_negative = self.numerator.sign() == Sign::Minus;
        let value = rounded(&quotient, rest.bits() > 0, -shift);
        if is_negative { -value } else { value }
    }

    /// Returns the float nearest to the square root of a number that is not negative.
    pub(super) fn root(&self) -> f64 {
        let magnitude = self.numerator.magnitude();
        // Twice the bits of the root, and an even shift, which the root halves.
        let shift = 2 * ROOT_BITS + bits(&self.denominator) - bits(magnitude);
        let shift = shift + shift.rem_euclid(2);
        let (scaled, by) = scaled(magnitude, &self.denominator, shift);
        let (quotient, rest) = scaled.div_rem(&by);
        let root = quotient.sqrt();
        let is_inexact = rest.bits() > 0 || &root * &root != quotient;
        rounded(&root, is_inexact, -shift / 2)
    }
}

/// Shifts a fraction by powers of two.
fn scaled(numerator: &BigUint, denominator: &BigUint, shift: i64) -> (BigUint, BigUint) {
    let by = shift.unsigned_abs();
    if shift >= 0 { (numerator << by, denominator.clone()) } else { (numerator.clone(), denominator << by) }
}

fn bits(number: &BigUint) -> i64 {
    i64::try_from(number.bits()).unwrap_or(i64::MAX)
}

/// Returns `number * 2^exponent`, rounded once. `is_inexact`: the true value lies above `number`.
fn rounded(number: &BigUint, is_inexact: bool, exponent: i64) -> f64 {
    let digits = number.iter_u64_digits().take(2).enumerate();
    let number: u128 = digits.map(|(place, digit)| u128::from(digit) << (64 * place)).sum();
    // A set bit far below the float's last place breaks ties the right way.
    let number = number << 1 | u128::from(is_inexact);
    let exponent = i32::try_from(exponent - 1).unwrap_or(if exponent < 0 { i32::MIN } else { i32::MAX });
    // Two steps: one power of two alone may be out of range where the product is not.
    let half = exponent / 2;
    number as f64 * 2_f64.powi(half) * 2_f64.powi(exponent.saturating_sub(half))
}

/// Returns the exact sum.
pub(super) fn sum(numbers: &[Ratio]) -> Ratio {
    numbers.iter().fold(Ratio::from(BigInt::from(0)), |sum, number| sum.plus(number)).reduced()
}

/// Returns the sum of squared distances from the mean.
pub(super) fn squares(numbers: &[Ratio]) -> Ratio {
    let mean = sum(numbers).divided(numbers.len().max(1));
    let squares: Vec<Ratio> = numbers.iter().map(|number| number.squared_distance(&mean)).collect();
    sum(&squares)
}
