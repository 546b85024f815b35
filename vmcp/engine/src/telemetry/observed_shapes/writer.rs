//! The thread that learns shapes: takes results out of the queue, merges their shapes, and publishes and
//! stores the changed ones.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use serde_json::Value;
use vmcp_model::hash::SchemaHash;
use vmcp_script::shapes::{self, Shape};
use vmcp_store::{StateStore, StoreError, StoredShape};

use super::book::{ObservedShape, ShapeBook};
use super::{Entry, QUEUE_CAPACITY, SharedBook};
use crate::random::now_ms;

/// Runs until the owner of the queue is dropped.
pub(super) fn run(dir: Option<&Path>, entries: &Receiver<Entry>, book: &SharedBook) {
    let opened = StateStore::open_or_in_memory(
        dir,
        "observed shapes are kept in memory only",
        "no shapes are learned",
    );
    let Some(store) = opened else { return };
    load(&store, book);
    while let Ok(first) = entries.recv() {
        let (mut changed, mut answers) = (BTreeMap::new(), Vec::new());
        for entry in std::iter::once(first).chain(entries.try_iter().take(QUEUE_CAPACITY)) {
            match entry {
                Entry::Result { tool, principal, text } => {
                    let mut result: Value = serde_json::from_slice(&text).unwrap_or_default();
                    let shape = shapes::content(&mut result).map(|value| Shape::of(&value, principal));
                    let key = (Arc::clone(&tool.backend), tool.hash);
                    let known = || match book.load().get(&tool.backend, &tool.hash) {
                        Some(known) => ObservedShape::clone(known),
                        None => {
                            ObservedShape { tool: tool.definition.name.clone(), ..ObservedShape::default() }
                        }
                    };
                    let observed: &mut ObservedShape = changed.entry(key).or_insert_with(known);
                    observed.observe(shape.as_ref(), now_ms());
                }
                Entry::Flush(answer) => answers.push(answer),
            }
        }
        publish(&store, book, changed);
        for answer in answers {
            // The caller may have gone.
            let _ = answer.send(());
        }
    }
}

/// Publishes what the database has. A shape that cannot be read is left out, and learned again.
fn load(store: &StateStore, book: &SharedBook) {
    let stored = store.all_shapes().unwrap_or_else(|error| {
        tracing::warn!(%error, "observed shapes could not be read");
        Vec::new()
    });
    let mut loaded = ShapeBook::default();
    for StoredShape { backend, hash, tool, calls, shape, last_at } in stored {
        if let (Ok(hash), Ok(shape)) = (hash.parse(), serde_json::from_str(&shape)) {
            loaded.put(&backend, hash, ObservedShape { tool, calls, looked_at: calls, shape, last_at });
        }
    }
    book.store(Arc::new(loaded));
}

/// Puts the shapes into the book, and stores the shapes that differ, or whose number of calls has doubled:
/// most calls of a known tool write nothing to the disk. Tools without a shape stay in memory.
fn publish(store: &StateStore, book: &SharedBook, changed: BTreeMap<(Arc<str>, SchemaHash), ObservedShape>) {
    if changed.is_empty() {
        return;
    }
    let mut next = ShapeBook::clone(&book.load());
    let mut rows = Vec::new();
    for ((backend, hash), observed) in changed {
        let known = next.get(&backend, &hash);
        let is_news = known.is_none_or(|known| {
            known.shape != observed.shape || known.calls.checked_ilog2() != observed.calls.checked_ilog2()
        });
        if is_news && observed.calls > 0 {
            rows.extend(stored(&backend, &hash, &observed));
        }
        next.put(&backend, hash, observed);
    }
    let removed = next.prune();
    let removed: Vec<_> = removed.into_iter().map(|(backend, hash)| (backend, hash.to_string())).collect();
    write(|| if rows.is_empty() { Ok(()) } else { store.put_shapes(&rows) });
    write(|| if removed.is_empty() { Ok(()) } else { store.delete_shapes(&removed) });
    book.store(Arc::new(next));
}

fn stored(backend: &str, hash: &SchemaHash, observed: &ObservedShape) -> Option<StoredShape> {
    Some(StoredShape {
        backend: backend.to_owned(),
        hash: hash.to_string(),
        tool: observed.tool.clone(),
        calls: observed.calls,
        shape: serde_json::to_string(&observed.shape).ok()?,
        last_at: observed.last_at,
    })
}

/// Writes to the database; a failure is logged, and the shapes stay in memory.
fn write(work: impl FnOnce() -> Result<(), StoreError>) {
    if let Err(error) = work() {
        tracing::warn!(%error, "observed shapes could not be written; they are in memory only");
    }
}
