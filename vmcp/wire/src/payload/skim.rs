//! Skims the values that hold no key which matters, token by token, several times faster than the state
//! machine of the scanner goes byte by byte.
//!
//! Skimming accepts only tokens that are valid and whole. It stops in front of anything else, such as a
//! string that the end of the piece cuts, and leaves it to the state machine.

use vmcp_json::containers::OpenContainers;
use vmcp_json::string_bytes::text_length;

/// The token that may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Value,
    /// Behind `[`.
    ValueOrEnd,
    /// Behind the comma of an object.
    Key,
    /// Behind `{`.
    KeyOrEnd,
    Colon,
    /// A comma, or the end of what is open.
    After,
}

/// Skips tokens from `at` on, as long as more than `floor` containers stay open. Returns the offset of the
/// first token that was not skipped.
pub(super) fn skim(
    piece: &[u8],
    mut at: usize,
    open: &mut OpenContainers,
    floor: usize,
    expected: &mut Expected,
) -> usize {
    let mut next = *expected;
    let mut in_object = open.in_object();
    // Ends at the end of the piece, or at a token that is not skipped.
    while let Some(byte) = piece.get(at) {
        match (next, *byte) {
            (_, b' ' | b'\n' | b'\r' | b'\t') => at += 1,
            (Expected::Key | Expected::KeyOrEnd, b'"') => {
                let Some(end) = string(piece, at) else { break };
                let has_colon = piece.get(end) == Some(&b':');
                next = if has_colon { Expected::Value } else { Expected::Colon };
                at = end + usize::from(has_colon);
            }
            (Expected::Colon, b':') => {
                next = Expected::Value;
                at += 1;
            }
            (Expected::After, b',') => {
                next = if in_object { Expected::Key } else { Expected::Value };
                at += 1;
            }
            (Expected::Value | Expected::ValueOrEnd, bracket @ (b'{' | b'[')) => {
                in_object = bracket == b'{';
                open.push(in_object);
                next = if in_object { Expected::KeyOrEnd } else { Expected::ValueOrEnd };
                at += 1;
            }
            (Expected::After | Expected::KeyOrEnd, b'}') | (Expected::After | Expected::ValueOrEnd, b']') => {
                if (*byte == b'}') != in_object || open.depth() <= floor + 1 {
                    break;
                }
                open.pop();
                in_object = open.in_object();
                next = Expected::After;
                at += 1;
            }
            (Expected::Value | Expected::ValueOrEnd, first) => {
                let Some(end) = scalar(piece, at, first) else { break };
                next = Expected::After;
                at = end;
            }
            _ => break,
        }
    }
    *expected = next;
    at
}

/// Returns the offset behind the string, number or literal at `at`, if it is valid and ends in this piece.
fn scalar(piece: &[u8], at: usize, first: u8) -> Option<usize> {
    match first {
        b'"' => string(piece, at),
        b'-' | b'0'..=b'9' => number(piece, at),
        _ => literal(piece, at, first),
    }
}

/// Returns the offset behind the string that begins at `at`, if it is valid and ends in this piece.
fn string(piece: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += text_length(piece.get(at..)?);
        match piece.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' if piece.get(at + 1)? == &b'u' => {
                let digits = piece.get(at + 2..at + 6)?;
                at += digits.iter().all(u8::is_ascii_hexdigit).then_some(6)?;
            }
            _ => return None,
        }
    }
}

/// Returns the offset behind the number at `at`, if it is valid and another byte follows in this piece.
fn number(piece: &[u8], at: usize) -> Option<usize> {
    let digits = |at: usize| {
        let length = piece.get(at..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (length > 0).then_some(at + length)
    };
    let start = if piece.get(at)? == &b'-' { at + 1 } else { at };
    let mut end = if piece.get(start)? == &b'0' { start + 1 } else { digits(start)? };
    if piece.get(end)? == &b'.' {
        end = digits(end + 1)?;
    }
    if matches!(piece.get(end)?, b'e' | b'E') {
        let sign = matches!(piece.get(end + 1)?, b'+' | b'-');
        end = digits(end + 1 + usize::from(sign))?;
    }
    piece.get(end).map(|_| end)
}

fn literal(piece: &[u8], at: usize, first: u8) -> Option<usize> {
    let word: &[u8] = match first {
        b't' => b"true",
        b'f' => b"false",
        b'n' => b"null",
        _ => return None,
    };
    piece.get(at..)?.starts_with(word).then_some(at + word.len())
}
