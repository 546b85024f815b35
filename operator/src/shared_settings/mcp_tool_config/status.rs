//! Step 2 of a reconcile, status: the status of an MCPToolConfig: its hash and one condition, `Valid`.

use vmcp_crds::{MCPToolConfig, MCPToolConfigStatus};

use crate::runtime::{Conditions, set_valid};

/// Computes the status from the result of the validation.
pub(super) fn compute(config: &MCPToolConfig, validated: Result<(), String>) -> MCPToolConfigStatus {
    let before = config.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let generation = config.metadata.generation.unwrap_or_default();
    let mut conditions = Conditions::new(before, generation);
    let mistake = validated.err().map(|message| ("ConfigInvalid", message));
    set_valid(&mut conditions, "the filter and the overrides are valid", mistake);
    MCPToolConfigStatus {
        observed_generation: Some(generation),
        config_hash: Some(config.spec.hash()),
        conditions: conditions.finish(),
    }
}
