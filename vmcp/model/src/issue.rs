//! Findings of the aggregation, for logs, status and `vmcp doctor`: definitions that were rejected, renamed
//! or shadowed.

use std::fmt;
use std::sync::Arc;

use crate::definition::DefinitionKind;
use vmcp_config::sanitize;

/// Finding about one definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// Category.
    pub reason: IssueReason,
    /// Backend whose definition it is about.
    pub backend: Arc<str>,
    /// Kind of the definition.
    pub kind: DefinitionKind,
    /// The backend's name or URI for it, sanitized.
    pub name: String,
    /// Finding and remedy, as one sentence without a full stop; sanitized.
    pub message: String,
}

impl Issue {
    /// Creates an issue; the texts may quote a backend, so both are sanitized.
    pub(crate) fn new(
        reason: IssueReason,
        backend: &Arc<str>,
        kind: DefinitionKind,
        name: &str,
        message: &str,
    ) -> Issue {
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

/// Severity of an issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Outcome of the configuration that is worth knowing.
    Notice,
    /// Definition that is missing, or named otherwise than its backend or the configuration meant.
    Warning,
    /// Conflict that only a change of the configuration resolves.
    Error,
}

/// Category of an issue: log field, metric label, event reason and condition reason at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IssueReason {
    /// The definition breaks the protocol or exceeds a limit; it is left out.
    RejectedDefinition,
    /// The backend did not answer for one of its lists, or not for all of its pages.
    IncompleteList,
    /// The definition is mended in lists, because clients would refuse the whole list over it.
    MendedDefinition,
    /// The definition is left out of lists, because clients would refuse the whole list over it; the tool can
    /// be found and called.
    UnlistedDefinition,
    /// The backend lists the same name or URI twice; the first counts.
    DuplicateDefinition,
    /// The name is reserved for vmcp's own tools; the tool is left out.
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
    /// A step of a composite tool calls a tool that no backend offers now; the composite tool is hidden.
    MissingStepTool,
    /// The hints of a composite tool claim more safety than its steps have; it is left out.
    ContradictingHints,
}

impl IssueReason {
    /// Returns the category's name.
    pub fn as_str(self) -> &'static str {
        match self {
            IssueReason::RejectedDefinition => "RejectedDefinition",
            IssueReason::IncompleteList => "IncompleteList",
            IssueReason::MendedDefinition => "MendedDefinition",
            IssueReason::UnlistedDefinition => "UnlistedDefinition",
            IssueReason::DuplicateDefinition => "DuplicateDefinition",
            IssueReason::ReservedToolName => "ReservedToolName",
            IssueReason::NamePrefixed => "NamePrefixed",
            IssueReason::Shadowed => "Shadowed",
            IssueReason::UnresolvedConflict => "UnresolvedConflict",
            IssueReason::NameCollision => "NameCollision",
            IssueReason::UnknownOverride => "UnknownOverride",
            IssueReason::UnmatchedPattern => "UnmatchedPattern",
            IssueReason::MissingStepTool => "MissingStepTool",
            IssueReason::ContradictingHints => "ContradictingHints",
        }
    }

    /// Returns the severity of issues of this category.
    pub fn severity(self) -> Severity {
        match self {
            IssueReason::UnresolvedConflict => Severity::Error,
            IssueReason::Shadowed | IssueReason::MendedDefinition => Severity::Notice,
            IssueReason::RejectedDefinition
            | IssueReason::IncompleteList
            | IssueReason::UnlistedDefinition
            | IssueReason::DuplicateDefinition
            | IssueReason::ReservedToolName
            | IssueReason::NamePrefixed
            | IssueReason::NameCollision
            | IssueReason::UnknownOverride
            | IssueReason::UnmatchedPattern
            | IssueReason::MissingStepTool
            | IssueReason::ContradictingHints => Severity::Warning,
        }
    }
}
