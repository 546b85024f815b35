//! Reads a part of a kept result: elements, entries, lines or characters from an offset on, as many as fit.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use vmcp_json::text;

use crate::content::Content;
use crate::json::{self, Kind, quoted};
use crate::path::{Path, TooMuch};
use crate::preview::{cut_json, cut_string};

/// The part that is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slice<'a> {
    /// Path to the value; `None`: the whole result.
    pub path: Option<&'a Path>,
    /// Elements, entries, lines or characters to leave out.
    pub offset: usize,
    /// Most of them to return.
    pub limit: Option<usize>,
    /// Most bytes of the value as JSON, 64 or more.
    pub max_bytes: usize,
}

/// A part that was read.
#[derive(Debug, Serialize)]
pub struct ReadPart {
    /// Unit of the numbers below.
    pub unit: Unit,
    /// Units that there are.
    pub total: usize,
    /// The first unit of this part, from 0.
    pub offset: usize,
    /// Units in this part.
    pub count: usize,
    /// Offset at which to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// True if a single unit was too long and only its beginning is here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The part itself.
    pub value: Box<RawValue>,
}

/// Unit in which a value is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Elements of an array.
    Elements,
    /// Values that a path leads to.
    Matches,
    /// Entries of an object.
    Entries,
    /// Lines of a text.
    Lines,
    /// Characters of a string.
    Characters,
    /// A number, boolean or null.
    Value,
}

/// Errors of a read. The text is for the model that asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A path into plain text.
    #[error("path: the result is text, which has lines and no paths; use offset and limit")]
    NoJson,
    /// The path leads nowhere.
    #[error("path: nothing is there; the result's shape names what is")]
    Nothing,
    /// The path multiplies.
    #[error("path: {0}")]
    TooMuch(#[from] TooMuch),
}

/// Reads a part of the content.
pub fn read(content: &Content, slice: &Slice<'_>) -> Result<ReadPart, ReadError> {
    let Some(root) = content.json() else {
        if slice.path.is_some() {
            return Err(ReadError::NoJson);
        }
        return Ok(lines(content.text(), slice));
    };
    let Some(path) = slice.path else { return Ok(value(root, slice)) };
    let found = path.find(root)?;
    match found.as_slice() {
        [] => Err(ReadError::Nothing),
        [only] if path.is_singular() => Ok(value(only, slice)),
        several => Ok(matches(several, slice)),
    }
}

/// Returns the value that a path leads to, or all of them as an array.
pub fn resolve(content: &Content, path: Option<&Path>) -> Result<Box<RawValue>, ReadError> {
    let Some(path) = path else { return Ok(content.to_json()) };
    let found = path.find(content.json().ok_or(ReadError::NoJson)?)?;
    match found.as_slice() {
        [] => Err(ReadError::Nothing),
        [only] if path.is_singular() => Ok((*only).to_owned()),
        several => Ok(to_raw_value(several).unwrap_or_default()),
    }
}

fn value(raw: &RawValue, slice: &Slice<'_>) -> ReadPart {
    match json::kind(raw) {
        Kind::Array => elements(raw, slice),
        Kind::Object => entries(raw, slice),
        Kind::String => characters(&json::string(raw).unwrap_or_default(), slice),
        Kind::Null | Kind::Boolean | Kind::Integer | Kind::Number => {
            let whole = Progress { unit: Unit::Value, total: 1, taken: 1, cut: false };
            whole.part(0, raw.to_owned())
        }
    }
}

/// The units that were taken.
struct Progress {
    unit: Unit,
    total: usize,
    taken: usize,
    cut: bool,
}

impl Progress {
    fn part(self, offset: usize, value: Box<RawValue>) -> ReadPart {
        let Progress { unit, total, taken, cut } = self;
        let (offset, end) = (offset.min(total), offset.min(total) + taken);
        ReadPart { unit, total, offset, count: taken, next_offset: (end < total).then_some(end), cut, value }
    }
}

/// JSON between two brackets that takes units while they fit, and counts all of them.
struct Fitting<'a> {
    slice: &'a Slice<'a>,
    out: String,
    total: usize,
    taken: usize,
    cut: bool,
    is_full: bool,
}

impl<'a> Fitting<'a> {
    fn new(slice: &'a Slice<'a>, open: char) -> Fitting<'a> {
        Fitting { slice, out: open.into(), total: 0, taken: 0, cut: false, is_full: false }
    }

    /// Takes the next unit if the slice begins before it and it fits; the first one is cut if it does not.
    fn add(&mut self, key: Option<&str>, raw: &RawValue) {
        self.total += 1;
        if self.total <= self.slice.offset || self.is_full || self.slice.limit == Some(self.taken) {
            return;
        }
        let key = key.map_or_else(String::new, |key| format!("{}:", text::quoted(key)));
        let left = self.slice.max_bytes.saturating_sub(self.out.len() + key.len() + 2);
        let fits = raw.get().len() <= left;
        self.is_full = !fits;
        if !fits && self.taken > 0 {
            return;
        }
        if self.taken > 0 {
            self.out.push(',');
        }
        self.out.push_str(&key);
        if fits {
            self.out.push_str(raw.get());
        } else {
            self.out.push_str(&cut_json(raw, left, 0).unwrap_or_else(|| "null".to_owned()));
            self.cut = true;
        }
        self.taken += 1;
    }

    fn part(self, unit: Unit, close: char) -> ReadPart {
        let Fitting { slice, mut out, total, taken, cut, .. } = self;
        out.push(close);
        let value = RawValue::from_string(out).unwrap_or_default();
        Progress { unit, total, taken, cut }.part(slice.offset, value)
    }
}

