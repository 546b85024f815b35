//! Answers of the tools that change servers.

use std::fmt::Display;

use serde::Serialize;

use crate::own_tools::own_answer::Refusal;

/// The answer to a change that was made.
#[derive(Debug, Serialize)]
pub(super) struct Changed {
    pub(super) success: bool,
    /// Name of the server.
    pub(super) server: String,
    /// False for a server that is switched off, and for a removed one.
    pub(super) enabled: bool,
    /// True if the server has answered.
    pub(super) connected: bool,
    /// Its tools that the caller may call.
    pub(super) tool_count: usize,
    /// Sentence for the model.
    pub(super) message: String,
    /// Reason why it is not connected, for clients on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_error: Option<String>,
    /// Facts about a server of a registry.
    #[serde(flatten)]
    pub(super) installed: Option<Installed>,
}

/// A server of a registry, as it was installed.
#[derive(Debug, Serialize)]
pub(super) struct Installed {
    /// Its whole name in the registry.
    pub(super) registry_name: String,
    /// Its version there.
    pub(super) version: String,
    /// The package with its exact version or digest, or the address.
    pub(super) origin: String,
    /// The command or the address.
    pub(super) runs: String,
    /// Facts that a person should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
    /// Values that the user has to set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) needs: Vec<NeededValue>,
}

/// A secret that the user has to set.
#[derive(Debug, Serialize)]
pub(super) struct NeededValue {
    /// Its name in the entry.
    pub(super) input: String,
    /// The environment variable (a line of `.env`), or the key of a Secret, that holds it.
    pub(super) variable: String,
    /// Its meaning, in the words of the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
}

impl Changed {
    /// A change of a server that is not connected.
    pub(super) fn offline(server: String, enabled: bool, message: impl Into<String>) -> Changed {
        let message = message.into();
        Changed {
            success: true,
            server,
            enabled,
            connected: false,
            tool_count: 0,
            message,
            last_error: None,
            installed: None,
        }
    }
}

#[derive(Serialize)]
struct Failure {
    success: bool,
    error: String,
}

/// Makes the answer to a change that was not made.
pub(super) fn refused(error: impl Display) -> Refusal {
    Refusal::json(&Failure { success: false, error: error.to_string() })
}
