//! [`Splice`]: changes of [`OwnedParams`] that are written straight into an outgoing message; every byte that
//! no change touches is copied as it came.

use std::borrow::Cow;

use smallvec::SmallVec;
use vmcp_json::text;

use super::params::OwnedParams;
use super::read::{Entry, Level, Span};
use crate::message::meta::META;
use crate::message::params::ParamsError;

/// Changes of one object: the parameters, or the metadata in them. Each key is changed at most once. Keys are
/// constants of the protocol, which need no escapes.
#[derive(Debug)]
pub(crate) struct Splice<'a> {
    params: &'a OwnedParams,
    level: Level,
    /// New values of entries, by their place among all entries; `None` removes one.
    changed: SmallVec<[(usize, Option<Value<'a>>); 4]>,
    added: SmallVec<[(&'static str, Value<'a>); 4]>,
}

/// The new value of an entry.
#[derive(Debug)]
enum Value<'a> {
    /// JSON text.
    Text(Cow<'a, str>),
    /// A text that becomes a JSON string.
    Plain(&'a str),
    /// The metadata, with changes.
    Object(Box<Splice<'a>>),
}

impl OwnedParams {
    /// Returns the parameters with some keys changed: `None` removes a key. Values must be JSON, keys plain
    /// names of the protocol.
    pub fn with(&self, changes: &[(&'static str, Option<&str>)]) -> Result<Self, ParamsError> {
        let mut splice = Splice::of_params(self);
        for (key, value) in changes {
            match value {
                Some(value) => splice.set(key, *value),
                None => splice.remove(key),
            }
        }
        if splice.is_unchanged() { Ok(self.clone()) } else { splice.finish() }
    }
}

impl<'a> Splice<'a> {
    pub(crate) fn of_params(params: &'a OwnedParams) -> Self {
        Self::new(params, Level::Params)
    }

    pub(crate) fn of_meta(params: &'a OwnedParams) -> Self {
        Self::new(params, Level::Meta)
    }

    fn new(params: &'a OwnedParams, level: Level) -> Self {
        Self { params, level, changed: SmallVec::new(), added: SmallVec::new() }
    }

    /// Gives `key` a value, which must be one JSON value: in place if the key exists, else at the end.
    pub(crate) fn set(&mut self, key: &'static str, value: impl Into<Cow<'a, str>>) {
        let value = value.into();
        match self.params.find(self.level, key) {
            Some((_, entry)) if entry.value.of(&self.params.message) == value => {}
            Some((at, _)) => self.changed.push((at, Some(Value::Text(value)))),
            None => self.added.push((key, Value::Text(value))),
        }
    }

    /// Gives `key` a text, as a JSON string; a new entry takes no copy of it.
    pub(crate) fn set_string(&mut self, key: &'static str, value: &'a str) {
        if self.params.find(self.level, key).is_some() {
            self.set(key, text::quoted(value));
        } else {
            self.added.push((key, Value::Plain(value)));
        }
    }

    /// Removes `key`, if present, with the comma and the space in front of it.
    pub(crate) fn remove(&mut self, key: &str) {
        if let Some((at, _)) = self.params.find(self.level, key) {
            self.changed.push((at, None));
        }
    }

    /// Removes the entries whose keys `unwanted` names.
    pub(crate) fn remove_where(&mut self, unwanted: impl Fn(&str) -> bool) {
        let entries = self.params.keys.entries.iter().enumerate();
        for (at, _) in entries.filter(|(_, entry)| entry.level == self.level) {
            if self.params.key_at(at).is_some_and(|key| unwanted(&key)) {
                self.changed.push((at, None));
            }
        }
    }

    /// Puts changed metadata back. Metadata that have become empty are removed, and not added if absent.
    pub(crate) fn put_back(&mut self, meta: Splice<'a>) {
        let place = self.params.find(Level::Params, META);
        let is_null = place.is_some_and(|(_, entry)| entry.value.of(&self.params.message) == "null");
        match place {
            // The schema allows an object or nothing, and strict servers refuse `null`.
            Some((at, _)) if is_null => {
                self.changed.push((at, None));
                if !meta.added.is_empty() {
                    self.added.push((META, Value::Object(Box::new(meta))));
                }
            }
            _ if meta.is_unchanged() => {}
            Some((at, _)) if meta.is_empty() => self.changed.push((at, None)),
            Some((at, _)) => self.changed.push((at, Some(Value::Object(Box::new(meta))))),
            None => self.added.push((META, Value::Object(Box::new(meta)))),
        }
    }

    pub(crate) fn is_unchanged(&self) -> bool {
        self.changed.is_empty() && self.added.is_empty()
    }

    fn is_empty(&self) -> bool {
        let removed = self.changed.iter().filter(|(_, value)| value.is_none()).count();
        self.added.is_empty() && removed == self.params.entries(self.level).count()
    }

    /// Returns the changed parameters, read again.
    pub(crate) fn finish(&self) -> Result<OwnedParams, ParamsError> {
        let mut out = Vec::with_capacity(self.params.text().len() + 256);
        self.write_to(&mut out);
        // Only whole texts were put together, so this is UTF-8.
        OwnedParams::from_text(String::from_utf8(out).unwrap_or_default())
    }

    /// Writes the changed object.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        let text = &*self.params.message;
        let object = match self.level {
            Level::Params => self.params.span,
            Level::Meta => self.params.keys.meta.filter(|meta| meta.of(text).starts_with('{')),
        };
        let place = object.map_or(0..0, Span::range);
        let copy = |out: &mut Vec<u8>, from: usize, to: usize| {
            out.extend_from_slice(text.get(from..to).unwrap_or_default().as_bytes());
        };
        let entries = self.params.keys.entries.iter().enumerate();
        let mut entries = entries.filter(|(_, entry)| entry.level == self.level).peekable();
        let Some((_, first)) = entries.peek() else {
            out.push(b'{');
            self.write_added(out, true);
            match object {
                Some(_) => copy(out, place.start + 1, place.end),
                None => out.push(b'}'),
            }
            return;
        };
        copy(out, place.start, first.key.range().start);
        let (mut is_first, mut previous_end) = (true, None);
        for (at, entry) in entries {
            let Entry { key, value, .. } = entry;
            let change = self.changed.iter().find(|(changed, _)| *changed == at).map(|(_, change)| change);
            if !matches!(change, Some(None)) {
                // The separator goes with the entry behind it, so that removing the first entry leaves no
                // leading comma.
                let start = previous_end.filter(|_| !is_first).unwrap_or(key.range().start);
                match change {
                    Some(Some(new)) => {
                        copy(out, start, value.range().start);
                        new.write_to(out);
                    }
                    _ => copy(out, start, value.range().end),
                }
                is_first = false;
            }
            previous_end = Some(value.range().end);
        }
        self.write_added(out, is_first);
        copy(out, previous_end.unwrap_or(place.end), place.end);
    }

    fn write_added(&self, out: &mut Vec<u8>, mut is_first: bool) {
        for (key, value) in &self.added {
            out.extend_from_slice(if is_first { b"\"" } else { b",\"" });
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(b"\":");
            value.write_to(out);
            is_first = false;
        }
    }
}

impl Value<'_> {
    fn write_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => out.extend_from_slice(text.as_bytes()),
            Self::Plain(plain) => text::push_quoted(out, plain),
            Self::Object(splice) => splice.write_to(out),
        }
    }
}
