//! What went wrong or was decided while definitions were aggregated, for logs, status and `doctor`.

use std::fmt;
use std::sync::Arc;

use crate::discovered::Kind;
use vmcp_config::sanitize;

/// One finding about one definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// The category.
    pub reason: Reason,
    /// The backend whose definition it is about.
    pub backend: Arc<str>,
    /// The kind of the definition.
    pub kind: Kind,
    /// The backend's name or URI for it, sanitized.
    pub name: String,
    /// What happened and what to do about it, as one sentence without a full stop; sanitized.
    pub message: String,
}

impl Issue {
    /// Takes texts that may quote what a backend sent.
    pub(crate) fn new(reason: Reason, backend: &Arc<str>, kind: Kind, name: &str, message: &str) -> Issue {
        let (name, message) = (sanitize::text(name), sanitize::text(message));
        Issue { reason, backend: Arc::clone(backend), kind, name, message }
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} {} of backend {}: {}",
            self.reason.as_str(),
            self.kind,
            self.name,
            self.backend,
            self.message
        )
    }
}

/// How much an issue matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// As configured; worth knowing.
    Notice,
    /// Something is missing or named otherwise than its backend or the configuration meant.
    Warning,
    /// The configuration must be changed.
    Error,
}

/// The category of an issue: log field, metric label, event and condition reason at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The definition breaks the protocol or a limit; it is left out.
    RejectedDefinition,
    /// The backend lists the same name or URI twice; the first counts.
    DuplicateDefinition,
    /// The name is one of ours; the tool is left out (R022-18).
    ReservedToolName,
    /// Several backends want one name and the prefix tells them apart.
    NamePrefixed,
    /// A backend that comes earlier in the priority order has the name; this one is left out.
    Shadowed,
    /// Strategy manual: several backends want one name; all of them are left out.
    UnresolvedConflict,
    /// Different tools would get one generated name; a hash tells them apart.
    NameCollision,
    /// An override names a tool that the backend does not have.
    UnknownOverride,
    /// A filter or exclusion fits no tool of its backend.
    UnmatchedPattern,
}

impl Reason {
    /// The category's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::RejectedDefinition => "RejectedDefinition",
            Reason::DuplicateDefinition => "DuplicateDefinition",
            Reason::ReservedToolName => "ReservedToolName",
            Reason::NamePrefixed => "NamePrefixed",
            Reason::Shadowed => "Shadowed",
            Reason::UnresolvedConflict => "UnresolvedConflict",
            Reason::NameCollision => "NameCollision",
            Reason::UnknownOverride => "UnknownOverride",
            Reason::UnmatchedPattern => "UnmatchedPattern",
        }
    }

    /// How much issues of this category matter.
    pub fn severity(self) -> Severity {
        match self {
            Reason::UnresolvedConflict => Severity::Error,
            Reason::Shadowed => Severity::Notice,
            Reason::RejectedDefinition
            | Reason::DuplicateDefinition
            | Reason::ReservedToolName
            | Reason::NamePrefixed
            | Reason::NameCollision
            | Reason::UnknownOverride
            | Reason::UnmatchedPattern => Severity::Warning,
        }
    }
}
