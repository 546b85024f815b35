//! How deep the arrays and objects of a JSON text nest.

use crate::scan;

/// Whether arrays and objects nest more than `limit` deep.
pub fn nests_deeper(json: &[u8], limit: usize) -> bool {
    // Text with few brackets is cleared without looking at its strings.
    if memchr::memchr2_iter(b'{', b'[', json).nth(limit).is_none() {
        return false;
    }
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = scan::next_structural(json, &mut at) {
        match byte {
            b'"' => at = scan::string_end(json, at),
            b'{' | b'[' if depth == limit => return true,
            b'{' | b'[' => depth += 1,
            _ => depth = depth.saturating_sub(1),
        }
    }
    false
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
