//! Policies of a VirtualMCPServer: `incomingAuth.authzConfig` and `authzConfigRef`, with ToolHive's fields,
//! beside `incomingAuth.authz`, with those of `vmcp.yaml`.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vmcp_config::raw::{RawAuthz, RawToolScope};

use super::incoming_auth::IncomingAuth;
use crate::fields::references::LocalReference;
use crate::fields::yaml_block::Block;
use crate::problem::Problem;
use crate::shared_settings::mcp_authz_config::MCPAuthzConfigSpec;

/// Key of policies as `vmcp.yaml` has them.
const AUTHZ: &str = "authz";
/// Key of the scopes that tools need, as `vmcp.yaml` has it.
const TOOL_SCOPES: &str = "toolScopes";
/// Keys of policies that `vmcp.yaml` does not have.
const INLINE: &str = "authzConfig";
const REFERENCE: &str = "authzConfigRef";

/// Policies in the resource itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AuthzConfig {
    /// Place of the policies: `inline`. For policies that several servers share, see `authzConfigRef`.
    #[serde(rename = "type")]
    kind: AuthzConfigType,
    /// The policies.
    inline: InlineAuthz,
    /// Claim that lists the client's groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    group_claim_name: Option<String>,
    /// Claim that lists the client's roles, which become groups too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    role_claim_name: Option<String>,
    /// Entity type of the client's groups in policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    group_entity_type: Option<String>,
}

/// Places of policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum AuthzConfigType {
    /// In `inline`.
    Inline,
}

/// Cedar policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct InlineAuthz {
    /// Cedar policies, one or several a text.
    #[schemars(length(min = 1))]
    policies: Vec<String>,
    /// Cedar entities as a JSON list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entities_json: Option<String>,
}

/// Returns the schema of `incomingAuth` with all places of policies.
pub(super) fn incoming_auth_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = IncomingAuth::json_schema(generator);
    let authz = RawAuthz::json_schema(generator).to_value();
    let inline = AuthzConfig::json_schema(generator).to_value();
    let mut reference = LocalReference::json_schema(generator).to_value();
    if let Some(reference) = reference.as_object_mut() {
        reference.insert("description".to_owned(), "MCPAuthzConfig with the policies.".into());
    }
    let mut scopes = <Vec<RawToolScope>>::json_schema(generator).to_value();
    if let Some(scopes) = scopes.as_object_mut() {
        let description =
            "Scopes that calls of tools need; a token without them gets 403 with a challenge (step-up).";
        scopes.insert("description".to_owned(), description.into());
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.insert(TOOL_SCOPES.to_owned(), scopes);
        properties.insert(AUTHZ.to_owned(), authz);
        properties.insert(INLINE.to_owned(), inline);
        properties.insert(REFERENCE.to_owned(), reference);
    }
    schema
}

/// Returns the schema of policies in a resource, `authzConfig`.
pub(crate) fn inline_policies_schema(generator: &mut SchemaGenerator) -> Schema {
    AuthzConfig::json_schema(generator)
}

/// Returns the name of the MCPAuthzConfig that a block `incomingAuth` names.
pub fn reference(incoming_auth: &Block) -> Option<&str> {
    incoming_auth.get(REFERENCE)?.get("name")?.as_str()
}

/// True if a block `incomingAuth` has policies, wherever they are.
pub fn is_given(incoming_auth: &Block) -> bool {
    [INLINE, REFERENCE, AUTHZ].iter().any(|key| incoming_auth.contains_key(*key))
}

/// Returns `incomingAuth` as `vmcp.yaml` has it. Fails closed: policies that are missing or cannot be
/// followed make the resource invalid, for a server without them would be open.
pub(crate) fn lowered(
    mut incoming_auth: Block,
    referenced: Option<&MCPAuthzConfigSpec>,
    server: &str,
) -> Result<Block, Problem> {
    let name = reference(&incoming_auth).map(str::to_owned);
    let (inline, named) = (incoming_auth.remove(INLINE), incoming_auth.remove(REFERENCE));
    let given = [incoming_auth.contains_key(AUTHZ), inline.is_some(), named.is_some()];
    if given.iter().filter(|given| **given).count() > 1 {
        let remedy = "keep one of authz, authzConfig and authzConfigRef";
        return Err(Problem::new("spec.incomingAuth", "has policies in several places", remedy));
    }
    let path = |key: &str| format!("spec.incomingAuth.{key}");
    let authz = match (inline, name) {
        (Some(inline), _) => {
            let read: Result<AuthzConfig, _> = serde_json::from_value(inline);
            let unreadable = |error| Problem::new(path(INLINE), format!("{error}"), "see `kubectl explain`");
            Some(block(&read.map_err(unreadable)?))
        }
        (None, Some(name)) => {
            let Some(spec) = referenced else {
                let message = format!("there is no MCPAuthzConfig {name} in this namespace");
                return Err(Problem::new(path(REFERENCE), message, "create it, or correct the name"));
            };
            Some(spec.block().map_err(|problem| Problem {
                path: format!("MCPAuthzConfig {name}: {}", problem.path),
                ..problem
            })?)
        }
        (None, None) => None,
    };
    if let Some(mut authz) = authz {
        // Policies of ToolHive name resources as ToolHive writes them.
        authz.entry("resourceIds").or_insert_with(|| "toolhive".into());
        incoming_auth.insert(AUTHZ.to_owned(), authz.into());
    }
    if let Some(Value::Object(authz)) = incoming_auth.get_mut(AUTHZ) {
        authz.entry("serverName").or_insert_with(|| server.into());
    }
    Ok(incoming_auth)
}

/// Returns the block `authz` of policies in the resource.
fn block(config: &AuthzConfig) -> Block {
    let AuthzConfig { kind: AuthzConfigType::Inline, inline, .. } = config;
    let settings = [
        ("entitiesJson", &inline.entities_json),
        ("groupClaimName", &config.group_claim_name),
        ("roleClaimName", &config.role_claim_name),
        ("groupEntityType", &config.group_entity_type),
    ];
    let settings = settings.into_iter().filter_map(|(key, value)| Some((key, json!(value.as_ref()?))));
    let fixed = [("type", json!("cedar")), ("policies", json!(inline.policies))];
    fixed.into_iter().chain(settings).map(|(key, value)| (key.to_owned(), value)).collect()
}
