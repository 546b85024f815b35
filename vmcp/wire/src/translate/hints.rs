//! [`Hints`]: how long, and by which caches, a modern result may be kept.

use std::fmt::Write;

use vmcp_json::object::Edit;

use crate::message::{keys::CACHE_SCOPE, keys::RESULT_TYPE, keys::TTL_MS};
use crate::message::{meta, methods};

/// The cache hints of a modern result. The default allows no caching, which is right for every result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hints {
    /// The time for which the result may be cached, in milliseconds.
    pub ttl_ms: u64,
    /// The clients that may share it.
    pub scope: Scope,
}

/// The clients that may share a cached result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// Clients of the authorization context that asked.
    #[default]
    Private,
    /// All clients.
    Public,
}

impl Scope {
    /// Returns the word, as it travels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Public => "public",
        }
    }
}

impl Hints {
    /// Adds the hints that `method` requires and that are missing.
    pub(super) fn complete(self, method: &str, edit: &mut Edit<'_, '_>) {
        if methods::is_cacheable(method) {
            edit.set_if_absent(TTL_MS, self.ttl_ms.to_string());
            edit.set_if_absent(CACHE_SCOPE, format!("\"{}\"", self.scope.as_str()));
        }
    }

    /// Writes the end of a complete cacheable result that vmcp authors, from the comma behind its last entry.
    pub(crate) fn write_complete(self, out: &mut String, server_info: Option<&str>) {
        let (ttl, scope) = (self.ttl_ms, self.scope.as_str());
        // Writing to a `String` cannot fail.
        _ = write!(out, ",\"{RESULT_TYPE}\":\"complete\",\"{TTL_MS}\":{ttl},\"{CACHE_SCOPE}\":\"{scope}\"");
        if let Some(info) = server_info {
            _ = write!(out, ",\"{}\":{{\"{}\":{info}}}", meta::META, meta::SERVER_INFO);
        }
    }
}
