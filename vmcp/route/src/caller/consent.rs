//! [`Consent`]: the user's yes within one request.

use std::sync::Arc;

use parking_lot::Mutex;

/// The tool whose call the user has allowed in one request, if there is one. A yes to one tool says nothing
/// about another that the same request leads to.
#[derive(Debug, Clone, Default)]
pub struct Consent(Arc<Mutex<Option<Box<str>>>>);

impl Consent {
    /// The consent to a call of this tool, which was given in an earlier round of the request.
    pub fn to(tool: Option<Box<str>>) -> Consent {
        Consent(Arc::new(Mutex::new(tool)))
    }

    /// Records the user's consent to a call of this tool.
    pub(crate) fn give(&self, tool: &str) {
        *self.0.lock() = Some(tool.into());
    }

    /// True if the user has allowed the call of this tool.
    pub(crate) fn covers(&self, tool: &str) -> bool {
        self.0.lock().as_deref() == Some(tool)
    }

    /// Returns the tool whose call the user has allowed.
    pub fn tool(&self) -> Option<Box<str>> {
        self.0.lock().clone()
    }
}
