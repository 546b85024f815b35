//! [`Edit`]: sets, removes and renames a few keys of an object; every byte that no change touches is written
//! as it came.

use super::{Entry, Object};
use crate::json_rope::JsonRope;
use crate::text;

/// A set of changes to an [`Object`]. The last change of a key wins.
///
/// ```
/// use vmcp_json::object::Object;
///
/// let object = Object::parse_str(r#"{"name":"a", "x" : 1e400}"#)?;
/// let mut edit = object.edit();
/// edit.set("name", r#""b""#).set("new", "[]").remove("absent");
/// assert_eq!(edit.finish().into_cow(), r#"{"name":"b", "x" : 1e400,"new":[]}"#);
/// # Ok::<(), vmcp_json::object::ObjectError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Edit<'o, 'a> {
    object: &'o Object<'a>,
    /// One slot for each entry of the object; empty while no entry has changed, so an unchanged edit
    /// allocates nothing.
    slots: Vec<Slot<'a>>,
    added: Vec<(String, JsonRope<'a>)>,
}

/// The changes of one entry.
#[derive(Debug, Clone, Default)]
struct Slot<'a> {
    removed: bool,
    key: Option<String>,
    value: Option<JsonRope<'a>>,
}

impl<'o, 'a> Edit<'o, 'a> {
    pub(super) fn new(object: &'o Object<'a>) -> Self {
        Self { object, slots: Vec::new(), added: Vec::new() }
    }

    /// Gives `key` a value, which must be one JSON value: in place if the key exists, else at the end.
    pub fn set(&mut self, key: &str, value: impl Into<JsonRope<'a>>) -> &mut Self {
        let value = value.into();
        if let Some(at) = self.position(key) {
            let unchanged = self.object.entries.get(at).is_some_and(|entry| value.is(entry.value));
            if !unchanged || !self.slots.is_empty() {
                self.slot(at, |slot| slot.value = (!unchanged).then_some(value));
            }
        } else if let Some((_, present)) = self.added.iter_mut().find(|(added, _)| added == key) {
            *present = value;
        } else {
            self.added.push((key.to_owned(), value));
        }
        self
    }

    /// Gives `key` a value unless it has one.
    pub fn set_if_absent(&mut self, key: &str, value: impl Into<JsonRope<'a>>) -> &mut Self {
        if !self.has(key) {
            self.set(key, value);
        }
        self
    }

    /// Removes `key`, if present, with the comma and the space in front of it.
    pub fn remove(&mut self, key: &str) -> &mut Self {
        if let Some(at) = self.position(key) {
            self.slot(at, |slot| slot.removed = true);
        }
        self.added.retain(|(added, _)| added != key);
        self
    }

    /// Renames a key in place, if present; an entry that already has the new name is removed.
    pub fn rename(&mut self, from: &str, to: &str) -> &mut Self {
        if from == to || !self.has(from) {
            return self;
        }
        self.remove(to);
        if let Some(at) = self.position(from) {
            self.slot(at, |slot| slot.key = Some(to.to_owned()));
        } else if let Some((added, _)) = self.added.iter_mut().find(|(added, _)| added == from) {
            to.clone_into(added);
        }
        self
    }

    /// True if the edited object will have `key`.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.position(key).is_some() || self.added.iter().any(|(added, _)| added == key)
    }

    /// True if nothing has been changed so far.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.slots.is_empty() && self.added.is_empty()
    }

    /// True if the edited object will have no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let removed = self.slots.iter().filter(|slot| slot.removed).count();
        self.added.is_empty() && removed == self.object.len()
    }

    /// Writes the edited object: a single borrowed slice if nothing was changed.
    #[must_use]
    pub fn finish(self) -> JsonRope<'a> {
        if self.is_unchanged() {
            return JsonRope::from(self.object.raw);
        }
        let mut writer = Writer { raw: self.object.raw, out: JsonRope::default(), pending: 0..0 };
        let entries = &self.object.entries;
        // The text up to the first key, and the text behind the last value; for an object without entries,
        // `{` and the rest.
        let head = entries.first().map_or(1, |entry| entry.key_span.start);
        let tail = entries.last().map_or(1, |entry| entry.value_span.end);
        writer.copy(0, head);
        let mut slots = self.slots.into_iter();
        let mut separator_start = None;
        let mut first = true;
        for entry in entries {
            let slot = slots.next().unwrap_or_default();
            if !slot.removed {
                // The separator goes with the entry behind it, so removing the first entry leaves no leading
                // comma.
                if let (false, Some(start)) = (first, separator_start) {
                    writer.copy(start, entry.key_span.start);
                }
                writer.entry(entry, slot);
                first = false;
            }
            separator_start = Some(entry.value_span.end);
        }
        for (key, value) in self.added {
            let comma = if first { "" } else { "," };
            writer.insert(JsonRope::from(format!("{comma}{}:", text::quoted(&key))));
            writer.insert(value);
            first = false;
        }
        writer.copy(tail, self.object.raw.len());
        writer.finish()
    }

    /// Returns the position of the entry that is called `key` after the changes so far.
    fn position(&self, key: &str) -> Option<usize> {
        if self.slots.is_empty() {
            return self.object.entries.iter().position(|entry| entry.key == key);
        }
        let mut slots = self.object.entries.iter().zip(&self.slots);
        slots.position(|(entry, slot)| !slot.removed && slot.key.as_deref().unwrap_or(&entry.key) == key)
    }

    fn slot(&mut self, at: usize, change: impl FnOnce(&mut Slot<'a>)) {
        self.slots.resize(self.object.len(), Slot::default());
        if let Some(slot) = self.slots.get_mut(at) {
            change(slot);
        }
    }
}

/// Writes the result, joining adjacent slices of the original so that a large untouched stretch stays one
/// piece.
struct Writer<'a> {
    raw: &'a str,
    out: JsonRope<'a>,
    pending: std::ops::Range<usize>,
}

impl<'a> Writer<'a> {
    fn copy(&mut self, start: usize, end: usize) {
        if start != self.pending.end {
            self.flush();
            self.pending.start = start;
        }
        self.pending.end = end;
    }

    fn entry(&mut self, entry: &Entry<'a>, slot: Slot<'a>) {
        match slot.key {
            None => self.copy(entry.key_span.start, entry.key_span.end),
            Some(key) => self.insert(JsonRope::from(text::quoted(&key))),
        }
        self.copy(entry.key_span.end, entry.value_span.start);
        match slot.value {
            None => self.copy(entry.value_span.start, entry.value_span.end),
            Some(value) => self.insert(value),
        }
    }

    fn insert(&mut self, value: JsonRope<'a>) {
        self.flush();
        self.out.append(value);
    }

    fn flush(&mut self) {
        self.out.push(self.raw.get(self.pending.clone()).unwrap_or_default());
        self.pending.start = self.pending.end;
    }

    fn finish(mut self) -> JsonRope<'a> {
        self.flush();
        self.out
    }
}
