//! Conversion of JSON with comments and trailing commas (JSONC, as editors keep their settings) to JSON.

/// Removes comments and commas before a closing bracket; strings stay as they are.
pub(super) fn to_json(text: &str) -> String {
    let mut json = String::with_capacity(text.len());
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    while let Some(c) = rest.chars().next() {
        let taken = if c == '"' {
            let end = string_end(rest);
            json.push_str(rest.get(..end).unwrap_or(rest));
            end
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |at| at + 2)
        } else {
            // Comments are gone by now, so that only white space can stand between the comma and the bracket.
            if matches!(c, '}' | ']') && json.trim_end().ends_with(',') {
                json.truncate(json.trim_end().len() - 1);
            }
            json.push(c);
            c.len_utf8()
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    json
}

/// Returns the end of the string that `text` begins with, its closing quote included.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_go_and_strings_stay() {
        let text = "{ // one\n \"a//b\": [1, /* two */ 2, ], \"c\": \"\\\"}, ]\", }";
        let value: serde_json::Value = serde_json::from_str(&to_json(text)).unwrap();
        assert_eq!(value, serde_json::json!({ "a//b": [1, 2], "c": "\"}, ]" }));
    }
}
