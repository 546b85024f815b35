//! MCPAuthzConfig: policies about who may call what, for many servers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fields::yaml_block::Block;
use crate::problem::Problem;

/// Type of policies that a VirtualMCPServer can follow.
const CEDAR: &str = "cedarv1";
/// Keys of `config` as ToolHive writes them, with those of `incomingAuth.authz` in `vmcp.yaml`.
const KEYS: [(&str, &str); 5] = [
    ("policies", "policies"),
    ("entities_json", "entitiesJson"),
    ("group_claim_name", "groupClaimName"),
    ("role_claim_name", "roleClaimName"),
    ("group_entity_type", "groupEntityType"),
];

/// Policies shared by the VirtualMCPServers whose `incomingAuth.authzConfigRef` names them.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "toolhive.stacklok.com",
    version = "v1alpha1",
    kind = "MCPAuthzConfig",
    plural = "mcpauthzconfigs",
    namespaced,
    schema = "disabled",
    status = "MCPAuthzConfigStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "authzcfg",
    category = "mcp",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(
        name = "Valid",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Valid")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MCPAuthzConfigSpec {
    /// Type of the policies: `cedarv1`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Policies: `policies`, `entitiesJson`, `groupClaimName`, `roleClaimName`, `groupEntityType`, as in
    /// `incomingAuth.authz` of `vmcp.yaml`, or as ToolHive writes them (`entities_json`).
    #[schemars(schema_with = "any_object")]
    pub config: Block,
}

/// Returns the schema of an object whose keys are the policies' own.
fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Observed state of an MCPAuthzConfig.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPAuthzConfigStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the configuration; `Valid` says what is wrong.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl MCPAuthzConfigSpec {
    /// Returns the block `incomingAuth.authz` of `vmcp.yaml`.
    pub fn block(&self) -> Result<Block, Problem> {
        if self.kind != CEDAR {
            let message = format!("`{}` is not followed by a VirtualMCPServer", self.kind);
            return Err(Problem::new(
                "spec.type",
                message,
                "write `cedarv1`, with Cedar policies in spec.config",
            ));
        }
        let mut block = Block::new();
        block.insert("type".to_owned(), "cedar".into());
        for (key, value) in &self.config {
            let known = KEYS.iter().find(|(theirs, ours)| key == theirs || key == ours);
            match known {
                Some((_, ours)) => _ = block.insert((*ours).to_owned(), value.clone()),
                None if is_empty(value) => {}
                None => {
                    let keys = KEYS.map(|(_, ours)| format!("`{ours}`")).join(", ");
                    let remedy = format!("remove it; keys are {keys}");
                    return Err(Problem::new(format!("spec.config.{key}"), "is not followed", remedy));
                }
            }
        }
        Ok(block)
    }
}

/// True for a value that says nothing.
fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(str::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn block(kind: &str, config: &Value) -> Result<Value, String> {
        let spec: MCPAuthzConfigSpec =
            serde_json::from_value(json!({ "type": kind, "config": config })).unwrap();
        spec.block().map(Value::from).map_err(|problem| problem.to_string())
    }

    #[test]
    fn keys_are_understood_in_both_spellings_and_nothing_is_ignored() {
        let policies = json!(["permit(principal, action, resource);"]);
        let theirs = json!({ "policies": policies, "entities_json": "[]", "primary_upstream_provider": "" });
        let ours = json!({ "policies": policies, "entitiesJson": "[]" });
        assert_eq!(block("cedarv1", &theirs).unwrap()["entitiesJson"], "[]");
        assert_eq!(block("cedarv1", &theirs), block("cedarv1", &ours));
        assert!(block("httpv1", &ours).unwrap_err().starts_with("spec.type: `httpv1`"));
        let other = block("cedarv1", &json!({ "primaryUpstreamProvider": "github" })).unwrap_err();
        assert!(other.starts_with("spec.config.primaryUpstreamProvider: is not followed"), "{other}");
    }
}
