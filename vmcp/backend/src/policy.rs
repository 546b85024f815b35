//! Decisions about a backend that need no connection: settings, circuit breaker, backoff.

pub mod backoff;
pub mod breaker;
pub(crate) mod facts;
pub(crate) mod settings;
