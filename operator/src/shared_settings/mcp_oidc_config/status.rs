//! The status of an MCPOIDCConfig, which is one condition, `Valid`.

use vmcp_crds::{MCPOIDCConfig, MCPOIDCConfigStatus};

use crate::runtime::{Conditions, set_valid};

/// Computes the status from the result of the validation.
pub(super) fn compute(config: &MCPOIDCConfig, validated: Result<(), String>) -> MCPOIDCConfigStatus {
    let before = config.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let generation = config.metadata.generation.unwrap_or_default();
    let mut conditions = Conditions::new(before, generation);
    let mistake = validated.err().map(|message| ("ConfigInvalid", message));
    set_valid(&mut conditions, "the settings are valid", mistake);
    MCPOIDCConfigStatus { observed_generation: Some(generation), conditions: conditions.finish() }
}
