//! Conversion of JSON with comments and trailing commas (JSONC, as editors keep their settings) to JSON.

/// Removes comments and commas before a closing bracket; strings stay as they are, and so do the lines, whose
/// numbers the parser names.
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
            let end = rest.find("*/").map_or(rest.len(), |at| at + 2);
            let comment = rest.get(..end).unwrap_or(rest);
            json.extend(comment.chars().filter(|c| *c == '\n'));
            end
        } else {
            // Comments are gone by now, so that only white space can stand between the comma and the bracket.
            if matches!(c, '}' | ']')
                && let Some(at) = json.trim_end().strip_suffix(',').map(str::len)
            {
                json.remove(at);
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

    #[test]
    fn lines_keep_their_numbers() {
        let text = "{ /* a\r\nb */\n\"x\": [1,\n\n], // c\n\"y\" 2 }";
        let error = serde_json::from_str::<serde_json::Value>(&to_json(text)).unwrap_err();
        assert_eq!(error.line(), 6, "{error}");
    }
}
