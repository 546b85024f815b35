//! Conditions of the configuration: the text of the resource, and the pod template.

use kube::ResourceExt as _;
use vmcp_crds::virtual_mcp_server::authz;

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
    // The condition `BackendsDiscovered` reports an empty list of backends.
    let warnings: Vec<_> = warnings.filter(|warning| warning.path != "backends").collect();
    let restart = observed.reports().any(|report| !report.configuration.needs_restart.is_empty());
    let message = match warnings.first() {
        _ if restart => {
            let (name, namespace) =
                (observed.server.name_any(), observed.server.namespace().unwrap_or_default());
            let kind = observed.running.form().kind().as_str();
            format!(
                "some settings take effect in new pods, which the {kind} is making; if it is paused, run `kubectl rollout \
                 restart {}/{name} -n {namespace}`",
                kind.to_ascii_lowercase()
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

/// Sets `AuthzConfigured` if the resource has policies: they are in force, or why not. Policies that cannot
/// be followed make the configuration invalid, so that the last good ones stay in force.
pub(super) fn authz(observed: &ObservedVirtualMCPServer<'_>, conditions: &mut Conditions) {
    const KIND: &str = "AuthzConfigured";
    if !authz::is_given(&observed.server.spec.incoming_auth) {
        return;
    }
    match refusal(observed.plan) {
        None => conditions.set(KIND, true, "AuthzConfigured", "the policies are valid"),
        Some(refusal) if is_about_policies(&refusal.message) => {
            conditions.set(KIND, false, "AuthzInvalid", refusal.message.clone());
        }
        Some(_) => conditions.keep(KIND),
    }
}

/// True for the refusal of a configuration for its policies.
fn is_about_policies(message: &str) -> bool {
    ["spec.incomingAuth", "MCPAuthzConfig "].iter().any(|place| message.contains(place))
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
