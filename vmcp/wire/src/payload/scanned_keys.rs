//! [`ScannedKeys`]: the places of the few keys that a gateway must know, as one pass over an answer finds
//! them.

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
        let mut keys = KEYS.iter();
        keys.find(|(level, text, _)| *level == depth && text.as_bytes() == name).map(|(_, _, key)| *key)
    }

    /// Returns the key as it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        KEYS.iter().find(|(_, _, key)| *key == self).map_or("", |(_, name, _)| name)
    }
}

/// The place of a value in the answer, and its first byte, which tells its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) first: u8,
}

/// The places of the keys' values in an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScannedKeys {
    spans: [Option<Span>; KEYS.len()],
    /// True where the result, and its metadata, have entries.
    entries: [bool; 2],
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
        self.span(key).map(|span| span.start..span.end)
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
        let [result, meta] = self.entries;
        if key == Key::Meta { meta } else { result }
    }

    pub(super) fn begin(&mut self, key: Key, span: Span) {
        if let Some(slot) = self.spans.get_mut(key as usize) {
            *slot = Some(span);
        }
    }

    pub(super) fn end(&mut self, key: Key, end: usize) {
        if let Some(Some(span)) = self.spans.get_mut(key as usize) {
            span.end = end;
        }
    }

    /// Records that the object `depth` levels deep has an entry.
    pub(super) fn note_entry(&mut self, depth: usize) {
        if let Some(noted) = depth.checked_sub(2).and_then(|level| self.entries.get_mut(level)) {
            *noted = true;
        }
    }

    fn span(&self, key: Key) -> Option<Span> {
        *self.spans.get(key as usize)?
    }
}
