//! Parts of JSON text, written by hand: serde spends four times as many instructions on an event, and each
//! call leaves one. Texts with escapes and arguments of calls are serde's own text.

use std::cell::Cell;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use vmcp_config::sanitize::escape_unseen;
use vmcp_json::decimal::Decimal;

use super::super::field::hex_digits;

/// A one in each byte of a word.
const EACH_BYTE: u64 = u64::MAX / 255;

/// A time up to its seconds, as RFC 3339 writes it: `2026-11-26T14:05:01`.
type Second = [u8; 19];

thread_local! {
    /// The last second that this thread wrote, and its text.
    static LAST_SECOND: Cell<(u64, Second)> = const { Cell::new((0, *b"1970-01-01T00:00:00")) };
}

/// Appends a text, which is UTF-8, as a JSON string; characters that a terminal obeys or hides are escaped.
pub(super) fn push_string(json: &mut Vec<u8>, text: &[u8]) {
    if is_plain(text) {
        json.push(b'"');
        json.extend_from_slice(text);
        json.push(b'"');
    } else {
        json.extend_from_slice(value_text(&String::from_utf8_lossy(text)).as_bytes());
    }
}

/// True for an ASCII text that needs no escape. Reads a word at a time: most texts of an event have few
/// bytes, too few for the vectors that the compiler would make of a loop over bytes.
fn is_plain(text: &[u8]) -> bool {
    let (words, rest) = text.as_chunks::<8>();
    let mut odd = words.iter().fold(0, |odd, word| odd | odd_bytes(u64::from_le_bytes(*word)));
    if !rest.is_empty() {
        let last = text.last_chunk::<8>().map(|last| u64::from_le_bytes(*last));
        // Spaces in front of a text that is shorter than a word.
        let padded = || rest.iter().fold(EACH_BYTE * 0x20, |word, byte| (word << 8) | u64::from(*byte));
        odd |= odd_bytes(last.unwrap_or_else(padded));
    }
    odd == 0
}

/// Returns 0 if each byte of a word is ASCII and neither a control character, a quote nor a backslash.
fn odd_bytes(word: u64) -> u64 {
    // The highest bit of each byte: set, in the difference, by a borrow from a byte that is too small.
    let below = |word: u64, least: u64| word.wrapping_sub(EACH_BYTE * least) & !word;
    let is = |byte: u8| below(word ^ (EACH_BYTE * u64::from(byte)), 1);
    (word | below(word, 0x20) | is(b'"') | is(b'\\')) & (EACH_BYTE * 0x80)
}

/// Returns a value as serde writes it; characters that a terminal obeys or hides are escaped.
pub(super) fn value_text(value: &(impl Serialize + ?Sized)) -> String {
    // Texts and JSON values always have a JSON text.
    escape_unseen(serde_json::to_string(value).unwrap_or_default())
}

/// Appends an integer.
pub(super) fn push_integer(json: &mut Vec<u8>, number: u64) {
    json.extend_from_slice(Decimal::new(number).as_bytes());
}

/// Appends nanoseconds as milliseconds, with one to six decimals.
pub(super) fn push_milliseconds(json: &mut Vec<u8>, nanoseconds: u64) {
    push_integer(json, nanoseconds / 1_000_000);
    let (mut left, mut decimals) = (nanoseconds % 1_000_000, *b".000000");
    for digit in decimals.iter_mut().skip(1).rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let zeros = decimals.iter().skip(2).rev().take_while(|digit| **digit == b'0').count();
    json.extend_from_slice(decimals.get(..decimals.len() - zeros).unwrap_or_default());
}

/// Appends an object of text fields; members without a value are left out. Names need no escape.
pub(super) fn push_object<'a>(
    json: &mut Vec<u8>,
    members: impl IntoIterator<Item = (&'static str, Option<&'a [u8]>)>,
) {
    let mut before = b'{';
    for (name, value) in members {
        let Some(value) = value else { continue };
        json.extend_from_slice(&[before, b'"']);
        json.extend_from_slice(name.as_bytes());
        json.extend_from_slice(b"\":");
        push_string(json, value);
        before = b',';
    }
    json.extend_from_slice(if before == b'{' { "{}" } else { "}" }.as_bytes());
}

/// Appends a member whose value is bytes in hexadecimal digits, if there are any. `name` comes with its
/// comma, quotes and colon.
pub(super) fn push_hex_member<const BYTES: usize>(
    json: &mut Vec<u8>,
    name: &str,
    bytes: Option<&[u8; BYTES]>,
) {
    if let Some(bytes) = bytes {
        json.extend_from_slice(name.as_bytes());
        json.push(b'"');
        json.extend_from_slice(hex_digits(bytes).as_flattened());
        json.push(b'"');
    }
}

/// Appends a time, in seconds and microseconds since 1970, as RFC 3339 in UTC. A thread formats each second
/// once.
pub(super) fn push_time(json: &mut Vec<u8>, seconds: u64, mut micros: u32) {
    let mut second = LAST_SECOND.get();
    if second.0 != seconds {
        let whole = UNIX_EPOCH + Duration::from_secs(seconds);
        let mut text = String::new();
        // A year beyond 9999 has no text.
        if write!(text, "{}", humantime::format_rfc3339_seconds(whole)).is_ok()
            && let Some(to_seconds) = text.as_bytes().first_chunk()
        {
            second = (seconds, *to_seconds);
            LAST_SECOND.set(second);
        }
    }
    let mut fraction = *b".000000Z";
    for digit in fraction.iter_mut().skip(1).take(6).rev() {
        *digit = b'0' + (micros % 10) as u8;
        micros /= 10;
    }
    json.extend_from_slice(&second.1);
    json.extend_from_slice(&fraction);
}

/// Appends an address, an IPv4 address in IPv6 as IPv4.
pub(super) fn push_address(json: &mut Vec<u8>, address: IpAddr) {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            for (at, octet) in address.octets().into_iter().enumerate() {
                if at > 0 {
                    json.push(b'.');
                }
                push_integer(json, octet.into());
            }
        }
        IpAddr::V6(address) => json.extend_from_slice(address.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_needs_an_escape_is_found_at_each_place() {
        for length in 0..40 {
            let mut text = vec![b'a'; length];
            assert!(is_plain(&text));
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    text[at] = byte;
                    let is_plain_byte = byte.is_ascii() && byte >= b' ' && byte != b'"' && byte != b'\\';
                    assert_eq!(is_plain(&text), is_plain_byte, "{byte:#x} at {at} of {length}");
                }
                text[at] = [b'a', b' ', b'!', b'#', b'[', b']', 0x7f][at % 7];
            }
        }
    }
}
