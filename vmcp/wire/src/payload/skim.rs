//! Skims the values that hold no key which matters, token by token, several times faster than the state
//! machine of the scanner goes byte by byte.
//!
//! Skimming accepts only tokens that are valid and whole. It stops in front of anything else, such as a
//! string that the end of the piece cuts, and leaves it to the state machine.

use vmcp_json::containers::OpenContainers;
use vmcp_json::string_bytes::text_length;
use vmcp_json::token_window::{TokenWindow, WINDOW};

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
    let mut place = Place { expected: *expected, in_object: open.in_object(), open, floor };
    while let Some(rest) = piece.get(at..).filter(|rest| !rest.is_empty()) {
        // Padded with zeros, which belong to no token.
        let mut last = [0; WINDOW];
        let bytes = rest.first_chunk().unwrap_or_else(|| {
            last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            &last
        });
        let skipped = place.skip(&TokenWindow::of(bytes, rest.len().min(WINDOW)));
        // A token that is cut by the window begins the next one.
        let length = if skipped > 0 { skipped } else { place.skip_long_string(rest) };
        if length == 0 {
            break;
        }
        at += length;
    }
    *expected = place.expected;
    at
}

/// The place between two tokens that was reached.
struct Place<'a> {
    expected: Expected,
    in_object: bool,
    open: &'a mut OpenContainers,
    floor: usize,
}

impl Place<'_> {
    /// Skips tokens at the beginning of `window`; returns the number of their bytes.
    fn skip(&mut self, window: &TokenWindow<'_>) -> usize {
        let mut at = 0;
        loop {
            let end = match self.expected {
                Expected::After => self.after(window, at),
                Expected::KeyOrEnd if window.byte(at) == b'}' => self.leave(true, at),
                Expected::ValueOrEnd if window.byte(at) == b']' => self.leave(false, at),
                Expected::Key | Expected::KeyOrEnd => self.key(window, at),
                Expected::Value | Expected::ValueOrEnd => self.value(window, at),
                Expected::Colon => self.colon(window, at),
            };
            at = if end > at {
                end
            } else if matches!(window.byte(at), b' ' | b'\n' | b'\r' | b'\t') {
                at + 1
            } else {
                return at;
            };
        }
    }

    /// Skips a comma with the key or value behind it, or the end of a container. Like its siblings below,
    /// returns `at` if the expected token is not there.
    #[inline]
    fn after(&mut self, window: &TokenWindow<'_>, at: usize) -> usize {
        match window.byte(at) {
            b',' if self.in_object => {
                self.expected = Expected::Key;
                self.key(window, at + 1)
            }
            b',' => {
                self.expected = Expected::Value;
                self.value(window, at + 1)
            }
            b'}' => self.leave(true, at),
            b']' => self.leave(false, at),
            _ => at,
        }
    }

    /// Skips a key, with its colon and value where they follow at once.
    #[inline]
    fn key(&mut self, window: &TokenWindow<'_>, at: usize) -> usize {
        if window.byte(at) != b'"' {
            return at;
        }
        let Some(end) = window.string(at) else { return at };
        self.expected = Expected::Colon;
        self.colon(window, end)
    }

    #[inline]
    fn colon(&mut self, window: &TokenWindow<'_>, at: usize) -> usize {
        if window.byte(at) != b':' {
            return at;
        }
        self.expected = Expected::Value;
        self.value(window, at + 1)
    }

    /// Skips a scalar, or the beginning of a container.
    #[inline]
    fn value(&mut self, window: &TokenWindow<'_>, at: usize) -> usize {
        let end = match window.byte(at) {
            b'"' => window.string(at),
            b'-' | b'0'..=b'9' => window.number(at),
            bracket @ (b'{' | b'[') => {
                self.enter(bracket == b'{');
                return at + 1;
            }
            b't' => window.word(at, b"true"),
            b'f' => window.word(at, b"false"),
            b'n' => window.word(at, b"null"),
            _ => None,
        };
        let Some(end) = end else { return at };
        self.expected = Expected::After;
        end
    }

    /// Skips a string that is longer than a window, or has escapes; returns the number of its bytes.
    fn skip_long_string(&mut self, rest: &[u8]) -> usize {
        let Some(end) = string(rest) else { return 0 };
        self.expected = match self.expected {
            Expected::Key | Expected::KeyOrEnd => Expected::Colon,
            Expected::Value | Expected::ValueOrEnd => Expected::After,
            Expected::Colon | Expected::After => return 0,
        };
        end
    }

    #[inline]
    fn enter(&mut self, object: bool) {
        self.open.push(object);
        self.in_object = object;
        self.expected = if object { Expected::KeyOrEnd } else { Expected::ValueOrEnd };
    }

    /// Leaves the innermost container, if it is of this kind and not the outermost to be skimmed.
    #[inline]
    fn leave(&mut self, object: bool, at: usize) -> usize {
        if object != self.in_object || self.open.depth() <= self.floor + 1 {
            return at;
        }
        self.open.pop();
        self.in_object = self.open.in_object();
        self.expected = Expected::After;
        at + 1
    }
}

/// Returns the length of the string at the beginning of `rest`, if it is valid and ends in it.
fn string(rest: &[u8]) -> Option<usize> {
    let mut at = usize::from(rest.first()? == &b'"');
    if at == 0 {
        return None;
    }
    loop {
        at += text_length(rest.get(at..)?);
        match rest.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' if rest.get(at + 1)? == &b'u' => {
                let digits = rest.get(at + 2..at + 6)?;
                at += digits.iter().all(u8::is_ascii_hexdigit).then_some(6)?;
            }
            _ => return None,
        }
    }
}
