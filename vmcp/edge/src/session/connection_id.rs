//! [`ConnectionId`]: tells a client's connections apart.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of a client's connection, which this process gives to no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId(pub(crate) u64);

impl ConnectionId {
    /// Returns the number of a new connection.
    pub(crate) fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}
