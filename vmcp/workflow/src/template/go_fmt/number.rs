//! Numbers as Go's `fmt` and `strconv` write them. Floats come without their sign.

use super::Flags;

/// Most places that the formatter is asked for: a `f64` has fewer digits, and the rest are zeros.
const MAX_PLACES: usize = 1_100;
/// Bits of the fraction of a `f64`.
const FRACTION_BITS: u32 = 52;

/// Writes a whole number with its sign and prefix; `None` for nothing: a zero in precision 0.
pub(super) fn integer(size: u64, is_negative: bool, verb: char, flags: &Flags) -> Option<String> {
    let digits = match verb {
        'b' => format!("{size:b}"),
        'o' | 'O' => format!("{size:o}"),
        'x' => format!("{size:x}"),
        'X' => format!("{size:X}"),
        _ => size.to_string(),
    };
    let sign = match (is_negative, flags.plus, flags.space) {
        (true, _, _) => "-",
        (false, true, _) => "+",
        (false, false, true) => " ",
        (false, false, false) => "",
    };
    let least = match (flags.precision, flags.width) {
        (Some(0), _) if size == 0 => return None,
        (Some(precision), _) => precision,
        (None, Some(width)) if flags.zero && !flags.minus => width.saturating_sub(sign.len()),
        (None, _) => 0,
    };
    let digits = with_zeros(digits, least);
    let prefix = match verb {
        'b' if flags.sharp => "0b",
        'o' | 'O' if flags.sharp && !digits.starts_with('0') => "0",
        'x' if flags.sharp => "0x",
        'X' if flags.sharp => "0X",
        _ => "",
    };
    let octal = if verb == 'O' { "0o" } else { "" };
    Some(format!("{sign}{octal}{prefix}{digits}"))
}

/// Puts zeros before digits until there are so many.
pub(super) fn with_zeros(digits: String, least: usize) -> String {
    match least.saturating_sub(digits.len()) {
        0 => digits,
        missing => "0".repeat(missing) + &digits,
    }
}

/// Writes bytes as `%x` does: with `0x` in front (`is_sharp`), and apart (`is_apart`).
pub(super) fn hex(bytes: &[u8], verb: char, is_sharp: bool, is_apart: bool) -> String {
    let prefix = match (is_sharp, verb) {
        (false, _) => "",
        (true, 'X') => "0X",
        (true, _) => "0x",
    };
    let byte = |byte: &u8| if verb == 'X' { format!("{byte:02X}") } else { format!("{byte:02x}") };
    let written = bytes.iter().map(byte);
    if bytes.is_empty() {
        String::new()
    } else if is_apart {
        written.map(|byte| format!("{prefix}{byte}")).collect::<Vec<_>>().join(" ")
    } else {
        format!("{prefix}{}", written.collect::<Vec<_>>().concat())
    }
}

