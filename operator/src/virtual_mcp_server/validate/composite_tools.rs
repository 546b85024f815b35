//! Composite tools of VirtualMCPCompositeToolDefinitions.

use std::collections::BTreeSet;

use serde_json::Value;
use vmcp_crds::VirtualMCPServer;
use vmcp_crds::lower::ReferencedCompositeTool;

use crate::virtual_mcp_server::dereference::{References, composite_tool_refs_of};

/// Returns the tools that the references of the server lead to, and the fault of each other reference: a
/// tool that is missing or wrong costs itself alone.
pub(super) fn resolve(
    server: &VirtualMCPServer,
    references: &References,
) -> (Vec<ReferencedCompositeTool>, Vec<CompositeToolProblem>) {
    let own = server.spec.config.iter().flat_map(|config| &config.composite_tools);
    let mut names: BTreeSet<&str> = own.filter_map(|tool| tool.get("name").and_then(Value::as_str)).collect();
    let (mut tools, mut problems) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for resource in composite_tool_refs_of(server).filter(|resource| seen.insert(*resource)) {
        let Some(definition) = references.composite_tools.get(resource) else {
            let message = format!(
                "there is no VirtualMCPCompositeToolDefinition {resource} in this namespace; create it, or correct \
                 spec.config.compositeToolRefs"
            );
            problems.push(CompositeToolProblem { reason: "CompositeToolRefNotFound", message });
            continue;
        };
        let tool = definition.spec.name();
        let mistake = match definition.spec.check() {
            Err(invalid) => Some(invalid.to_string()),
            Ok(()) if names.insert(tool) => None,
            Ok(()) => Some(format!(
                "spec.name: `{tool}` is the name of another composite tool of this server, too; choose another"
            )),
        };
        match mistake {
            Some(mistake) => problems.push(CompositeToolProblem {
                reason: "CompositeToolRefInvalid",
                message: format!("VirtualMCPCompositeToolDefinition {resource}: {mistake}"),
            }),
            None => tools.push(ReferencedCompositeTool {
                resource: resource.to_owned(),
                definition: definition.spec.definition.clone(),
            }),
        }
    }
    (tools, problems)
}

/// A reference to a VirtualMCPCompositeToolDefinition that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompositeToolProblem {
    /// The reason of the condition `CompositeToolRefsValidated`.
    pub reason: &'static str,
    /// The cause and the remedy.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use vmcp_crds::VirtualMCPCompositeToolDefinition;

    use super::*;

    fn object(kind: &str, name: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": kind,
            "metadata": { "name": name, "namespace": "n" }, "spec": spec,
        })
    }

    fn definition(name: &str, spec: &Value) -> (String, Arc<VirtualMCPCompositeToolDefinition>) {
        let definition = object("VirtualMCPCompositeToolDefinition", name, spec);
        (name.to_owned(), Arc::new(serde_json::from_value(definition).unwrap()))
    }

    #[test]
    fn a_reference_that_cannot_be_followed_costs_itself_alone() {
        let step = json!([{ "id": "a", "tool": "x.y" }]);
        let circle = json!([{ "id": "a", "tool": "x", "dependsOn": ["b"] }, { "id": "b", "tool": "x", "dependsOn": ["a"] }]);
        let references = References {
            composite_tools: [
                definition("fine", &json!({ "name": "fine", "steps": step })),
                definition("broken", &json!({ "name": "broken", "steps": circle })),
                definition("taken", &json!({ "name": "own", "steps": step })),
                definition("again", &json!({ "name": "fine", "steps": step })),
            ]
            .into(),
            ..References::default()
        };
        let written =
            ["fine", "none", "broken", "taken", "again", "fine"].map(|name| json!({ "name": name }));
        let spec = json!({ "config": {
            "compositeTools": [{ "name": "own", "steps": step }], "compositeToolRefs": written,
        } });
        let server: VirtualMCPServer =
            serde_json::from_value(object("VirtualMCPServer", "s", &spec)).unwrap();
        let (tools, problems) = resolve(&server, &references);
        let names: Vec<_> = tools.iter().map(|tool| tool.resource.as_str()).collect();
        assert_eq!(names, ["fine"]);
        let told: Vec<_> =
            problems.iter().map(|problem| (problem.reason, problem.message.as_str())).collect();
        assert_eq!(told.len(), 4, "{told:?}");
        for (problem, (reason, says)) in told.iter().zip([
            ("CompositeToolRefNotFound", "no VirtualMCPCompositeToolDefinition none"),
            ("CompositeToolRefInvalid", "broken: spec.steps: a circle"),
            ("CompositeToolRefInvalid", "taken: spec.name: `own` is the name of another"),
            ("CompositeToolRefInvalid", "again: spec.name: `fine` is the name of another"),
        ]) {
            assert!(problem.0 == reason && problem.1.contains(says), "{problem:?}");
        }
    }
}
