//! Shapes: types, lengths and keys of a value in a line such as `{id: integer, tags?: string[]}[50000]`.
//! Values never show in a shape.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::value::RawValue;

use crate::content::Content;
use crate::delimited::Delimited;
use crate::json::{self, Kind};

/// Levels of nesting that are looked into; deeper ones are `…`.
const MAX_DEPTH: usize = 4;
/// Elements that are read of an array on the first level, evenly spaced; of a deeper one a tenth.
const SAMPLES: usize = 50;
/// Keys that are read of one object.
const MAX_KEYS: usize = 64;
/// Characters of a key that are shown.
const MAX_KEY_CHARS: usize = 40;

/// The shape of a value, or of all sampled values in one place.
#[derive(Debug, Default)]
struct Shape {
    kinds: BTreeSet<Kind>,
    /// Number of values that were read.
    seen: usize,
    keys: Vec<(String, Shape)>,
    has_more_keys: bool,
    items: Option<Box<Shape>>,
    /// Fewest and most elements.
    lengths: Option<(usize, usize)>,
}

impl Shape {
    fn read(&mut self, raw: &RawValue, depth: usize) {
        let kind = json::kind(raw);
        self.seen += 1;
        self.kinds.insert(kind);
        if depth >= MAX_DEPTH {
            return;
        }
        json::each_entry(raw, |key, value| {
            self.key(key, depth, value);
            true
        });
        if let Some(length) = json::length(raw) {
            let (least, most) = self.lengths.unwrap_or((length, length));
            self.lengths = Some((least.min(length), most.max(length)));
            let samples = if depth == 0 { SAMPLES } else { SAMPLES / 10 };
            let step = length.div_ceil(samples).max(1);
            let mut position = 0;
            json::each_item(raw, |item| {
                if position % step == 0 {
                    self.items.get_or_insert_default().read(item, depth + 1);
                }
                position += 1;
                true
            });
        }
    }

    fn key(&mut self, key: String, depth: usize, value: &RawValue) {
        if let Some((_, shape)) = self.keys.iter_mut().find(|(known, _)| *known == key) {
            shape.read(value, depth + 1);
        } else if self.keys.len() >= MAX_KEYS {
            self.has_more_keys = true;
        } else {
            let mut shape = Shape::default();
            shape.read(value, depth + 1);
            self.keys.push((key, shape));
        }
    }

    /// Writes at most `keys` keys of each object, and `depth` levels.
    fn write(&self, out: &mut String, keys: usize, depth: usize) {
        for (position, kind) in self.kinds.iter().enumerate() {
            if position > 0 {
                out.push_str(" | ");
            }
            match kind {
                Kind::Object if depth == 0 => out.push_str("object"),
                Kind::Array if depth == 0 => self.write_length(out, "array"),
                Kind::Object => self.write_object(out, keys, depth),
                Kind::Array => {
                    let mut items = String::new();
                    match &self.items {
                        Some(shape) => shape.write(&mut items, keys, depth - 1),
                        None => items.push_str("any"),
                    }
                    let is_union = self.items.as_ref().is_some_and(|shape| shape.kinds.len() > 1);
                    let items = if is_union { format!("({items})") } else { items };
                    self.write_length(out, &items);
                }
                other => out.push_str(other.name()),
            }
        }
    }

    fn write_object(&self, out: &mut String, keys: usize, depth: usize) {
        out.push('{');
        for (position, (key, shape)) in self.keys.iter().take(keys).enumerate() {
            let key: String = key.chars().take(MAX_KEY_CHARS).collect();
            let optional = if shape.seen < self.seen { "?" } else { "" };
            let _ = write!(out, "{}{key}{optional}: ", if position > 0 { ", " } else { "" });
            shape.write(out, keys, depth - 1);
        }
        if self.has_more_keys || self.keys.len() > keys {
            out.push_str(", …");
        }
        out.push('}');
    }

    fn write_length(&self, out: &mut String, items: &str) {
        let _ = match self.lengths {
            Some((least, most)) if least == most => write!(out, "{items}[{most}]"),
            Some((least, most)) => write!(out, "{items}[{least}–{most}]"),
            None => write!(out, "{items}[]"),
        };
    }
}

