//! Quoted texts as Go's `strconv` writes them.

use std::fmt::Write as _;

/// Quotes a text; `is_ascii` escapes all other characters.
pub(super) fn quoted(text: &str, quote: char, is_ascii: bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            _ if c == quote || c == '\\' => out.extend(['\\', c]),
            _ if is_printed(c) && (c.is_ascii() || !is_ascii) => out.push(c),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ => {
                let code = u32::from(c);
                // Writing to a text does not fail.
                let _ = match code {
                    0..=0x1f | 0x7f => write!(out, "\\x{code:02x}"),
                    ..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push(quote);
    out
}

/// True for a character with a glyph, and for a space.
pub(super) fn is_printed(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    // A combining character is escaped at the begin of a text alone.
    String::from_iter(['a', c]).escape_debug().count() == 2
}

/// True if a text can stand in backquotes.
pub(super) fn can_be_raw(text: &str) -> bool {
    let fits = |c: char| c == '\t' || !(c < ' ' || matches!(c, '`' | '\u{7f}' | '\u{feff}'));
    text.chars().all(fits)
}