/// Writes a float as `strconv.FormatFloat` does; without a precision, in the fewest digits.
pub(super) fn float(number: f64, form: char, precision: Option<usize>) -> String {
    match form {
        'f' => {
            let precision = precision.unwrap_or(6);
            let places = precision.min(MAX_PLACES);
            format!("{number:.places$}") + &"0".repeat(precision - places)
        }
        'e' | 'E' => {
            let precision = precision.unwrap_or(6);
            let places = precision.min(MAX_PLACES);
            let text = format!("{number:.places$e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            format!("{digits}{}{form}{}", "0".repeat(precision - places), signed(exponent))
        }
        'x' | 'X' => hexadecimal(number, form, precision),
        'b' => {
            let (fraction, exponent) = parts(number);
            let exponent = exponent - i64::from(FRACTION_BITS);
            format!("{fraction}p{exponent:+}")
        }
        _ => general(number, form, precision),
    }
}

/// Writes an exponent with its sign and at least two digits.
fn signed(exponent: &str) -> String {
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{sign}{digits:0>2}")
}

/// Writes a float as `%g` does: with an exponent below -4, and from its number of digits on.
fn general(number: f64, form: char, precision: Option<usize>) -> String {
    let precision = precision.map(|precision| precision.max(1));
    let text = match precision {
        Some(precision) => {
            let places = (precision - 1).min(MAX_PLACES);
            format!("{number:.places$e}")
        }
        None => format!("{number:e}"),
    };
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_end_matches('0');
    let count = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let exponent = if digits.is_empty() { -1 } else { exponent.parse::<i64>().unwrap_or(0) };
    let most = match precision.map(|precision| i64::try_from(precision).unwrap_or(i64::MAX)) {
        // The shortest text turns to an exponent as with a precision of 6.
        None => 6,
        Some(precision) if precision > count && count > exponent => count,
        Some(precision) => precision,
    };
    if exponent < -4 || exponent >= most {
        let (first, rest) = digits.split_at_checked(1).unwrap_or_default();
        let point = if rest.is_empty() { "" } else { "." };
        let marker = if form == 'G' { 'E' } else { 'e' };
        return format!("{first}{point}{rest}{marker}{}", signed(&exponent.to_string()));
    }
    // Digits before the point; a negative number counts the zeros behind it.
    let before = exponent + 1;
    let whole = usize::try_from(before).unwrap_or(0);
    match digits.split_at_checked(whole) {
        Some((whole, fraction)) => {
            let zeros = "0".repeat(usize::try_from(-before).unwrap_or(0));
            let point = if fraction.is_empty() { "" } else { "." };
            let whole = if whole.is_empty() { "0" } else { whole };
            let zeros = if fraction.is_empty() { "" } else { zeros.as_str() };
            format!("{whole}{point}{zeros}{fraction}")
        }
        None => format!("{digits}{}", "0".repeat(whole - digits.len())),
    }
}

/// Returns the fraction with its leading bit, and the exponent of that bit.
fn parts(number: f64) -> (u64, i64) {
    let bits = number.to_bits();
    let fraction = bits & ((1 << FRACTION_BITS) - 1);
    match (bits >> FRACTION_BITS) & 0x7ff {
        0 => (fraction, -1022),
        exponent => (fraction | (1 << FRACTION_BITS), i64::try_from(exponent).unwrap_or(0) - 1023),
    }
}

/// Writes a float as `%x` does: `0x1.8p+01`.
fn hexadecimal(number: f64, form: char, precision: Option<usize>) -> String {
    const LEADING: u64 = 1 << 60;
    let (fraction, mut exponent) = parts(number);
    let mut fraction = fraction << (60 - FRACTION_BITS);
    if fraction == 0 {
        exponent = 0;
    }
    while fraction != 0 && fraction & LEADING == 0 {
        fraction <<= 1;
        exponent -= 1;
    }
    if let Some(precision) = precision.filter(|precision| *precision < 15) {
        let shift = precision * 4;
        let extra = (fraction << shift) & (LEADING - 1);
        fraction >>= 60 - shift;
        if (extra | (fraction & 1)) > (1 << 59) {
            fraction += 1;
        }
        fraction <<= 60 - shift;
        if fraction & (1 << 61) != 0 {
            fraction >>= 1;
            exponent += 1;
        }
    }
    let leading = (fraction >> 60) & 1;
    let digits = format!("{:015x}", fraction & (LEADING - 1));
    let digits = match precision {
        None => digits.trim_end_matches('0').to_owned(),
        Some(precision) => {
            let shown: String = digits.chars().take(precision).collect();
            let missing = precision - shown.len();
            shown + &"0".repeat(missing)
        }
    };
    let point = if digits.is_empty() { "" } else { "." };
    let text = format!("0x{leading}{point}{digits}p{}", signed(&exponent.to_string()));
    if form == 'X' { text.to_uppercase() } else { text }
}

/// Writes a point and zeros, as the flag `#` asks for.
pub(super) fn with_point(text: &str, form: char, precision: Option<usize>) -> String {
    let mut missing = match form {
        'g' | 'G' | 'x' => precision.unwrap_or(6),
        _ => 0,
    };
    let is_hex = matches!(form, 'x' | 'X');
    let is_tail = |c: char| matches!(c, 'p' | 'P') || (!is_hex && matches!(c, 'e' | 'E'));
    let end = text.find(is_tail).unwrap_or(text.len());
    let (number, tail) = text.split_at_checked(end).unwrap_or((text, ""));
    let digits = number.chars().filter(|c| *c != '.');
    missing = missing.saturating_sub(digits.skip_while(|c| *c == '0').count());
    let has_point = number.contains('.');
    if !has_point && number == "0" {
        missing = missing.saturating_sub(1);
    }
    let point = if has_point { "" } else { "." };
    format!("{number}{point}{}{tail}", "0".repeat(missing))
}
