//! Why a resource does not run as it is written. What ran before goes on.

use vmcp_crds::Invalid;

use super::health::{Health, State};
use crate::runtime::Conditions;
use crate::runtime::pod_template::PodTemplateError;

/// Why a resource does not run as it is written.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It makes no sense.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Its pod template makes no sense.
    #[error(transparent)]
    Template(#[from] PodTemplateError),
    /// What it refers to is not there (yet).
    #[error("{0}")]
    SecretNotFound(String),
}

impl Refusal {
    /// The condition's reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "ConfigInvalid",
            Self::Template(_) => "PodTemplateInvalid",
            Self::SecretNotFound(_) => "SecretNotFound",
        }
    }

    /// How a workload is whose resource was refused, with so many pods of the version before.
    pub fn health(&self, ready: i32) -> Health {
        let message = match ready {
            0 => self.to_string(),
            _ => format!("{self}; {ready} pods of the version before are ready"),
        };
        Health { state: State::Failed, reason: self.reason().to_owned(), message }
    }
}

/// Sets `Valid`, and `SecretRefsValidated` where there are references.
pub fn validity(conditions: &mut Conditions, refers_to_secrets: bool, refusal: Option<&Refusal>) {
    match refusal {
        Some(refusal @ (Refusal::Invalid(_) | Refusal::Template(_))) => {
            conditions.set("Valid", false, refusal.reason(), refusal.to_string());
        }
        _ => conditions.set("Valid", true, "ConfigValid", "it makes sense as it is written"),
    }
    match refusal {
        Some(Refusal::SecretNotFound(missing)) => {
            conditions.set("SecretRefsValidated", false, "SecretNotFound", missing.clone());
        }
        _ if refers_to_secrets => {
            conditions.set("SecretRefsValidated", true, "SecretsFound", "all of them are there");
        }
        _ => {}
    }
}