fn elements(list: &RawValue, slice: &Slice<'_>) -> ReadPart {
    let mut fitting = Fitting::new(slice, '[');
    json::each_item(list, |item| {
        fitting.add(None, item);
        true
    });
    fitting.part(Unit::Elements, ']')
}

fn matches(found: &[&RawValue], slice: &Slice<'_>) -> ReadPart {
    let mut fitting = Fitting::new(slice, '[');
    for value in found {
        fitting.add(None, value);
    }
    fitting.part(Unit::Matches, ']')
}

fn entries(object: &RawValue, slice: &Slice<'_>) -> ReadPart {
    let mut fitting = Fitting::new(slice, '{');
    json::each_entry(object, |key, value| {
        fitting.add(Some(&key), value);
        true
    });
    fitting.part(Unit::Entries, '}')
}

fn lines(text: &str, slice: &Slice<'_>) -> ReadPart {
    let total = text.lines().count();
    let mut out = String::new();
    let (mut taken, mut cut, mut size) = (0, false, 2);
    for line in text.split_inclusive('\n').skip(slice.offset).take(slice.limit.unwrap_or(usize::MAX)) {
        size += text::quoted(line).len() - 2;
        if size > slice.max_bytes {
            if taken == 0 {
                let shortened = RawValue::from_string(cut_string(line, slice.max_bytes)).unwrap_or_default();
                (out, taken, cut) = (json::string(&shortened).unwrap_or_default(), 1, true);
            }
            break;
        }
        out.push_str(line);
        taken += 1;
    }
    Progress { unit: Unit::Lines, total, taken, cut }.part(slice.offset, quoted(&out))
}

fn characters(text: &str, slice: &Slice<'_>) -> ReadPart {
    let total = text.chars().count();
    let mut out = String::new();
    let (mut taken, mut size) = (0, 2);
    for character in text.chars().skip(slice.offset).take(slice.limit.unwrap_or(usize::MAX)) {
        size += text::quoted(character.encode_utf8(&mut [0; 4])).len() - 2;
        if size > slice.max_bytes {
            break;
        }
        out.push(character);
        taken += 1;
    }
    Progress { unit: Unit::Characters, total, taken, cut: false }.part(slice.offset, quoted(&out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(
        text: &str,
        path: &str,
        offset: usize,
        limit: usize,
        max_bytes: usize,
    ) -> Result<ReadPart, String> {
        let content = Content::of_text(text.to_owned());
        let path = (!path.is_empty()).then(|| Path::parse(path).unwrap());
        let slice = Slice { path: path.as_ref(), offset, limit: Some(limit), max_bytes };
        read(&content, &slice).map_err(|error| error.to_string())
    }

    #[test]
    fn each_type_is_read_in_its_unit() {
        let json = r#"{"rows":[{"id":1},{"id":2},{"id":3}],"name":"äbc","n":7}"#;
        for (path, offset, unit, total, count, next, value) in [
            ("rows", 1, Unit::Elements, 3, 1, Some(2), r#"[{"id":2}]"#),
            ("rows[*].id", 0, Unit::Matches, 3, 1, Some(1), "[1]"),
            ("", 1, Unit::Entries, 3, 1, Some(2), r#"{"name":"äbc"}"#),
            ("name", 1, Unit::Characters, 3, 1, Some(2), r#""b""#),
            ("n", 0, Unit::Value, 1, 1, None, "7"),
            ("rows", 99, Unit::Elements, 3, 0, None, "[]"),
        ] {
            let part = part(json, path, offset, 1, 1000).unwrap();
            assert_eq!((part.unit, part.total, part.count), (unit, total, count), "{path}");
            assert_eq!((part.next_offset, part.value.get()), (next, value), "{path}");
        }
        let part = part("a\nb\nc", "", 1, 5, 1000).unwrap();
        assert_eq!((part.unit, part.total, part.count, part.value.get()), (Unit::Lines, 3, 2, r#""b\nc""#));
    }

    #[test]
    fn reading_on_reaches_the_end_within_the_bound() {
        let rows: Vec<_> =
            (0..500).map(|n| format!(r#"{{"id":{n},"t":"{}"}}"#, "x".repeat(n % 90))).collect();
        let rows = format!("[{}]", rows.join(","));
        let (mut offset, mut seen) = (0, 0);
        loop {
            let part = part(&rows, "", offset, 1000, 400).unwrap();
            assert!(part.value.get().len() <= 400 && !part.cut);
            seen += part.count;
            let Some(next) = part.next_offset else { break };
            offset = next;
        }
        assert_eq!(seen, 500);
    }

    #[test]
    fn a_unit_that_is_too_long_is_cut_and_says_so() {
        let text = format!(r#"[{{"body":"{}","id":1}}, 2]"#, "x".repeat(1000));
        let first = part(&text, "", 0, 10, 100).unwrap();
        assert!(first.cut && first.count == 1 && first.value.get().len() <= 100, "{first:?}");
        assert_eq!(first.next_offset, Some(1));
        let line = part(&"y".repeat(500), "", 0, 10, 100).unwrap();
        assert!(line.cut && line.value.get().len() <= 100);
    }

    #[test]
    fn mistakes_are_explained() {
        assert!(part("text", "a", 0, 1, 100).unwrap_err().contains("lines and no paths"));
        assert!(part("[1]", "a", 0, 1, 100).unwrap_err().contains("nothing is there"));
    }
}
