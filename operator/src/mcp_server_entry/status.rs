//! Step 3 of a reconcile, status: the status of an MCPServerEntry: a condition for the URL, one for the
//! headers, one for the certificates, one for the group, and their sum.

use vmcp_crds::mcp_server_entry::MCPServerEntryPhase;
use vmcp_crds::{MCPServerEntry, MCPServerEntrySpec, MCPServerEntryStatus, Problem};

use super::validate::ValidatedEntry;
use crate::references::group_condition;
use crate::runtime::{Conditions, set_pending, set_valid};

/// Computes the status. `group_exists` is `None` if no group is named.
pub(super) fn compute(
    entry: &MCPServerEntry,
    validated: &ValidatedEntry,
    group_exists: Option<bool>,
) -> MCPServerEntryStatus {
    let generation = entry.metadata.generation.unwrap_or_default();
    let before = entry.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let mut conditions = Conditions::new(before, generation);
    let wrong = set_checks(&mut conditions, &entry.spec, validated, group_exists);
    set_pending(&mut conditions, entry);
    let mistake = (!wrong.is_empty()).then(|| ("ConfigInvalid", wrong.join(" | ")));
    let message = "the entry can be used; the status of the VirtualMCPServer says whether it answers";
    set_valid(&mut conditions, message, mistake);
    MCPServerEntryStatus {
        phase: Some(if wrong.is_empty() { MCPServerEntryPhase::Valid } else { MCPServerEntryPhase::Failed }),
        observed_generation: Some(generation),
        conditions: conditions.finish(),
    }
}

/// Sets a condition for the URL, for the headers, for the certificates and for the group; returns the faults.
pub(crate) fn set_checks(
    conditions: &mut Conditions,
    spec: &MCPServerEntrySpec,
    validated: &ValidatedEntry,
    group_exists: Option<bool>,
) -> Vec<String> {
    let address = joined(&validated.address_problems);
    match &address {
        None => conditions.set("RemoteURLValidated", true, "RemoteURLValid", "the URL is valid"),
        Some(wrong) => conditions.set("RemoteURLValidated", false, "RemoteURLInvalid", wrong.clone()),
    }
    let headers = joined(&validated.header_problems);
    match (&headers, &validated.missing_secrets) {
        (Some(wrong), _) => {
            conditions.set("HeaderSecretRefsValidated", false, "HeaderInvalid", wrong.clone());
        }
        (None, Some(missing)) => {
            conditions.set("HeaderSecretRefsValidated", false, "HeaderSecretNotFound", missing.clone());
        }
        (None, None) if validated.backend.headers.is_empty() => {}
        (None, None) => conditions.set(
            "HeaderSecretRefsValidated",
            true,
            "HeaderSecretsValid",
            format!("all values exist; {} headers are sent", validated.backend.headers.len()),
        ),
    }
    match (&validated.unusable_ca_bundle, &spec.ca_bundle_ref) {
        (Some(wrong), _) => {
            conditions.set("CABundleRefValidated", false, "CABundleInvalid", wrong.clone());
        }
        (None, Some(_)) => {
            let message = "the server is trusted by these certificates, besides those of the system";
            conditions.set("CABundleRefValidated", true, "CABundleValid", message);
        }
        (None, None) => {}
    }
    let certificates = validated.unusable_ca_bundle.clone();
    let group = group_condition(conditions, spec.group_ref.as_ref(), group_exists);
    let unfollowed = joined(&validated.unfollowed);
    [unfollowed, address, headers, validated.missing_secrets.clone(), certificates, group]
        .into_iter()
        .flatten()
        .collect()
}

/// Joins problems into one message; `None` without problems.
fn joined(problems: &[Problem]) -> Option<String> {
    let messages: Vec<_> = problems.iter().map(ToString::to_string).collect();
    (!messages.is_empty()).then(|| messages.join(" | "))
}
