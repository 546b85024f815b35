//! Step 3 of a reconcile, status: the status of an MCPExternalAuthConfig, which is one condition, `Valid`.

use vmcp_crds::{MCPExternalAuthConfig, MCPExternalAuthConfigStatus};

use super::validate::InvalidAuth;
use crate::runtime::{Conditions, set_pending, set_valid};

/// Computes the status from the result of the validation.
pub(super) fn compute(
    config: &MCPExternalAuthConfig,
    validated: Result<(), InvalidAuth>,
) -> MCPExternalAuthConfigStatus {
    let before = config.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let generation = config.metadata.generation.unwrap_or_default();
    let mut conditions = Conditions::new(before, generation);
    let mistake = validated.err().map(|InvalidAuth { reason, message }| (reason, message));
    set_valid(&mut conditions, "the credentials are valid as written and their Secrets exist", mistake);
    set_pending(&mut conditions, config);
    MCPExternalAuthConfigStatus { observed_generation: Some(generation), conditions: conditions.finish() }
}
