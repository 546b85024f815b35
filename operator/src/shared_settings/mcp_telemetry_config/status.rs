//! Step 3 of a reconcile, status: the status of an MCPTelemetryConfig, which is one condition, `Valid`.

use vmcp_crds::{MCPTelemetryConfig, MCPTelemetryConfigStatus};

use super::validate::InvalidTelemetry;
use crate::runtime::{Conditions, set_pending, set_valid};

/// Computes the status from the result of the validation.
pub(super) fn compute(
    config: &MCPTelemetryConfig,
    validated: Result<(), InvalidTelemetry>,
) -> MCPTelemetryConfigStatus {
    let before = config.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let generation = config.metadata.generation.unwrap_or_default();
    let mut conditions = Conditions::new(before, generation);
    let mistake = validated.err().map(|InvalidTelemetry { reason, message }| (reason, message));
    set_valid(&mut conditions, "the settings are valid and their Secrets exist", mistake);
    set_pending(&mut conditions, config);
    MCPTelemetryConfigStatus { observed_generation: Some(generation), conditions: conditions.finish() }
}
