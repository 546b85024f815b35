//! The status of an MCPOIDCConfig, which is one condition, `Valid`.

use vmcp_crds::{MCPOIDCConfig, MCPOIDCConfigStatus};

use crate::runtime::Conditions;

/// Computes the status from the result of the validation.
pub(super) fn of(config: &MCPOIDCConfig, validated: Result<(), String>) -> MCPOIDCConfigStatus {
    let before = config.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let generation = config.metadata.generation.unwrap_or_default();
    let mut conditions = Conditions::new(before, generation);
    match validated {
        Ok(()) => conditions.set("Valid", true, "ConfigValid", "the settings are valid"),
        Err(message) => conditions.set("Valid", false, "ConfigInvalid", message),
    }
    MCPOIDCConfigStatus { observed_generation: Some(generation), conditions: conditions.finish() }
}
