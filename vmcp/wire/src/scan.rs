//! Finding one's way through JSON text without parsing it.
//!
//! The text has been, or will be, checked by a parser: what these functions say of anything else does not matter, as
//! long as they come back. They are several times faster than a parser, which counts for results of a megabyte.

/// Whether arrays and objects nest more than `limit` deep.
pub(crate) fn nests_deeper(json: &[u8], limit: usize) -> bool {
    // Text with few brackets is cleared without looking at its strings.
    if memchr::memchr2_iter(b'{', b'[', json).nth(limit).is_none() {
        return false;
    }
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = next_structural(json, &mut at) {
        match byte {
            b'"' => at = string_end(json, at),
            b'{' | b'[' if depth == limit => return true,
            b'{' | b'[' => depth += 1,
            _ => depth = depth.saturating_sub(1),
        }
    }
    false
}

/// The offset behind the value that begins at `start`.
pub(crate) fn value_end(json: &[u8], start: usize) -> usize {
    match json.get(start) {
        Some(b'"') => string_end(json, start + 1),
        Some(b'{' | b'[') => {
            let mut depth = 1;
            let mut at = start + 1;
            while let Some(byte) = next_structural(json, &mut at) {
                match byte {
                    b'"' => at = string_end(json, at),
                    b'{' | b'[' => depth += 1,
                    _ if depth == 1 => break,
                    _ => depth -= 1,
                }
            }
            at
        }
        _ => {
            let rest = json.get(start..).unwrap_or_default();
            let length = rest
                .iter()
                .position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t'));
            start + length.unwrap_or(rest.len())
        }
    }
}

/// The offset behind the closing quote of the string whose first character is at `start`.
pub(crate) fn string_end(json: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(found) = json.get(at..).and_then(|rest| memchr::memchr(b'"', rest)) {
        let before = json.get(at..at + found).unwrap_or_default();
        at += found + 1;
        // A quote is escaped by an odd number of backslashes.
        if before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0 {
            return at;
        }
    }
    json.len()
}

/// The offset of the first byte from `start` on that is no space.
pub(crate) fn skip_space(json: &[u8], start: usize) -> usize {
    let rest = json.get(start..).unwrap_or_default();
    start + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).count()
}

/// The next quote or bracket from `at` on; `at` is then behind it.
fn next_structural(json: &[u8], at: &mut usize) -> Option<u8> {
    let rest = json.get(*at..)?;
    let found = rest.iter().position(|byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']'))?;
    *at += found + 1;
    rest.get(found).copied()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::nests_deeper as exceeds;

    /// The same, one byte at a time.
    fn walked(json: &[u8], limit: usize) -> bool {
        let (mut depth, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
        for byte in json {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = quoted,
                b'"' => quoted = !quoted,
                b'{' | b'[' if !quoted => depth += 1,
                b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
                _ => {}
            }
            deepest = deepest.max(depth);
        }
        deepest > limit
    }

    proptest! {
        #[test]
        fn agrees_with_a_walk(json in vec(select(b"{}[]\"\\a".to_vec()), 0..40), limit in 0..5_usize) {
            prop_assert_eq!(exceeds(&json, limit), walked(&json, limit));
        }
    }

    #[test]
    fn counts_nesting_and_not_brackets() {
        assert!(!exceeds(b"[[]]", 2));
        assert!(exceeds(b"[[[]]]", 2));
        assert!(!exceeds(b"[[],[],[],{}]", 2), "siblings do not nest");
        assert!(!exceeds(br#"["[[[[","\"[[[[","\\"]"#, 1), "brackets in strings do not nest");
        assert!(exceeds(br#"["\\",[[]]]"#, 2));
        assert!(exceeds(&[b'['; 10_000], 128));
    }

    #[test]
    fn ends_on_text_that_is_no_json() {
        assert!(!exceeds(br#"]]]]{{"abc\"#, 2));
        assert!(!exceeds(br#"[[["unterminated"#, 3));
    }
}
