//! How deeply a JSON text nests.

/// How deeply a JSON text nests: 0 for a scalar, 1 for `{}` and `[]`. Linear, without recursion.
pub(crate) fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json.bytes() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_ignores_brackets_in_strings() {
        for (json, expected) in
            [("1", 0), ("{}", 1), (r#"{"a":[1,{"b":2}]}"#, 3), (r#"{"a":"[[[\"{{"}"#, 1), ("[[],[[]]]", 3)]
        {
            assert_eq!(depth(json), expected, "{json}");
        }
        assert_eq!(depth(&"[".repeat(1_000_000)), 1_000_000);
    }
}
