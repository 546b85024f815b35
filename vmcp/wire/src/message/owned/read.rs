//! Reads an envelope, its `params` and their `_meta` in one pass, as offsets into the text.

use std::borrow::Cow;

use serde_json::value::RawValue;
use smallvec::SmallVec;
use vmcp_json::object::{Object, ObjectError};
use vmcp_json::reader::{Reader, Unexpected};
use vmcp_json::text;

use crate::message::letter_case;
use crate::message::meta::META;
use crate::message::methods;
use crate::message::params::ParamsError;
use crate::message::subject;

/// A part of the text. A message has less than 4 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

/// The object that an entry belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Params,
    Meta,
}

/// One entry of `params` or of `_meta`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) level: Level,
    /// The key, quotes included.
    pub(crate) key: Span,
    /// True if the key is written with escapes.
    pub(crate) is_escaped: bool,
    pub(crate) value: Span,
}

impl Entry {
    /// True if the key means `name`.
    pub(crate) fn is(&self, text: &str, name: &str) -> bool {
        if self.is_escaped {
            return text::unquoted(self.key.of(text)).is_some_and(|key| key == name);
        }
        let inside = self.key.unquoted().range();
        // Most keys differ in their length.
        inside.len() == name.len() && text.as_bytes().get(inside) == Some(name.as_bytes())
    }
}

/// The entries of `params` and of the `_meta` in them, in the order in which they end.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// Eight entries need no allocation: a modern call has seven.
    pub(crate) entries: SmallVec<[Entry; 8]>,
    /// Levels of nesting; 1 for `{}`.
    pub(crate) depth: usize,
    /// `_meta`, if there is one.
    pub(crate) meta: Option<Span>,
}

/// The parts of an envelope that were found; values may be of any kind.
#[derive(Debug, Default)]
pub(super) struct Envelope {
    pub(super) version: Option<Span>,
    pub(super) id: Option<Span>,
    pub(super) method: Option<Span>,
    /// `None` for `null`, too: several clients write it.
    pub(super) params: Option<Span>,
    pub(super) result: Option<Span>,
    pub(super) error: Option<Span>,
    pub(super) keys: Keys,
}

impl Span {
    fn new(range: std::ops::Range<usize>) -> Result<Self, Unexpected> {
        let offset = |at| u32::try_from(at).map_err(|_| Unexpected(at));
        Ok(Self { start: offset(range.start)?, end: offset(range.end)? })
    }

    pub(crate) fn of(self, text: &str) -> &str {
        text.get(self.range()).unwrap_or_default()
    }

    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns the inside of a string.
    pub(super) fn unquoted(self) -> Self {
        Self { start: self.start + 1, end: self.end.saturating_sub(1) }
    }

    /// Returns a copy of a value that the reader has checked.
    pub(super) fn raw(self, text: &str) -> Box<RawValue> {
        RawValue::from_string(self.of(text).to_owned()).unwrap_or_default()
    }
}

impl Envelope {
    /// Reads the text of one object. Fails for a repeated key of the envelope, too.
    pub(super) fn read(text: &str) -> Result<Self, Unexpected> {
        let mut reader = Reader::new(text.as_bytes());
        let mut found = Self::default();
        let mut has_params = false;
        reader.open_object()?;
        while let Some(key) = reader.next_key()? {
            let at = key.start;
            let name = text.get(key).unwrap_or_default();
            let name = text::unquoted(name).ok_or(Unexpected(at))?;
            let slot = match name.as_ref() {
                "jsonrpc" => &mut found.version,
                "id" => &mut found.id,
                "method" => &mut found.method,
                "result" => &mut found.result,
                "error" => &mut found.error,
                "params" => {
                    if std::mem::replace(&mut has_params, true) {
                        return Err(Unexpected(at));
                    }
                    found.params = found.keys.read(&mut reader, text)?;
                    continue;
                }
                _ => {
                    reader.value()?;
                    continue;
                }
            };
            if slot.is_some() {
                return Err(Unexpected(at));
            }
            *slot = Some(Span::new(reader.value()?.span)?);
        }
        reader.finish()?;
        Ok(found)
    }
}

impl Keys {
    /// Reads the value of `params`; `None` for `null`.
    pub(super) fn read(&mut self, reader: &mut Reader<'_>, text: &str) -> Result<Option<Span>, Unexpected> {
        match reader.peek() {
            Some(b'{') => self.object(reader, text, Level::Params).map(Some),
            Some(b'n') => reader.value().map(|_| None),
            _ => Span::new(reader.value()?.span).map(Some),
        }
    }

    fn object(&mut self, reader: &mut Reader<'_>, text: &str, level: Level) -> Result<Span, Unexpected> {
        let start = reader.open_object()?;
        let own_depth = if level == Level::Params { 1 } else { 2 };
        self.depth = self.depth.max(own_depth);
        while let Some(key) = reader.next_key()? {
            let key = Span::new(key)?;
            let is_escaped = memchr::memchr(b'\\', key.of(text).as_bytes()).is_some();
            let mut entry = Entry { level, key, is_escaped, value: key };
            let is_meta = level == Level::Params && entry.is(text, META);
            let value = if is_meta && self.meta.is_none() && reader.peek() == Some(b'{') {
                self.object(reader, text, Level::Meta)?
            } else {
                let value = reader.value()?;
                self.depth = self.depth.max(own_depth + value.depth);
                Span::new(value.span)?
            };
            if is_meta {
                self.meta = Some(value);
            }
            entry.value = value;
            self.entries.push(entry);
        }
        Span::new(start..reader.offset())
    }

    /// Checks the keys: each must be valid Unicode, and occur once in its object.
    pub(super) fn check(&self, text: &str) -> Result<(), ParamsError> {
        self.check_level(text, Level::Params).map_err(ParamsError::Params)?;
        if self.meta.is_some_and(|meta| !matches!(meta.of(text).as_bytes(), [b'{', ..] | b"null")) {
            return Err(ParamsError::Meta(ObjectError::NotAnObject));
        }
        self.check_level(text, Level::Meta).map_err(ParamsError::Meta)
    }

    /// Returns a reserved key in another letter case, as written and as reserved. Only requests that name a
    /// subject count: backends answer these, by a name that policies have judged.
    pub(super) fn misspelled(&self, text: &str, method: &str) -> Option<(String, &'static str)> {
        let completes = method == methods::COMPLETE;
        if !completes && subject::key(method).is_none() {
            return None;
        }
        self.entries.iter().find_map(|entry| {
            let reserved: &[_] = match entry.level {
                Level::Params if completes => &letter_case::COMPLETION,
                Level::Params => &letter_case::PARAMS,
                Level::Meta => &letter_case::META,
            };
            let name = if entry.is_escaped {
                text::unquoted(entry.key.of(text)).unwrap_or_default()
            } else {
                Cow::Borrowed(entry.key.unquoted().of(text))
            };
            if let Some(key) = letter_case::misspelled(&name, reserved) {
                return Some((name.into_owned(), key));
            }
            if !completes || entry.level != Level::Params || name == META {
                return None;
            }
            let members = Object::parse_valid(entry.value.of(text)).ok()?;
            members.keys().find_map(|name| {
                let key = letter_case::misspelled(name, &letter_case::COMPLETION_MEMBERS)?;
                Some((name.to_owned(), key))
            })
        })
    }

    fn check_level(&self, text: &str, level: Level) -> Result<(), ObjectError> {
        let keys = self.entries.iter().filter(|entry| entry.level == level).map(|entry| entry.key.of(text));
        vmcp_json::object::check_keys(keys)
    }
}
