//! Arguments of a call as a person reads them before the consent: every value has a line with its place, and
//! is cut by itself. Arguments that have no such form are refused: a person cannot consent to hidden values.

use std::fmt::Write as _;

use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_json::text;

/// Most values in a question; a call with more is refused.
const MAX_VALUES: usize = 64;
/// Most characters of a value's place; a longer one is refused.
const MAX_PLACE_CHARACTERS: usize = 200;
/// Most characters of a value that are shown; a longer one is cut, and its length is named.
const MAX_VALUE_CHARACTERS: usize = 200;
/// Characters of its end among them.
const END_CHARACTERS: usize = 60;
/// The shortest run of spaces that is counted.
const SPACES: &str = "        ";

/// Returns one line for each value in the arguments, nested ones included, or the reason why the arguments
/// cannot be shown.
pub(super) fn lines(arguments: &str) -> Result<Vec<String>, String> {
    if !text::is_object(arguments) {
        return Err("its arguments must be an object and cannot be shown to the user".to_owned());
    }
    let mut lines = Vec::new();
    let mut places = vec![(String::new(), arguments)];
    while let Some((place, value)) = places.pop() {
        let parts = parts(&place, value)?;
        if parts.as_ref().is_some_and(|parts| !parts.is_empty()) {
            // The first part is taken next.
            places.extend(parts.unwrap_or_default().into_iter().rev());
        } else if !place.is_empty() {
            lines.push(format!("{place}: {}", shown(value)));
        }
        if lines.len() + places.len() > MAX_VALUES {
            return Err(format!(
                "it has more than {MAX_VALUES} values in its arguments, which cannot be shown to the user"
            ));
        }
    }
    Ok(lines)
}

/// Returns the parts of an object or an array with their places; `None` for another value.
fn parts<'a>(place: &str, value: &'a str) -> Result<Option<Vec<(String, &'a str)>>, String> {
    let unreadable = |error: &dyn std::fmt::Display| {
        format!("its arguments cannot be shown to the user: {}", escaped(&error.to_string()))
    };
    let within = |part: String| {
        if part.chars().count() > MAX_PLACE_CHARACTERS {
            return Err(format!(
                "the name of an argument has more than {MAX_PLACE_CHARACTERS} characters and cannot be shown to the user"
            ));
        }
        Ok(part)
    };
    if text::is_object(value) {
        let object = Object::parse_valid(value).map_err(|error| unreadable(&error))?;
        let separator = if place.is_empty() { "" } else { "." };
        let keys: Vec<String> = object.keys().map(named).collect();
        let values = keys.into_iter().zip(object.values());
        let parts = values.map(|(key, value)| Ok((within(format!("{place}{separator}{key}"))?, value)));
        return parts.take(MAX_VALUES + 1).collect::<Result<_, String>>().map(Some);
    }
    if value.starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(value).map_err(|error| unreadable(&error))?;
        let parts = items.into_iter().enumerate();
        let parts = parts.map(|(at, item)| Ok((within(format!("{place}[{at}]"))?, item.get())));
        return parts.take(MAX_VALUES + 1).collect::<Result<_, String>>().map(Some);
    }
    Ok(None)
}

/// Returns a key for a place: quoted, unless it is a plain name.
fn named(key: &str) -> String {
    let is_plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if is_plain { key.to_owned() } else { escaped(&text::quoted(key)) }
}

/// Returns a value as it is written, without characters that a person does not see. Of a long one, the
/// beginning and the end.
fn shown(value: &str) -> String {
    let written = spaces_counted(value);
    let length = written.chars().count();
    if length <= MAX_VALUE_CHARACTERS {
        return escaped(&written);
    }
    let begin: String = written.chars().take(MAX_VALUE_CHARACTERS - END_CHARACTERS).collect();
    let end: String = written.chars().skip(length - END_CHARACTERS).collect();
    let characters = value.chars().count();
    format!("{}… (cut: {characters} characters in all) …{}", escaped(&begin), escaped(&end))
}

