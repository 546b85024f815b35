//! Failure of a call on its way through the upper layers.

use crate::policy::breaker::Verdict;
use crate::request::CallError;
use crate::transport::LinkError;

/// The caller's error, and what it says about the backend.
pub(super) struct Failure {
    pub(super) error: CallError,
    pub(super) verdict: Verdict,
}

impl From<LinkError> for Failure {
    fn from(error: LinkError) -> Self {
        let verdict = error.verdict();
        Self { error: error.into(), verdict }
    }
}
