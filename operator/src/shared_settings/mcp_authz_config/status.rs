//! Step 2 of a reconcile, status: the status of an MCPAuthzConfig, which is one condition, `Valid`.

use vmcp_crds::{MCPAuthzConfig, MCPAuthzConfigStatus};

use crate::runtime::{Conditions, set_valid};

/// Computes the status from the result of the validation.
pub(super) fn compute(config: &MCPAuthzConfig, validated: Result<(), String>) -> MCPAuthzConfigStatus {
    let before = config.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let generation = config.metadata.generation.unwrap_or_default();
    let mut conditions = Conditions::new(before, generation);
    let mistake = validated.err().map(|message| ("ConfigInvalid", message));
    set_valid(&mut conditions, "the policies are valid", mistake);
    MCPAuthzConfigStatus { observed_generation: Some(generation), conditions: conditions.finish() }
}
