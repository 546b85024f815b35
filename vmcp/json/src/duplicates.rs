//! Keys that occur twice in one object, at any depth. Readers differ in the value that they take, so a check
//! of one value says nothing about the value that another reader takes.

use std::collections::HashSet;

use super::scan;
use super::text;

/// Most keys of an object that are compared with each other; the keys of a larger one are hashed.
const FEW_KEYS: usize = 8;

/// Returns a key that occurs twice in one object of a valid JSON text, at any depth. Linear in the length.
///
/// ```
/// use vmcp_json::duplicates::duplicate_key;
///
/// assert_eq!(duplicate_key(r#"{"a":[{"b":1,"\u0062":2}]}"#).as_deref(), Some("b"));
/// assert_eq!(duplicate_key(r#"{"a":{"b":1},"b":["a","a"]}"#), None);
/// ```
#[must_use]
pub fn duplicate_key(json: &str) -> Option<String> {
    let bytes = json.as_bytes();
    if has_few_distinct_keys(bytes) {
        return None;
    }
    // The keys of each open object; `None` for an array.
    let mut open: Vec<Option<HashSet<std::borrow::Cow<'_, str>>>> = Vec::new();
    let mut at = 0;
    while let Some(byte) = scan::next_structural(bytes, &mut at) {
        match byte {
            b'{' => open.push(Some(HashSet::new())),
            b'[' => open.push(None),
            b'"' => {
                let start = at - 1;
                at = scan::string_end(bytes, at);
                let is_key = bytes.get(scan::skip_space(bytes, at)) == Some(&b':');
                if let Some(Some(keys)) = open.last_mut().filter(|_| is_key)
                    && let Some(key) = json.get(start..at).and_then(text::unquoted)
                    && !keys.insert(key.clone())
                {
                    return Some(key.into_owned());
                }
            }
            _ => _ = open.pop(),
        }
    }
    None
}

/// True for at most one object in a text, with few keys that are written without escapes and all differ. Most
/// arguments are like that, and need no table.
fn has_few_distinct_keys(json: &[u8]) -> bool {
    let mut keys: [&[u8]; FEW_KEYS] = Default::default();
    let (mut count, mut objects, mut at) = (0, 0, 0);
    while let Some(byte) = scan::next_structural(json, &mut at) {
        match byte {
            b'{' if objects == 1 => return false,
            b'{' => objects = 1,
            b'"' => {
                let start = at;
                at = scan::string_end(json, at);
                if json.get(scan::skip_space(json, at)) != Some(&b':') {
                    continue;
                }
                let key = json.get(start..at).unwrap_or_default();
                let is_known = keys.iter().take(count).any(|known| *known == key);
                let Some(free) = keys.get_mut(count).filter(|_| !is_known && !key.contains(&b'\\')) else {
                    return false;
                };
                *free = key;
                count += 1;
            }
            _ => {}
        }
    }
    true
}

/// Yields the numbers of a valid JSON text, as they are written.
pub fn numbers(json: &str) -> impl Iterator<Item = &str> {
    let bytes = json.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            match bytes.get(at)? {
                b'"' => at = scan::string_end(bytes, at + 1),
                b'-' | b'0'..=b'9' => {
                    let start = at;
                    at = scan::value_end(bytes, at);
                    return json.get(start..at);
                }
                _ => at += 1,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_occurs_twice_is_found_at_any_depth() {
        for (json, found) in [
            (r#"{"to":"a","to":"b"}"#, Some("to")),
            (r#"{"x":{"to":"a"},"y":[1,{"z":{},"to":1 , "to" :2}]}"#, Some("to")),
            (r#"{"\u0074o":1,"to":2}"#, Some("to")),
            (r#"{"a":"}{\",\"a\":","b":{"a":1}}"#, None),
            (r#"[{"a":1},{"a":1}]"#, None),
            (r#"{"a":[[],"b"],"b":"a","c" : {}}"#, None),
            (r#"{"a":[{}],"b":1,"a":2}"#, Some("a")),
            (r#"{"a":"b","\u0061":"c"}"#, Some("a")),
            (r#"{"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1}"#, None),
            (r#"{"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"1":1}"#, Some("1")),
            (r#"{"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1,"9":1}"#, None),
            (r#"{"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1,"9":1,"9":1}"#, Some("9")),
            (r#"{"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1,"9":1,"1":1}"#, Some("1")),
            ("7", None),
        ] {
            assert_eq!(duplicate_key(json).as_deref(), found, "{json}");
        }
        let deep = format!("{}{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
        assert_eq!(duplicate_key(&deep), None, "no recursion");
    }

    #[test]
    fn numbers_are_found_as_they_are_written() {
        let found: Vec<_> = numbers(r#"{"a1":-1.50,"b":[1e400,"7",true],"c":9007199254740993}"#).collect();
        assert_eq!(found, ["-1.50", "1e400", "9007199254740993"]);
    }
}
