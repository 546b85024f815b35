//! Decisions about a backend that need no connection: settings, circuit breaker, exponential backoff, byte
//! budget.

pub mod backoff;
pub mod breaker;
pub(crate) mod byte_budget;
pub(crate) mod configured_headers;
pub(crate) mod facts;
pub(crate) mod last_use;
pub(crate) mod list_crashes;
pub(crate) mod relisting;
pub(crate) mod retry;
pub(crate) mod session_changes;
pub(crate) mod session_listing_count;
pub(crate) mod settings;
pub(crate) mod stream_floods;
