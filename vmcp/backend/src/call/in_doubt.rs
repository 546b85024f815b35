//! Mark of a call that a backend may be executing: a call that is cut off cannot ask its layers any more.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::request::Transmission;

/// Set while the backend may be executing the call.
#[derive(Debug, Default)]
pub(super) struct InDoubt(AtomicBool);

impl InDoubt {
    pub(super) fn set(&self, in_doubt: bool) {
        self.0.store(in_doubt, Ordering::Relaxed);
    }

    /// The transmission of a call that is cut off now.
    pub(super) fn transmission(&self) -> Transmission {
        if self.0.load(Ordering::Relaxed) { Transmission::Unknown } else { Transmission::NotSent }
    }
}
