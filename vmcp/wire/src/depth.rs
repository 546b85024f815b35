//! How deeply a JSON text nests, without parsing it.

/// Whether arrays and objects nest more than `limit` deep.
///
/// Text with few brackets is cleared at the speed of `memchr`; only the rest is walked, and there strings are skipped
/// the same way. The answer for text that is not JSON does not matter, as long as it comes: the parser refuses it.
pub(crate) fn exceeds(json: &[u8], limit: usize) -> bool {
    if memchr::memchr2_iter(b'{', b'[', json).nth(limit).is_none() {
        return false;
    }
    let mut depth = 0_usize;
    let mut rest = json.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let text = rest.as_slice();
                rest = text.get(string_end(text)..).unwrap_or_default().iter();
            }
            _ => {}
        }
    }
    false
}

/// The offset just behind the closing quote of a string whose opening quote has been read.
fn string_end(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if text.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::exceeds;

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
