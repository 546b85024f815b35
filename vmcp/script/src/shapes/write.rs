//! Shapes as Python types in one line, for a comment.

use std::fmt::Write as _;

use super::{Field, ObjectShape, SHOWN_FROM, Scalar, Shape};

/// Longest text in bytes; deeper levels are left out until it fits, and then it is cut.
const MAX_BYTES: usize = 800;
/// Levels that are written, if they fit.
const MAX_LEVELS: usize = 8;
/// Fewest keys of a record that is written as a map, because no key is in all of its objects.
const MIN_CHANGING: usize = 2;

impl Shape {
    /// Returns the shape as a principal may see it. `viewer`: the digest of that principal.
    pub fn text(&self, viewer: u64) -> String {
        let mut text = String::new();
        for levels in (1..=MAX_LEVELS).rev() {
            text.clear();
            self.write(&mut text, viewer, levels);
            if text.len() <= MAX_BYTES {
                return text;
            }
        }
        // Keys are ASCII.
        text.truncate(text.floor_char_boundary(MAX_BYTES));
        text.push('…');
        text
    }

    fn write(&self, out: &mut String, viewer: u64, levels: usize) {
        let begin = out.len();
        let separate = |out: &mut String| {
            if out.len() > begin {
                out.push_str(" | ");
            }
        };
        if let Some(object) = &self.object {
            object.write(out, viewer, levels);
        }
        if let Some(items) = &self.list {
            separate(out);
            out.push_str("list");
            write_inner(items, out, "[", viewer, levels);
        }
        for scalar in &self.scalars {
            separate(out);
            out.push_str(match scalar {
                Scalar::Str => "str",
                Scalar::Int => "int",
                Scalar::Float => "float",
                Scalar::Bool => "bool",
                Scalar::Null => "None",
            });
        }
        if self.deep {
            separate(out);
            out.push_str("Any");
        }
    }
}

impl ObjectShape {
    fn write(&self, out: &mut String, viewer: u64, levels: usize) {
        let fields = match self {
            Self::Map(values) => {
                out.push_str("dict");
                return write_inner(values, out, "[str, ", viewer, levels);
            }
            Self::Record(fields) => fields,
        };
        let shown: Vec<_> = fields.iter().filter(|(_, field)| field.is_shown_to(viewer)).collect();
        if shown.is_empty() || levels == 0 {
            return out.push_str("dict");
        }
        if shown.len() >= MIN_CHANGING && fields.values().all(|field| field.optional) {
            let mut values = Shape::default();
            for (_, field) in &shown {
                values.merge(&field.shape);
            }
            out.push_str("dict");
            return write_inner(&values, out, "[str, ", viewer, levels);
        }
        out.push('{');
        for (place, (key, field)) in shown.into_iter().enumerate() {
            let (comma, mark) = (if place > 0 { ", " } else { "" }, if field.optional { "?" } else { "" });
            // Writing to a string cannot fail. Keys are names and need no escapes.
            let _ = write!(out, "{comma}\"{key}\"{mark}: ");
            field.shape.write(out, viewer, levels - 1);
        }
        out.push('}');
    }
}

impl Field {
    fn is_shown_to(&self, viewer: u64) -> bool {
        self.seen_by.len() >= SHOWN_FROM || self.seen_by.contains(&viewer)
    }
}

/// Writes the elements of a list or map, if there are any.
fn write_inner(shape: &Shape, out: &mut String, open: &str, viewer: u64, levels: usize) {
    if levels > 0 && *shape != Shape::default() {
        out.push_str(open);
        shape.write(out, viewer, levels - 1);
        out.push(']');
    }
}