/// Writes a number for each long run of spaces, which push the rest of a value out of a person's sight.
fn spaces_counted(value: &str) -> String {
    let mut out = String::new();
    let mut rest = value;
    while let Some(at) = rest.find(SPACES) {
        let (before, padded) = rest.split_at(at);
        let behind = padded.trim_start_matches(' ');
        out.push_str(before);
        // Writing to a string cannot fail.
        let _ = write!(out, "⟨{} spaces⟩", padded.len() - behind.len());
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Writes control, invisible and direction-changing characters, and spaces other than the plain one, as
/// `\u{…}`; the variation selectors of emoji too, because a row of them can hold a text.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let is_selector = matches!(c, '\u{fe0e}' | '\u{fe0f}');
        if c == ' ' || !(c.is_whitespace() || is_selector || vmcp_config::sanitize::is_invisible(c)) {
            out.push(c);
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_is_shown_whatever_stands_before_it() {
        let pad = "x".repeat(1000);
        let arguments = format!(r#"{{"pad":"{pad}","to":"MALLORY","amount":1000000}}"#);
        let lines = lines(&arguments).unwrap();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[0].contains("… (cut: 1002 characters in all) …x") && lines[0].len() < 260,
            "{}",
            lines[0]
        );
        assert_eq!(lines[1..], [r#"to: "MALLORY""#, "amount: 1000000"]);
    }

    #[test]
    fn the_end_of_a_long_value_is_shown_and_padding_is_counted() {
        let (pad, long) = (" ".repeat(500), "x".repeat(1000));
        let arguments = format!(r#"{{"command":"ls  -l{pad}; rm -rf /","to":"{long}MALLORY"}}"#);
        let lines = lines(&arguments).unwrap();
        assert_eq!(lines[0], r#"command: "ls  -l⟨500 spaces⟩; rm -rf /""#);
        assert!(lines[1].ends_with("xMALLORY\""), "{}", lines[1]);
    }

    #[test]
    fn nested_arguments_are_shown_by_themselves() {
        let pad = "x".repeat(1000);
        let arguments =
            format!(r#"{{"payment":{{"pad":"{pad}","to":["a",{{"b.c":2}}],"none":{{}}}},"last":null}}"#);
        let lines = lines(&arguments).unwrap();
        assert_eq!(
            lines[1..],
            [r#"payment.to[0]: "a""#, r#"payment.to[1]."b.c": 2"#, "payment.none: {}", "last: null"]
        );
    }

    #[test]
    fn what_a_person_would_not_see_is_written_out() {
        let lines =
            lines("{\"to\\n\":\"a\u{202e}b\u{200b}c\u{2028}\u{a0}d❤\u{fe0f}\u{fe01}\u{2800}\"}").unwrap();
        assert_eq!(lines, [r#""to\n": "a\u{202e}b\u{200b}c\u{2028}\u{a0}d❤\u{fe0f}\u{fe01}\u{2800}""#]);
    }

    #[test]
    fn arguments_that_cannot_be_shown_are_refused() {
        let many: Vec<_> = (0..=MAX_VALUES).map(|n| format!("\"k{n}\":1")).collect();
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100), "]".repeat(100));
        for arguments in [
            format!("{{{}}}", many.join(",")),
            format!("{{\"a\":[{}]}}", vec!["1"; 100_000].join(",")),
            format!("{{\"{}\":1}}", "k".repeat(MAX_PLACE_CHARACTERS + 1)),
            deep,
            r#"{"to":"MALLORY","to":"alice"}"#.to_owned(),
            "[1]".to_owned(),
        ] {
            assert!(lines(&arguments).unwrap_err().contains("cannot be shown"), "{arguments:.80}");
        }
        assert!(lines("{}").unwrap().is_empty());
    }
}
