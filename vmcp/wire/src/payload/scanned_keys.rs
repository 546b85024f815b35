//! [`ScannedKeys`]: the places of the keys that a gateway needs, found in one pass over an answer.

use std::ops::Range;

use crate::message::meta;
use crate::message::{
    keys::CACHE_SCOPE, keys::REQUEST_STATE, keys::RESULT_TYPE, keys::STRUCTURED_CONTENT, keys::TTL_MS,
};

/// The keys of an answer that a gateway must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// `jsonrpc` of the envelope.
    Version,
    /// `id` of the envelope.
    Id,
    /// `method` of the envelope; an answer has none.
    Method,
    /// `result` of the envelope.
    Result,
    /// `error` of the envelope.
    Error,
    /// `resultType` of the result.
    ResultType,
    /// `isError` of the result.
    IsError,
    /// `requestState` of the result.
    RequestState,
    /// `ttlMs` of the result.
    TtlMs,
    /// `cacheScope` of the result.
    CacheScope,
    /// `structuredContent` of the result.
    StructuredContent,
    /// `_meta` of the result.
    Meta,
    /// The server's introduction in `_meta`.
    ServerInfo,
    /// The subscription in `_meta`.
    SubscriptionId,
}

const KEYS: [(usize, &str, Key); 14] = [
    (1, "jsonrpc", Key::Version),
    (1, "id", Key::Id),
    (1, "method", Key::Method),
    (1, "result", Key::Result),
    (1, "error", Key::Error),
    (2, RESULT_TYPE, Key::ResultType),
    (2, "isError", Key::IsError),
    (2, REQUEST_STATE, Key::RequestState),
    (2, TTL_MS, Key::TtlMs),
    (2, CACHE_SCOPE, Key::CacheScope),
    (2, STRUCTURED_CONTENT, Key::StructuredContent),
    (2, meta::META, Key::Meta),
    (3, meta::SERVER_INFO, Key::ServerInfo),
    (3, meta::SUBSCRIPTION_ID, Key::SubscriptionId),
];

impl Key {
    /// Returns the key called `name` in an object `depth` levels deep; the envelope is level 1.
    pub(super) fn at(depth: usize, name: &[u8]) -> Option<Self> {
        // The length tells most names apart, without a call that compares.
        let mut keys = KEYS.iter().filter(|(level, text, _)| *level == depth && text.len() == name.len());
        keys.find(|(_, text, _)| text.as_bytes() == name).map(|(_, _, key)| *key)
    }

    /// Returns the key as it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        KEYS.iter().find(|(_, _, key)| *key == self).map_or("", |(_, name, _)| name)
    }
}

/// The place of an entry in the answer. Offsets fit: an answer has less than 4 GiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Span {
    /// Begin of the entry with its comma: the end of the entry in front. Equal to `key` for the first entry.
    pub(super) separator: u32,
    /// The key's first quote.
    pub(super) key: u32,
    pub(super) start: u32,
    pub(super) end: u32,
    /// The next entry's key; 0 without one.
    pub(super) next: u32,
    /// The value's first byte, which tells its kind; 0 if the answer does not have the key.
    pub(super) first: u8,
}

/// The places of the keys' values in an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScannedKeys {
    /// Boxed: an answer is moved dozens of times on its way to the client, and these are most of its bytes.
    spans: Box<[Span; KEYS.len()]>,
    /// The ends of the last entries of the result and of its metadata; 0 without one.
    last_ends: [u32; 2],
    /// True where the result, and its metadata, have an entry beside the known keys.
    others: [bool; 2],
}

/// The parts of an entry that a removal cuts out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntryPlace {
    /// Begin of the entry with its comma; equal to `key` for the first entry.
    pub(crate) separator: usize,
    /// The key's first quote.
    pub(crate) key: usize,
    /// The value.
    pub(crate) value: Range<usize>,
    /// The next entry's key.
    pub(crate) next: Option<usize>,
}

impl ScannedKeys {
    /// True if the answer has the key.
    #[must_use]
    pub fn has(&self, key: Key) -> bool {
        self.span(key).is_some()
    }

    /// Returns the place of the key's value.
    #[must_use]
    pub fn range(&self, key: Key) -> Option<Range<usize>> {
        self.span(key).map(|span| span.start as usize..span.end as usize)
    }

    /// True if the key's value is an object.
    #[must_use]
    pub fn is_object(&self, key: Key) -> bool {
        self.span(key).is_some_and(|span| span.first == b'{')
    }

    /// True if the key's value is `true`.
    #[must_use]
    pub fn is_true(&self, key: Key) -> bool {
        self.span(key).is_some_and(|span| span.first == b't')
    }

    /// True if the object at `key`, the result or its metadata, has entries.
    #[must_use]
    pub fn has_entries(&self, key: Key) -> bool {
        let [result, meta] = self.last_ends;
        if key == Key::Meta { meta != 0 } else { result != 0 }
    }

    /// True if the object at `key`, the result or its metadata, has an entry beside the known keys.
    pub(crate) fn has_others(&self, key: Key) -> bool {
        let [result, meta] = self.others;
        if key == Key::Meta { meta } else { result }
    }

    /// Returns the place of the key's entry. The value is empty while it is being read.
    pub(crate) fn place(&self, key: Key) -> Option<EntryPlace> {
        let span = self.span(key)?;
        Some(EntryPlace {
            separator: span.separator as usize,
            key: span.key as usize,
            value: span.start as usize..span.end as usize,
            next: (span.next != 0).then_some(span.next as usize),
        })
    }

    pub(super) fn begin(&mut self, key: Key, span: Span) {
        if let Some(slot) = self.spans.get_mut(key as usize) {
            *slot = span;
        }
    }

    pub(super) fn end(&mut self, key: Key, end: u32) {
        if let Some(span) = self.spans.get_mut(key as usize) {
            span.end = end;
        }
    }

    /// Records where the entry behind that of `key` begins.
    pub(super) fn note_next(&mut self, key: Key, next: u32) {
        if let Some(span) = self.spans.get_mut(key as usize) {
            span.next = next;
        }
    }

    /// Records the end of an entry of the object `depth` levels deep.
    pub(super) fn note_end(&mut self, depth: usize, end: u32) {
        if let Some(noted) = depth.checked_sub(2).and_then(|level| self.last_ends.get_mut(level)) {
            *noted = end;
        }
    }

    /// Records that the object `depth` levels deep has an entry beside the known keys.
    pub(super) fn note_other(&mut self, depth: usize) {
        if let Some(noted) = depth.checked_sub(2).and_then(|level| self.others.get_mut(level)) {
            *noted = true;
        }
    }

    fn span(&self, key: Key) -> Option<&Span> {
        self.spans.get(key as usize).filter(|span| span.first != 0)
    }
}
