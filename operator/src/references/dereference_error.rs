//! [`DereferenceError`]: the error of reading references, and of generating values that stand beside them.

use crate::runtime::{CallError, Failure, Retry};

/// Error of reading references.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DereferenceError {
    /// A call of the API server failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The operating system gives no random bytes.
    #[error("no random bytes for a new token: {0}")]
    Randomness(getrandom::Error),
}

impl Failure for DereferenceError {
    fn category(&self) -> &'static str {
        match self {
            Self::Call(error) => error.category(),
            Self::Randomness(_) => "NoRandomness",
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Call(error) => error.retry(),
            Self::Randomness(_) => Retry::Backoff,
        }
    }
}
