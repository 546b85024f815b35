//! [`ShapeBook`]: all observed shapes in memory. Immutable and swapped whole, so that requests read it
//! without a lock.

use std::collections::HashMap;
use std::sync::Arc;

use vmcp_model::hash::SchemaHash;
use vmcp_script::shapes::Shape;

/// Most shapes; of more, the shapes with the oldest observation go.
const MAX_SHAPES: usize = 4096;
/// Most places of all shapes, about 100 bytes each; beyond, the shapes with the oldest observation go.
const MAX_PLACES: usize = 200_000;
/// Most places of one shape; a tool with more is too irregular to be shown, and is learned no further.
pub(super) const MAX_PLACES_OF_TOOL: usize = 2000;

/// The shapes of one backend's tools, by the hashes of their definitions.
type Shapes = HashMap<SchemaHash, Arc<ObservedShape>>;

/// All shapes, by backend and hash. A clone shares them.
#[derive(Debug, Clone, Default)]
pub(super) struct ShapeBook(HashMap<Box<str>, Arc<Shapes>>);

/// The shape of one tool's results.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ObservedShape {
    /// The tool's own name at its backend.
    pub(super) tool: String,
    /// Results that were observed.
    pub(super) calls: u64,
    /// Results that were looked at, also the ones without a shape. The sample is chosen by it, so that a tool
    /// without a shape is sampled like any other. The database has no such number: it begins at `calls`.
    pub(super) looked_at: u64,
    /// Empty for a tool that is too irregular.
    pub(super) shape: Shape,
    /// Time of the last observation, in milliseconds since the Unix epoch.
    pub(super) last_at: i64,
}

impl ObservedShape {
    /// True if its results differ too much to be described.
    pub(super) fn is_irregular(&self) -> bool {
        self.calls > 0 && self.shape == Shape::default()
    }

    /// Takes in the shape of one more result; `None`: the result has no shape.
    pub(super) fn observe(&mut self, shape: Option<&Shape>, at: i64) {
        self.last_at = at;
        self.looked_at = self.looked_at.saturating_add(1);
        let Some(shape) = shape else { return };
        if !self.is_irregular() {
            self.shape.merge(shape);
            if self.shape.places() > MAX_PLACES_OF_TOOL {
                self.shape = Shape::default();
            }
        }
        self.calls = self.calls.saturating_add(1);
    }
}

impl ShapeBook {
    /// Returns the shape of the tool with this hash.
    pub(super) fn get(&self, backend: &str, hash: &SchemaHash) -> Option<&Arc<ObservedShape>> {
        self.0.get(backend)?.get(hash)
    }

    /// Replaces the shape of one tool.
    pub(super) fn put(&mut self, backend: &str, hash: SchemaHash, observed: ObservedShape) {
        let shapes = self.0.entry(backend.into()).or_default();
        Arc::make_mut(shapes).insert(hash, Arc::new(observed));
    }

    /// Removes the shapes that were observed longest ago, until the rest is within the bounds; returns them.
    pub(super) fn prune(&mut self) -> Vec<(String, SchemaHash)> {
        let shapes = || self.0.values().flat_map(|shapes| shapes.values());
        let mut left: usize = self.0.values().map(|shapes| shapes.len()).sum();
        let mut places: usize = shapes().map(|observed| observed.shape.places()).sum();
        if left <= MAX_SHAPES && places <= MAX_PLACES {
            return Vec::new();
        }
        let all = self.0.iter().map(|(backend, shapes)| (&**backend, shapes));
        let of_backend = |(backend, shapes): (&str, &Arc<Shapes>)| {
            let entry = |(hash, observed): (&SchemaHash, &Arc<ObservedShape>)| {
                (observed.last_at, observed.shape.places(), backend.to_string(), *hash)
            };
            shapes.iter().map(entry).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = all.flat_map(of_backend).collect();
        all.sort_unstable();
        let mut removed = Vec::new();
        for (_, its_places, backend, hash) in all {
            if left <= MAX_SHAPES && places <= MAX_PLACES {
                break;
            }
            left -= 1;
            places -= its_places;
            if let Some(shapes) = self.0.get_mut(backend.as_str()) {
                Arc::make_mut(shapes).remove(&hash);
            }
            removed.push((backend, hash));
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_book_is_bounded_and_the_oldest_shapes_go() {
        let mut book = ShapeBook::default();
        let hash = |number: usize| SchemaHash::of(&number.to_string(), "", "");
        for number in 0..MAX_SHAPES + 2 {
            let last_at = i64::try_from(number).unwrap();
            book.put("s", hash(number), ObservedShape { last_at, ..ObservedShape::default() });
        }
        assert_eq!(book.prune().len(), 2);
        assert!(book.get("s", &hash(1)).is_none() && book.get("s", &hash(2)).is_some());
        assert!(book.prune().is_empty());
    }

    #[test]
    fn an_irregular_tool_is_learned_no_further() {
        let letters = || ('a'..='y').map(|letter| format!("key_{letter}"));
        let inner: serde_json::Map<_, _> = letters().take(15).map(|key| (key, json!(1))).collect();
        let middle: serde_json::Map<_, _> = letters().take(20).map(|key| (key, json!(inner))).collect();
        let outer: serde_json::Map<_, _> = letters().map(|key| (key, json!([middle]))).collect();
        let mut observed = ObservedShape::default();
        observed.observe(Some(&Shape::of(&json!(middle), 1)), 1);
        assert!(!observed.is_irregular());
        observed.observe(Some(&Shape::of(&json!(outer), 1)), 2);
        assert!(observed.is_irregular());
        observed.observe(Some(&Shape::of(&json!({ "a": 1 }), 1)), 3);
        assert!(observed.is_irregular() && observed.calls == 3);
    }

    #[test]
    fn a_result_without_a_shape_counts_as_looked_at() {
        let mut observed = ObservedShape::default();
        observed.observe(None, 1);
        assert_eq!((observed.looked_at, observed.calls, observed.last_at), (1, 0, 1));
        observed.observe(Some(&Shape::of(&json!([1]), 1)), 2);
        assert_eq!((observed.looked_at, observed.calls), (2, 1));
        assert!(!observed.is_irregular());
    }
}
