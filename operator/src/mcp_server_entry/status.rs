//! The status of an MCPServerEntry.

use vmcp_crds::mcp_server_entry::MCPServerEntryPhase;
use vmcp_crds::{MCPServerEntry, MCPServerEntryStatus, Problem};

use super::Judged;
use crate::references::group_condition;
use crate::runtime::Conditions;

/// `group` tells whether the group exists, when one is named.
pub(super) fn of(entry: &MCPServerEntry, judged: &Judged, group: Option<bool>) -> MCPServerEntryStatus {
    let generation = entry.metadata.generation.unwrap_or_default();
    let before = entry.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let mut conditions = Conditions::new(before, generation);
    let address = said(&judged.address);
    match &address {
        None => conditions.set("RemoteURLValidated", true, "RemoteURLValid", "the URL can be called"),
        Some(wrong) => conditions.set("RemoteURLValidated", false, "RemoteURLInvalid", wrong.clone()),
    }
    let headers = said(&judged.headers);
    match (&headers, &judged.missing) {
        (Some(wrong), _) => {
            conditions.set("HeaderSecretRefsValidated", false, "HeaderInvalid", wrong.clone());
        }
        (None, Some(missing)) => {
            conditions.set("HeaderSecretRefsValidated", false, "HeaderSecretNotFound", missing.clone());
        }
        (None, None) if judged.backend.headers.is_empty() => {}
        (None, None) => conditions.set(
            "HeaderSecretRefsValidated",
            true,
            "HeaderSecretsValid",
            format!("{} headers are sent", judged.backend.headers.len()),
        ),
    }
    let group = group_condition(&mut conditions, entry.spec.group_ref.as_ref(), group);
    let wrong: Vec<_> = [address, headers, judged.missing.clone(), group].into_iter().flatten().collect();
    if wrong.is_empty() {
        conditions.set(
            "Valid",
            true,
            "ConfigValid",
            "it can be used; the VirtualMCPServer's status tells whether it answers",
        );
    } else {
        conditions.set("Valid", false, "ConfigInvalid", wrong.join(" | "));
    }
    MCPServerEntryStatus {
        phase: Some(if wrong.is_empty() { MCPServerEntryPhase::Valid } else { MCPServerEntryPhase::Failed }),
        observed_generation: Some(generation),
        conditions: conditions.finish(),
    }
}

fn said(problems: &[Problem]) -> Option<String> {
    let said: Vec<_> = problems.iter().map(ToString::to_string).collect();
    (!said.is_empty()).then(|| said.join(" | "))
}
