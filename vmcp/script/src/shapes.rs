//! Observed shapes: types and keys of a tool's results, without their values, merged over many results.
//!
//! [`Shape::merge`] is the join of a semilattice: commutative, associative and idempotent, so that the order
//! and the number of results change nothing. Depth, keys of an object and length of a key are bounded by the
//! place of a value alone.
//!
//! A key is shown to the principals whose results had it, and to all once [`SHOWN_FROM`] principals had it: a
//! key that only one principal has met tells others nothing. An object with a key that looks like data
//! ([`keys`]) becomes a map without keys.

mod keys;
mod observe;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use observe::{content, parsed, text_of};

/// Principals whose results must have a key before all others may see it.
pub const SHOWN_FROM: usize = 3;
/// Most keys of an object by its level among objects, the outermost first; more make it a map. Objects below
/// the last level are not looked into.
const MAX_KEYS: [usize; 4] = [32, 24, 16, 12];

/// Types of the values in one place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Types of scalars.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    scalars: BTreeSet<Scalar>,
    /// The elements of all lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    list: Option<Box<Shape>>,
    /// All objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    object: Option<ObjectShape>,
    /// True if a value was nested too deep to be looked into.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    deep: bool,
}

/// Types of scalars, in the order in which they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scalar {
    Str,
    Int,
    Float,
    Bool,
    Null,
}

/// The objects in one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ObjectShape {
    /// Keys that are names.
    Record(BTreeMap<String, Field>),
    /// Keys that are data; the values of all keys.
    Map(Box<Shape>),
}

/// A key of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Field {
    shape: Shape,
    /// True if an object did not have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    optional: bool,
    /// Principals whose results had it, as digests: the [`SHOWN_FROM`] smallest.
    seen_by: BTreeSet<u64>,
}

impl Shape {
    /// Joins another shape into this one.
    pub fn merge(&mut self, other: &Shape) {
        self.merge_at(other, 0);
    }

    /// `level`: number of objects around this place.
    fn merge_at(&mut self, other: &Shape, level: usize) {
        self.scalars.extend(&other.scalars);
        self.deep |= other.deep;
        if let Some(list) = &other.list {
            self.list.get_or_insert_default().merge_at(list, level);
        }
        match (&mut self.object, &other.object) {
            (Some(object), Some(other)) => object.merge_at(other, level),
            (none @ None, Some(other)) => *none = Some(other.clone()),
            (_, None) => {}
        }
    }

    /// Returns the number of places in this shape: a measure of its memory.
    pub fn places(&self) -> usize {
        let list = self.list.as_ref().map_or(0, |list| list.places());
        let object = match &self.object {
            None => 0,
            Some(ObjectShape::Record(fields)) => fields.values().map(|field| field.shape.places()).sum(),
            Some(ObjectShape::Map(values)) => values.places(),
        };
        1 + list + object
    }
}

impl ObjectShape {
    fn merge_at(&mut self, other: &ObjectShape, level: usize) {
        match (&mut *self, other) {
            (Self::Map(values), Self::Map(other)) => values.merge_at(other, level + 1),
            (Self::Map(values), Self::Record(fields)) => {
                for field in fields.values() {
                    values.merge_at(&field.shape, level + 1);
                }
            }
            (Self::Record(_), Self::Map(_)) => {
                self.fold(level);
                self.merge_at(other, level);
            }
            (Self::Record(fields), Self::Record(others)) => {
                for (key, field) in &mut *fields {
                    field.optional |= !others.contains_key(key);
                }
                for (key, other) in others {
                    match fields.get_mut(key) {
                        Some(field) => field.merge_at(other, level),
                        None => _ = fields.insert(key.clone(), Field { optional: true, ..other.clone() }),
                    }
                }
                if fields.len() > max_keys(level) {
                    self.fold(level);
                }
            }
        }
    }

    /// Turns a record into a map.
    fn fold(&mut self, level: usize) {
        if let Self::Record(fields) = self {
            let mut values = Shape::default();
            for field in fields.values() {
                values.merge_at(&field.shape, level + 1);
            }
            *self = Self::Map(Box::new(values));
        }
    }
}

impl Field {
    fn merge_at(&mut self, other: &Field, level: usize) {
        self.shape.merge_at(&other.shape, level + 1);
        self.optional |= other.optional;
        self.seen_by.extend(&other.seen_by);
        while self.seen_by.len() > SHOWN_FROM {
            self.seen_by.pop_last();
        }
    }
}

/// Returns the most keys of an object at a level.
fn max_keys(level: usize) -> usize {
    MAX_KEYS.get(level).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
