//! Previews: the beginning of a value that is a whole value itself. JSON is cut to valid JSON, text at the
//! end of a line.

use serde_json::value::RawValue;
use vmcp_json::text;

use crate::content::Content;
use crate::json::{self, Kind};

/// Mark of a text that was cut.
const CUT: char = '…';
/// Fewest bytes that are worth a cut value.
const MIN_VALUE_BYTES: usize = 12;
/// Levels of nesting that are cut into; a deeper value is left out.
const MAX_DEPTH: usize = 8;

/// Returns a preview as a JSON value of at most `max_bytes`, which are 5 or more; a text becomes a string.
pub(crate) fn preview(content: &Content, max_bytes: usize) -> Box<RawValue> {
    preview_of(content.json(), content.text(), max_bytes)
}

/// As [`preview`], of content whose JSON value has been read: that takes a pass over all of it.
pub(crate) fn preview_of(json: Option<&RawValue>, text: &str, max_bytes: usize) -> Box<RawValue> {
    let cut = match json {
        Some(raw) => cut_json(raw, max_bytes, 0).unwrap_or_else(|| "null".to_owned()),
        None => cut_lines(text, max_bytes),
    };
    RawValue::from_string(cut).unwrap_or_default()
}

/// Cuts a JSON value to at most `max_bytes`; `None` if nothing telling fits.
pub(crate) fn cut_json(raw: &RawValue, max_bytes: usize, depth: usize) -> Option<String> {
    if raw.get().len() <= max_bytes {
        return Some(raw.get().to_owned());
    }
    if max_bytes < MIN_VALUE_BYTES || depth > MAX_DEPTH {
        return None;
    }
    match json::kind(raw) {
        Kind::String => Some(cut_string(&json::string(raw)?, max_bytes)),
        Kind::Array => {
            let mut out = Cut::new('[', ']', max_bytes);
            json::each_item(raw, |item| out.push("", item, usize::MAX, depth));
            Some(out.finish())
        }
        Kind::Object => {
            let entries = json::entries(raw)?;
            let mut out = Cut::new('{', '}', max_bytes);
            let count = entries.len();
            for (position, (key, value)) in entries.into_iter().enumerate() {
                let key = format!("{}:", text::quoted(&key));
                // Each entry may take its share of the rest, so that a long one leaves room for the others.
                let share = (out.left() / (count - position).max(1)).max(key.len() + 2 * MIN_VALUE_BYTES);
                if !out.push(&key, value, share, depth) {
                    break;
                }
            }
            Some(out.finish())
        }
        _ => None,
    }
}

/// An array or object that grows up to a number of bytes.
struct Cut {
    text: String,
    close: char,
    max_bytes: usize,
    is_first: bool,
}

impl Cut {
    fn new(open: char, close: char, max_bytes: usize) -> Cut {
        Cut { text: open.into(), close, max_bytes, is_first: true }
    }

    fn left(&self) -> usize {
        self.max_bytes.saturating_sub(self.text.len() + self.close.len_utf8())
    }

    /// Adds a value behind its key, whole or cut; false if nothing more fits.
    fn push(&mut self, key: &str, value: &RawValue, share: usize, depth: usize) -> bool {
        let comma = usize::from(!self.is_first);
        let Some(left) = self.left().min(share).checked_sub(key.len() + comma) else { return false };
        let Some(value) = cut_json(value, left, depth + 1) else { return left >= MIN_VALUE_BYTES };
        if comma == 1 {
            self.text.push(',');
        }
        self.text.push_str(key);
        self.text.push_str(&value);
        self.is_first = false;
        true
    }

    fn finish(mut self) -> String {
        self.text.push(self.close);
        self.text
    }
}

/// Cuts a text between two characters; the JSON string with its mark has at most `max_bytes`.
pub(crate) fn cut_string(text: &str, max_bytes: usize) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        let written = text::quoted(character.encode_utf8(&mut [0; 4]));
        let written = written.get(1..written.len().saturating_sub(1)).unwrap_or_default();
        if out.len() + written.len() + CUT.len_utf8() + 1 > max_bytes {
            out.push(CUT);
            break;
        }
        out.push_str(written);
    }
    out.push('"');
    out
}

/// Returns whole lines as a JSON string of at most `max_bytes`; of a long first line, the beginning.
fn cut_lines(text: &str, max_bytes: usize) -> String {
    let mut end = 0;
    let mut size = 2;
    for line in text.split_inclusive('\n') {
        size += text::quoted(line).len() - 2;
        if size > max_bytes {
            break;
        }
        end += line.len();
    }
    match text.get(..end) {
        Some(lines) if end > 0 => text::quoted(lines),
        _ => cut_string(text, max_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, max_bytes: usize) -> String {
        preview(&Content::of_text(text.to_owned()), max_bytes).get().to_owned()
    }

    #[test]
    fn json_stays_json_and_text_ends_at_a_line() {
        let rows = r#"[{"id":1,"name":"alpha"},{"id":2,"name":"beta"},{"id":3,"name":"gamma"}]"#;
        assert_eq!(cut(rows, 500), rows);
        assert_eq!(cut(rows, 62), r#"[{"id":1,"name":"alpha"},{"id":2,"name":"beta"},{"id":3}]"#);
        assert_eq!(cut(rows, 30), r#"[{"id":1,"name":"alpha"}]"#);
        let long = format!(r#"{{"body":"{}","id":7}}"#, "x".repeat(100));
        let shown = cut(&long, 60);
        assert!(shown.ends_with(r#"…","id":7}"#) && shown.len() <= 60, "{shown}");
        assert_eq!(cut("one\ntwo\nthree\n", 14), r#""one\ntwo\n""#);
        assert_eq!(cut(&"é".repeat(50), 12), "\"ééé…\"");
    }

    #[test]
    fn any_cut_of_any_value_is_valid_and_fits() {
        let deep = format!("{}1{}", "[".repeat(300), "]".repeat(300));
        let values = [
            r#"{"a":"\"\\\n\u0000é😀","b":[[],{},[1.5e300,null,true]],"c":{"d":{"e":"f"}}}"#.to_owned(),
            format!(r#"[{},"x"]"#, "123456789".repeat(20)),
            deep,
            "line \"quoted\"\n\u{0}second\n".repeat(3),
        ];
        for value in &values {
            for max in 5..value.len() + 2 {
                let shown = cut(value, max);
                assert!(
                    serde_json::from_str::<serde_json::Value>(&shown).is_ok() || shown == *value,
                    "{shown}"
                );
                assert!(shown.len() <= max, "{max}: {shown}");
            }
        }
    }
}
