//! Step 2 of a reconcile, status: mistakes of a composite tool, and the servers that refer to it. Pure.

use std::sync::Arc;

use kube::ResourceExt as _;
use vmcp_crds::shared_settings::composite_tool_definition::ValidationStatus;
use vmcp_crds::{
    Invalid, Problem, VirtualMCPCompositeToolDefinition, VirtualMCPCompositeToolDefinitionStatus,
    VirtualMCPServer,
};

use super::missing_tools::{TOOL_NOT_FOUND, missing_tools};
use crate::runtime::Conditions;

/// Most mistakes that the status lists; all of them are few enough to correct at once.
const MAX_ERRORS: usize = 100;

/// Most servers that the status lists: a status has to fit into an object of 1.5 MiB.
const MAX_LISTED: usize = 256;

/// Most servers whose missing tools a message names.
const MAX_SERVERS: usize = 10;

/// Computes the status. `servers` are all of the namespace.
pub(super) fn compute(
    definition: &VirtualMCPCompositeToolDefinition,
    servers: &[Arc<VirtualMCPServer>],
) -> VirtualMCPCompositeToolDefinitionStatus {
    let name = definition.name_any();
    let refers = |server: &&Arc<VirtualMCPServer>| {
        let config = server.spec.config.iter();
        config.flat_map(|config| &config.composite_tool_refs).any(|reference| reference.name == name)
    };
    let mut referencing: Vec<_> = servers.iter().filter(refers).map(|server| server.name_any()).collect();
    referencing.sort_unstable();
    referencing.truncate(MAX_LISTED);
    let generation = definition.metadata.generation.unwrap_or_default();
    let before = definition.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let mut conditions = Conditions::new(before, generation);
    let mut errors = Vec::new();
    match definition.spec.check() {
        Ok(()) => {
            conditions.set("Ready", true, "WorkflowReady", "VirtualMCPServers can serve the tool");
            conditions.set("WorkflowValidated", true, "ValidationSuccess", "the definition has no mistake");
        }
        Err(invalid) => {
            let message = invalid.to_string();
            conditions.set("Ready", false, "WorkflowNotReady", message.clone());
            let reason = reason(&invalid);
            conditions.set("WorkflowValidated", false, reason, message.clone());
            // By this kstatus (Flux, kpt) notices that a person has to act.
            conditions.set("Stalled", true, reason, message);
            let Invalid(problems) = invalid;
            errors.extend(problems.iter().take(MAX_ERRORS).map(ToString::to_string));
        }
    }
    let missing = servers.iter().filter(refers).filter_map(|server| {
        let conditions = &server.status.as_ref()?.conditions;
        Some(format!("{}: {}", server.name_any(), missing_tools(conditions, definition.spec.name())?))
    });
    let missing: Vec<_> = missing.take(MAX_SERVERS).collect();
    if !missing.is_empty() {
        let message = format!(
            "clients do not see the tool; add the backends of these tools, or correct its steps: {}",
            missing.join(" | ")
        );
        // Present while it is true, as `Stalled` is.
        conditions.set(TOOL_NOT_FOUND, true, TOOL_NOT_FOUND, message);
    }
    VirtualMCPCompositeToolDefinitionStatus {
        validation_status: Some(if errors.is_empty() {
            ValidationStatus::Valid
        } else {
            ValidationStatus::Invalid
        }),
        validation_errors: errors,
        referencing_virtual_servers: referencing,
        observed_generation: Some(generation),
        conditions: conditions.finish(),
    }
}

