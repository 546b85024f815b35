//! Error of a reconcile of a resource that runs pods.

use crate::references::DereferenceError;
use crate::runtime::{ApplyError, CallError, Failure, Retry};

/// Error of a reconcile.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    /// The references cannot be read.
    #[error(transparent)]
    Dereference(#[from] DereferenceError),
    /// A child cannot be written.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The status cannot be written.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Failure for ReconcileError {
    fn category(&self) -> &'static str {
        match self {
            Self::Dereference(error) => error.category(),
            Self::Apply(error) => error.category(),
            Self::Call(error) => error.category(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Dereference(error) => error.retry(),
            Self::Apply(error) => error.retry(),
            Self::Call(error) => error.retry(),
        }
    }
}
