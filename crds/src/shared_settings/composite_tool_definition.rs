//! VirtualMCPCompositeToolDefinition: a composite tool, for many VirtualMCPServers.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fields::composite_tool::CompositeToolSchema;
use crate::fields::yaml_block::{Block, escape};
use crate::problem::{Invalid, Problem};

/// A composite tool: its steps call tools of backends, ask the user, and loop over lists.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "toolhive.stacklok.com",
    version = "v1alpha1",
    kind = "VirtualMCPCompositeToolDefinition",
    plural = "virtualmcpcompositetooldefinitions",
    namespaced,
    schema = "disabled",
    status = "VirtualMCPCompositeToolDefinitionStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "vmcpctd",
    shortname = "compositetool",
    category = "mcp",
    printcolumn(name = "Workflow", type_ = "string", json_path = ".spec.name"),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.validationStatus"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    )
)]
pub struct VirtualMCPCompositeToolDefinitionSpec {
    /// The tool, as an entry of `compositeTools` in `vmcp.yaml`.
    #[serde(flatten)]
    pub definition: Block,
}

impl JsonSchema for VirtualMCPCompositeToolDefinitionSpec {
    fn schema_name() -> Cow<'static, str> {
        "VirtualMCPCompositeToolDefinitionSpec".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = CompositeToolSchema::json_schema(generator);
        let description = "A composite tool: steps that call tools of backends, under one name, for \
            VirtualMCPServers that refer to it in `spec.config.compositeToolRefs`. Texts of its steps are \
            templates of Go's `text/template` with the functions `json`, `quote` and `fromJson`.";
        schema.insert("description".to_owned(), description.into());
        schema
    }
}

impl VirtualMCPCompositeToolDefinitionSpec {
    /// Returns the name of the tool.
    pub fn name(&self) -> &str {
        self.definition.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    /// Checks the definition. The validator of `vmcp.yaml` itself decides, on a file with this tool alone:
    /// one mistake would make the file of a VirtualMCPServer invalid as a whole.
    pub fn check(&self) -> Result<(), Invalid> {
        const AT: &str = "compositeTools[0]";
        let file = json!({
            "backends": [{ "name": "any", "url": "https://example.com/mcp" }],
            "compositeTools": [escape(self.definition.clone().into())],
        });
        let Err(problems) = vmcp_config::load(&file.to_string(), "vmcp.yaml", &|_| None) else {
            return Ok(());
        };
        let place = |Problem { path, message, remedy, line: _ }: Problem| {
            let path = path.strip_prefix(AT).unwrap_or(&path);
            Problem::new(format!("spec{path}"), message, remedy)
        };
        Err(Invalid(problems.list.into_iter().map(place).collect()))
    }
}

/// Observed state of a VirtualMCPCompositeToolDefinition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct VirtualMCPCompositeToolDefinitionStatus {
    /// `Valid` if VirtualMCPServers can serve the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_status: Option<ValidationStatus>,
    /// Mistakes, each with its place and its remedy.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub validation_errors: Vec<String>,
    /// Names of the VirtualMCPServers that refer to the tool.
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub referencing_virtual_servers: Vec<String>,
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the resource; `Ready` sums them up, `WorkflowValidated` says what is wrong.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Result of checking a composite tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ValidationStatus {
    /// The tool can be served.
    Valid,
    /// The tool is wrong; `validationErrors` says what.
    Invalid,
    /// The tool is not checked yet.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(spec: &str) -> Result<(), String> {
        let spec: VirtualMCPCompositeToolDefinitionSpec = serde_saphyr::from_str(spec).unwrap();
        spec.check().map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn a_mistake_is_told_by_its_place_in_the_resource() {
        let fine =
            "{name: t, steps: [{id: a, tool: web.get, arguments: {text: 'costs ${5} and $$', many: 5}}]}";
        assert_eq!(checked(fine), Ok(()));
        for (mistake, place) in [
            ("{name: t, steps: [{id: a, tol: web.get}]}", "spec.steps[0].tol"),
            (
                "{name: t, steps: [{id: a, tool: x, dependsOn: [b]}, {id: b, tool: x, dependsOn: [a]}]}",
                "spec.steps: a circle",
            ),
            ("{name: t, steps: [{id: a, tool: x, arguments: {q: '{{.steps'}}]}", "spec.steps[0].arguments.q"),
            ("{name: t, steps: []}", "spec.steps: missing"),
        ] {
            let message = checked(mistake).unwrap_err();
            assert!(message.contains(place), "{place}: {message}");
        }
    }
}
