//! Escapes in JSON strings, replaced in one pass.

/// Bytes of an escape such as `\u00e9`.
const UNICODE: usize = r"\u0000".len();

/// Returns a text between the quotes of a JSON string with its escapes replaced; `None` for a quote, for a
/// control character, for an escape that JSON lacks, and for half a surrogate pair, which no Rust string can
/// hold.
///
/// The text takes one buffer of the string's own size. A parser takes a second one for strings with escapes,
/// which grows by doubling: too much for a result of many megabytes.
pub(crate) fn unescaped(inner: &str) -> Option<String> {
    if inner.bytes().any(|byte| byte < b' ') {
        return None;
    }
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = memchr::memchr2(b'\\', b'"', rest.as_bytes()) {
        let (plain, escape) = rest.split_at_checked(at)?;
        text.push_str(plain);
        let (character, length) = character(escape)?;
        text.push(character);
        rest = escape.get(length..)?;
    }
    text.push_str(rest);
    // An escape is up to six times as long as its character.
    if text.capacity() - text.len() > text.len() / 8 {
        text.shrink_to_fit();
    }
    Some(text)
}

/// Reads the escape that a text begins with: its character, and its bytes in JSON.
fn character(escape: &str) -> Option<(char, usize)> {
    let mut bytes = escape.bytes();
    if bytes.next() != Some(b'\\') {
        return None;
    }
    let character = match bytes.next()? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode(escape),
        _ => return None,
    };
    Some((character, 2))
}

/// Reads `\u00e9`, or a surrogate pair such as `\ud83d\ude00`.
fn unicode(escape: &str) -> Option<(char, usize)> {
    let unit = code_unit(escape, 0)?;
    if !(0xD800..=0xDBFF).contains(&unit) {
        // Alone, the second half of a pair stands for nothing.
        return Some((char::from_u32(unit)?, UNICODE));
    }
    let low = code_unit(escape, UNICODE).filter(|low| (0xDC00..=0xDFFF).contains(low))?;
    let scalar = 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    Some((char::from_u32(scalar)?, 2 * UNICODE))
}

/// Reads the code unit of UTF-16 whose escape begins at a place.
fn code_unit(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at + UNICODE)?.strip_prefix("\\u")?;
    // `from_str_radix` alone would take a sign.
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every text of up to four parts reads as the parser reads it.
    #[test]
    fn texts_are_those_of_the_parser() {
        let parts = [
            "a",
            "é",
            "😀",
            " ",
            "\\n",
            "\\\\",
            "\\/",
            "\\\"",
            "\\b\\f\\r\\t",
            "\\u00e9",
            "\\u0000",
            "\\uD83D",
            "\\ude00",
            "\\u+123",
            "\\u12",
            "\\x",
            "\\",
            "\"",
            "\u{1f}",
        ];
        let mut texts = vec![String::new()];
        let mut begin = 0;
        for _ in 0..4 {
            let end = texts.len();
            for at in begin..end {
                for part in parts {
                    texts.push(format!("{}{part}", texts[at]));
                }
            }
            begin = end;
        }
        assert!(texts.len() > 100_000, "{}", texts.len());
        for text in texts {
            let parsed = serde_json::from_str::<String>(&format!("\"{text}\"")).ok();
            assert_eq!(unescaped(&text), parsed, "{text}");
        }
    }

    #[test]
    fn a_text_of_escapes_keeps_no_larger_buffer() {
        let text = unescaped(&"\\u00e9".repeat(10_000)).unwrap();
        assert_eq!(text.len(), 20_000);
        assert!(text.capacity() < 25_000, "{}", text.capacity());
    }
}
