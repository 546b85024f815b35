//! Refusal of a resource that cannot run as it is written; pods of the previous version run on.

use vmcp_crds::Invalid;

use super::pod_template::PodTemplateError;
use crate::runtime::Conditions;

/// Refusal of a resource that cannot run as it is written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpecRefusal {
    /// The fields of the resource contradict each other or what `vmcp` takes.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// `spec.podTemplateSpec` cannot be merged.
    #[error(transparent)]
    Template(#[from] PodTemplateError),
    /// A Secret, or a key of it, does not exist (yet); the text names each with the command that creates it.
    #[error("{0}")]
    SecretNotFound(String),
    /// A stdio server names no command, and its image does not tell what it starts; the text says why and
    /// what to do.
    #[error("{0}")]
    EntrypointUnknown(String),
}

impl SpecRefusal {
    /// Returns the reason of the conditions.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "ConfigInvalid",
            Self::Template(_) => "PodTemplateInvalid",
            Self::SecretNotFound(_) => "SecretNotFound",
            Self::EntrypointUnknown(_) => "EntrypointUnknown",
        }
    }
}

/// Sets the condition `Valid`, and `SecretRefsValidated` if the resource refers to Secrets. `awaited` names
/// missing values that the pods bring.
pub(crate) fn set_validity(
    conditions: &mut Conditions,
    refers_to_secrets: bool,
    awaited: Option<&str>,
    refusal: Option<&SpecRefusal>,
) {
    match refusal {
        Some(refusal @ (SpecRefusal::Invalid(_) | SpecRefusal::Template(_))) => {
            conditions.set("Valid", false, refusal.reason(), refusal.to_string());
        }
        _ => conditions.set("Valid", true, "ConfigValid", "the resource is valid"),
    }
    match refusal {
        Some(SpecRefusal::SecretNotFound(missing)) => {
            conditions.set("SecretRefsValidated", false, "SecretNotFound", missing.clone());
        }
        _ if refers_to_secrets => match awaited {
            Some(awaited) => conditions.unknown("SecretRefsValidated", "SecretAwaited", awaited),
            None => conditions.set(
                "SecretRefsValidated",
                true,
                "SecretsFound",
                "all Secrets that it refers to exist",
            ),
        },
        _ => {}
    }
}
