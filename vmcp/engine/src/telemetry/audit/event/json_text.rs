//! Parts of JSON text, written by hand: serde spends four times as many instructions on an event, and each
//! call pays for one. Texts with escapes, numbers and arguments of calls are serde's own text.

use std::cell::Cell;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use vmcp_config::sanitize::escape_unseen;
use vmcp_json::decimal::Decimal;

use super::super::field::{clip, hex_digits};

/// A time up to its seconds, as RFC 3339 writes it: `2026-11-26T14:05:01`.
type Second = [u8; 19];

thread_local! {
    /// The last second that this thread wrote, and its text.
    static LAST_SECOND: Cell<(u64, Second)> = const { Cell::new((0, *b"1970-01-01T00:00:00")) };
}

/// Appends a text as a JSON string; characters that a terminal obeys or hides are escaped.
pub(super) fn push_string(json: &mut Vec<u8>, text: &str) {
    if is_plain(text.as_bytes()) {
        json.push(b'"');
        json.extend_from_slice(text.as_bytes());
        json.push(b'"');
    } else {
        push_value(json, text);
    }
}

/// True for an ASCII text that needs no escape. Reads every byte: a branch for each one costs more than an
/// early end saves.
fn is_plain(text: &[u8]) -> bool {
    let odd =
        |byte: u8| u8::from(byte < b' ') | u8::from(byte == b'"') | u8::from(byte == b'\\') | (byte & 0x80);
    text.iter().fold(0, |found, byte| found | odd(*byte)) == 0
}

/// Appends a text like [`push_string`], cut at the limit of a field.
pub(super) fn push_field(json: &mut Vec<u8>, text: &str) {
    push_string(json, &clip(text));
}

/// Appends a value as serde writes it; characters that a terminal obeys or hides are escaped.
pub(super) fn push_value(json: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // Texts and JSON values always have a JSON text.
    let text = serde_json::to_string(value).unwrap_or_default();
    json.extend_from_slice(escape_unseen(text).as_bytes());
}

/// Appends an integer.
pub(super) fn push_integer(json: &mut Vec<u8>, number: u64) {
    json.extend_from_slice(Decimal::new(number).as_bytes());
}

/// Appends a fraction as serde writes it.
pub(super) fn push_fraction(json: &mut Vec<u8>, number: f64) {
    // Writing to a vector does not fail.
    let _ = serde_json::to_writer(json, &number);
}

/// Appends an object of text fields; members without a value are left out. Names need no escape.
pub(super) fn push_object<'a>(
    json: &mut Vec<u8>,
    members: impl IntoIterator<Item = (&'static str, Option<&'a str>)>,
) {
    let mut before = b'{';
    for (name, value) in members {
        let Some(value) = value else { continue };
        json.extend_from_slice(&[before, b'"']);
        json.extend_from_slice(name.as_bytes());
        json.extend_from_slice(b"\":");
        push_field(json, value);
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

/// Appends a time as RFC 3339 with microseconds, in UTC. A thread formats each second once.
pub(super) fn push_time(json: &mut Vec<u8>, time: SystemTime) {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut second = LAST_SECOND.get();
    if second.0 != since_epoch.as_secs() {
        let whole = UNIX_EPOCH + Duration::from_secs(since_epoch.as_secs());
        let mut text = String::new();
        // A year beyond 9999 has no text.
        if write!(text, "{}", humantime::format_rfc3339_seconds(whole)).is_ok()
            && let Some(to_seconds) = text.as_bytes().first_chunk()
        {
            second = (since_epoch.as_secs(), *to_seconds);
            LAST_SECOND.set(second);
        }
    }
    let mut micros = since_epoch.subsec_micros();
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