/// Returns the reason of `WorkflowValidated`, one of ToolHive's, by the first mistake.
fn reason(Invalid(problems): &Invalid) -> &'static str {
    let Some(Problem { path, message, remedy, .. }) = problems.first() else { return "ValidationFailed" };
    if path == "spec.steps" && message.starts_with("a circle of dependencies") {
        "DependencyCycle"
    } else if remedy.contains("text/template") {
        "TemplateInvalid"
    } else if message == "unknown key" {
        "SchemaInvalid"
    } else {
        "ValidationFailed"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn definition(spec: &Value) -> VirtualMCPCompositeToolDefinition {
        serde_json::from_value(json!({
            "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "VirtualMCPCompositeToolDefinition",
            "metadata": { "name": "triage", "namespace": "n", "generation": 3 }, "spec": spec,
        }))
        .unwrap()
    }

    fn server(name: &str, references: &Value) -> Arc<VirtualMCPServer> {
        let object = json!({
            "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "VirtualMCPServer",
            "metadata": { "name": name, "namespace": "n" },
            "spec": { "config": { "compositeToolRefs": references } },
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn servers_that_refer_to_the_tool_are_listed() {
        let fine = definition(&json!({ "name": "t", "steps": [{ "id": "a", "tool": "x.y" }] }));
        let named = json!([{ "name": "other" }, { "name": "triage" }]);
        let servers = [server("z", &named), server("b", &json!([{ "name": "other" }])), server("a", &named)];
        let status = compute(&fine, &servers);
        assert_eq!(status.referencing_virtual_servers, ["a", "z"]);
        assert_eq!(status.validation_status, Some(ValidationStatus::Valid));
        assert_eq!(status.observed_generation, Some(3));
        assert_eq!(status.validation_errors, Vec::<String>::new());
        let kinds: Vec<_> =
            status.conditions.iter().map(|it| (it.type_.as_str(), it.reason.as_str())).collect();
        assert_eq!(kinds, [("Ready", "WorkflowReady"), ("WorkflowValidated", "ValidationSuccess")]);
        let many: Vec<_> = (0..=MAX_LISTED).map(|number| server(&format!("s{number}"), &named)).collect();
        assert_eq!(compute(&fine, &many).referencing_virtual_servers.len(), MAX_LISTED);
    }

    #[test]
    fn tools_that_no_backend_of_a_server_has_are_named() {
        let triage = definition(&json!({ "name": "t", "steps": [{ "id": "a", "tool": "x.y" }] }));
        let with_status = |name: &str, status: &str, reason: &str, message: &str| {
            let mut server = Arc::unwrap_or_clone(server(name, &json!([{ "name": "triage" }])));
            server.status = serde_json::from_value(json!({ "conditions": [{
                "type": "CompositeToolsListed", "status": status, "reason": reason, "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }] }))
            .unwrap();
            Arc::new(server)
        };
        let calls = "t2 calls a.b, which no backend has | t calls x.y, x.z, which no backend has";
        let servers = [
            with_status("a", "False", "ToolNotFound", calls),
            with_status("b", "True", "CompositeToolsListed", calls),
            with_status("c", "Unknown", "NoPods", "no pod is ready"),
            with_status("d", "False", "ToolNotFound", "t2 calls a.b, which no backend has"),
        ];
        let found = |servers: &[Arc<VirtualMCPServer>]| {
            let conditions = compute(&triage, servers).conditions;
            conditions.into_iter().find(|condition| condition.type_ == "ToolNotFound")
        };
        let condition = found(&servers).unwrap();
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", "ToolNotFound"));
        let message = "a: t calls x.y, x.z, which no backend has";
        assert!(condition.message.ends_with(message), "{}", condition.message);
        assert_eq!(found(&servers[1..]), None);
    }

    #[test]
    fn a_mistake_has_its_reason_its_place_and_its_remedy() {
        let step = |more: &Value| {
            let mut step = json!({ "id": "a", "tool": "x.y" });
            step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({ "name": "t", "steps": [step] })
        };
        let circle = json!({ "name": "t", "steps": [
            { "id": "a", "tool": "x", "dependsOn": ["b"] }, { "id": "b", "tool": "x", "dependsOn": ["a"] },
        ] });
        for (spec, reason, place) in [
            (circle, "DependencyCycle", "spec.steps: a circle of dependencies"),
            (step(&json!({ "condition": "{{.steps" })), "TemplateInvalid", "spec.steps[0].condition"),
            (step(&json!({ "tol": "x" })), "SchemaInvalid", "spec.steps[0].tol"),
            (step(&json!({ "dependsOn": ["none"] })), "ValidationFailed", "spec.steps[0].dependsOn[0]"),
        ] {
            let status = compute(&definition(&spec), &[]);
            assert_eq!(status.validation_status, Some(ValidationStatus::Invalid));
            let first = status.validation_errors.first().unwrap();
            assert!(first.contains(place) && first.contains("; "), "{place}: {first}");
            let conditions = status.conditions.iter();
            let kinds: Vec<_> =
                conditions.map(|it| (it.type_.as_str(), it.status.as_str(), it.reason.as_str())).collect();
            assert_eq!(
                kinds,
                [
                    ("Ready", "False", "WorkflowNotReady"),
                    ("WorkflowValidated", "False", reason),
                    ("Stalled", "True", reason),
                ]
            );
        }
    }
}
