//! Measures the nesting of arrays and objects in a JSON text, in one pass without recursion.

use crate::scan;

/// Returns the deepest nesting: 0 for a scalar, 1 for `{}` and `[]`.
///
/// ```
/// assert_eq!(vmcp_json::nesting::depth(br#"{"a":[1,{"b":"[[["}]}"#), 3);
/// ```
#[must_use]
pub fn depth(json: &[u8]) -> usize {
    deepest(json, usize::MAX)
}

/// True if arrays and objects nest more than `limit` deep. Stops at the first that does.
#[must_use]
pub fn nests_deeper(json: &[u8], limit: usize) -> bool {
    // A text with few brackets is cleared without a look at its strings.
    memchr::memchr2_iter(b'{', b'[', json).nth(limit).is_some() && deepest(json, limit) > limit
}

/// The deepest nesting, or the first that exceeds `limit`.
fn deepest(json: &[u8], limit: usize) -> usize {
    let (mut depth, mut deepest, mut at) = (0_usize, 0, 0);
    while let Some(byte) = scan::next_structural(json, &mut at) {
        match byte {
            b'"' => at = scan::string_end(json, at),
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
                if deepest > limit {
                    break;
                }
            }
            _ => depth = depth.saturating_sub(1),
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Walks one byte at a time.
    fn walked(json: &[u8]) -> usize {
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
        deepest
    }

    proptest! {
        #[test]
        fn agrees_with_a_walk(json in vec(select(b"{}[]\"\\a".to_vec()), 0..40), limit in 0..5_usize) {
            prop_assert_eq!(nests_deeper(&json, limit), walked(&json) > limit);
            prop_assert_eq!(depth(&json), walked(&json));
        }
    }

    #[test]
    fn counts_nesting_and_not_brackets() {
        assert!(!nests_deeper(b"[[]]", 2));
        assert!(nests_deeper(b"[[[]]]", 2));
        assert!(!nests_deeper(b"[[],[],[],{}]", 2), "siblings do not nest");
        assert!(!nests_deeper(br#"["[[[[","\"[[[[","\\"]"#, 1), "brackets in strings do not nest");
        assert!(nests_deeper(br#"["\\",[[]]]"#, 2));
        assert!(nests_deeper(&[b'['; 10_000], 128));
    }

    #[test]
    fn the_depth_ignores_brackets_in_strings() {
        for (json, expected) in
            [("1", 0), ("{}", 1), (r#"{"a":[1,{"b":2}]}"#, 3), (r#"{"a":"[[[\"{{"}"#, 1), ("[[],[[]]]", 3)]
        {
            assert_eq!(depth(json.as_bytes()), expected, "{json}");
        }
        assert_eq!(depth("[".repeat(1_000_000).as_bytes()), 1_000_000);
    }

    #[test]
    fn ends_on_text_that_is_no_json() {
        assert!(!nests_deeper(br#"]]]]{{"abc\"#, 2));
        assert!(!nests_deeper(br#"[[["unterminated"#, 3));
    }
}
