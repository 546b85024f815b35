//! Decisions about a backend that need no connection: settings, circuit breaker, exponential backoff.

pub mod backoff;
pub mod breaker;
pub(crate) mod facts;
pub(crate) mod settings;
