//! Conditions of the configuration: the text of the resource, and the pod template.

use kube::ResourceExt as _;

use super::Degradations;
use crate::runtime::Conditions;
use crate::virtual_mcp_server::status::{ObservedVirtualMCPServer, refusal};

/// Sets `ConfigValid`: refused by the operator, refused by a pod, in need of a restart, or valid.
pub(super) fn config_valid(
    observed: &ObservedVirtualMCPServer<'_>,
    conditions: &mut Conditions,
    degradations: &mut Degradations,
) {
    const KIND: &str = "ConfigValid";
    if let Some(refusal) = refusal(observed.plan) {
        let serving = if observed.references.mounted.is_some() {
            "; the last good configuration stays in force"
        } else {
            ""
        };
        let message = format!("{}{serving}", refusal.message);
        conditions.set(KIND, false, refusal.reason, message.clone());
        degradations.push((refusal.reason, message));
        return;
    }
    let wanted = observed.wanted_digest();
    let refused = observed.reports().find_map(|report| {
        let configuration = &report.configuration;
        let refused = configuration.refused.as_ref()?;
        // A refusal of an older text says nothing about this one.
        (Some(&refused.digest) == wanted.as_ref()).then(|| refused.message.clone())
    });
    if let Some(message) = refused {
        let message = format!(
            "the pods refuse the configuration: {message}; the last good configuration stays in force"
        );
        conditions.set(KIND, false, "RefusedByPods", message.clone());
        degradations.push(("RefusedByPods", message));
        return;
    }
    let warnings = observed.plan.configuration.iter().flat_map(|found| &found.lowered.warnings);
    // The condition `BackendsDiscovered` says that there are no backends.
    let warnings: Vec<_> = warnings.filter(|warning| warning.path != "backends").collect();
    let restart = observed.reports().any(|report| !report.configuration.needs_restart.is_empty());
    let message = match warnings.first() {
        _ if restart => {
            let (name, namespace) =
                (observed.server.name_any(), observed.server.namespace().unwrap_or_default());
            format!(
                "some settings take effect in new pods, which the Deployment is making; if it is paused, run `kubectl \
                 rollout restart deployment/{name} -n {namespace}`"
            )
        }
        Some(warning) if warnings.len() > 1 => {
            format!("{warning} (and {} more warnings)", warnings.len() - 1)
        }
        Some(warning) => warning.to_string(),
        None => "the configuration is valid".to_owned(),
    };
    let reason = if restart {
        "RestartNeeded"
    } else if warnings.is_empty() {
        "Valid"
    } else {
        "ValidWithWarnings"
    };
    conditions.set(KIND, true, reason, message);
}

/// Sets `PodTemplateSpecValid`.
pub(super) fn pod_template(
    observed: &ObservedVirtualMCPServer<'_>,
    conditions: &mut Conditions,
    degradations: &mut Degradations,
) {
    match &observed.plan.template {
        Ok(()) => {
            conditions.set("PodTemplateSpecValid", true, "PodTemplateSpecValid", "the pod template is valid");
        }
        Err(message) => {
            let message = format!("{message}; the pods stay as they are");
            conditions.set("PodTemplateSpecValid", false, "InvalidPodTemplateSpec", message.clone());
            degradations.push(("InvalidPodTemplateSpec", message));
        }
    }
}