/// Describes content in at most `max_bytes`, which are 16 or more: less detail where more does not fit.
pub fn describe(content: &Content, max_bytes: usize) -> String {
    let Some(raw) = content.json() else { return describe_text(content.text(), max_bytes) };
    let mut shape = Shape::default();
    shape.read(raw, 0);
    let details = [(MAX_KEYS, MAX_DEPTH), (24, 3), (12, 3), (8, 2), (4, 2), (4, 1), (2, 1)];
    let described = details.into_iter().map(|(keys, depth)| {
        let mut text = String::new();
        shape.write(&mut text, keys, depth);
        text
    });
    let fits = described.into_iter().find(|text| text.len() <= max_bytes);
    fits.unwrap_or_else(|| shape.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" | "))
}

/// Describes a text: its lines, and the columns of a table as far as they fit.
fn describe_text(text: &str, max_bytes: usize) -> String {
    let mut described = format!("text, {} lines", text.lines().count());
    if let Some(table) = Delimited::of(text) {
        described = format!("{described}, a table of {}", table.names.join(", "));
        if described.len() > max_bytes {
            described.truncate(described.floor_char_boundary(max_bytes.saturating_sub('…'.len_utf8())));
            described.push('…');
        }
    }
    described
}

/// Returns the number of rows: elements of an array, or of the only array in an object; of a text its lines,
/// or the records of a table.
pub(crate) fn row_count(content: &Content) -> Option<usize> {
    let Some(raw) = content.json() else {
        let text = content.text();
        return Some(Delimited::of(text).map_or_else(|| text.lines().count(), |table| table.count));
    };
    json::length(raw).or_else(|| json::length(only_array(raw)?))
}

/// Returns the only array among the values of an object: servers wrap lists so.
pub(crate) fn only_array(raw: &RawValue) -> Option<&RawValue> {
    let (mut only, mut has_more) = (None, false);
    json::each_entry(raw, |_, value| {
        if json::kind(value) == Kind::Array {
            has_more = only.replace(value).is_some();
        }
        !has_more
    });
    only.filter(|_| !has_more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str, max_bytes: usize) -> String {
        describe(&Content::of_text(text.to_owned()), max_bytes)
    }

    #[test]
    fn a_shape_has_types_lengths_and_keys() {
        let rows =
            r#"[{"id":1,"tags":["a"],"at":null},{"id":2.5,"tags":[],"at":"x","more":{"deep":[{"er":{}}]}}]"#;
        assert_eq!(
            shape(rows, 500),
            "{id: integer | number, tags: string[0–1], at: null | string, more?: {deep: {er: object}[1]}}[2]"
                .replace("{er: object}[1]", "object[1]")
        );
        assert_eq!(shape("[]", 100), "any[0]");
        assert_eq!(shape(r#"[1,"a"]"#, 100), "(integer | string)[2]");
        assert_eq!(shape("one\ntwo\n", 100), "text, 2 lines");
        assert_eq!(shape("id,name\n1,a\n", 100), "text, 2 lines, a table of id, name");
        assert_eq!(shape("id,name\n1,a\n", 30), "text, 2 lines, a table of i…");
    }

    #[test]
    fn a_shape_fits_into_its_bytes() {
        let wide: Vec<_> = (0..300).map(|n| format!(r#""key_number_{n}":{{"a":[[[[[1]]]]]}}"#)).collect();
        let wide = format!("[{{{}}}]", wide.join(","));
        for max in [16, 60, 200, 1000] {
            let shape = shape(&wide, max);
            assert!(shape.len() <= max, "{max}: {shape}");
        }
        assert!(shape(&wide, 120).contains("key_number_0"), "{}", shape(&wide, 120));
    }

    #[test]
    fn rows_are_counted_in_the_place_where_servers_put_them() {
        let count = |text: &str| row_count(&Content::of_text(text.to_owned()));
        assert_eq!(count("[1,2,3]"), Some(3));
        assert_eq!(count(r#"{"items":[1,2],"total":2}"#), Some(2));
        assert_eq!((count(r#"{"a":[],"b":[]}"#), count(r#"{"a":1}"#)), (None, None));
        assert_eq!(count("a\nb"), Some(2));
        assert_eq!(count("a,b\n1,2\n"), Some(1));
    }
}
