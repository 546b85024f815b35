//! Policies of a VirtualMCPServer: `incomingAuth.authzConfig` and `authzConfigRef`, with ToolHive's fields,
//! beside `incomingAuth.authz`, with those of `vmcp.yaml`.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vmcp_config::raw::{RawAuthz, RawToolScope};

use super::incoming_auth::IncomingAuth;
use crate::fields::cel_rules::rules;
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

/// Policies in the resource itself, or in a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "self.type == 'configMap' ? has(self.configMap) : !has(self.configMap)",
        "configMap is for type configMap; give it with this type, and with no other",
    ),
    (
        "self.type == 'inline' ? has(self.inline) : !has(self.inline)",
        "inline is for type inline; give it with this type, and with no other",
    ),
])))]
struct AuthzConfig {
    /// Place of the policies. For policies that several servers share, see `authzConfigRef`.
    #[serde(default, rename = "type")]
    kind: AuthzConfigType,
    /// The policies, with `type: inline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inline: Option<InlineAuthz>,
    /// ConfigMap with the policies, with `type: configMap`. A change of it takes effect by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    config_map: Option<PolicyFile>,
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum AuthzConfigType {
    /// In a ConfigMap.
    #[default]
    ConfigMap,
    /// In `inline`.
    Inline,
}

/// Key of a ConfigMap of the same namespace that holds policies as ToolHive writes them: JSON or YAML with
/// `version`, `type: cedarv1` and `cedar`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyFile {
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in the data of the ConfigMap.
    #[serde(default = "policy_key")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

fn policy_key() -> String {
    "authz.json".to_owned()
}

/// Content of a [`PolicyFile`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyDocument {
    /// Version of the form; ToolHive has one.
    #[serde(default, rename = "version")]
    _version: Value,
    #[serde(rename = "type")]
    kind: String,
    cedar: Block,
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

/// Returns the ConfigMap that a block `incomingAuth` takes its policies from.
pub fn policy_file(incoming_auth: &Block) -> Option<PolicyFile> {
    policy_file_of(incoming_auth.get(INLINE)?.as_object()?)
}

/// Returns the ConfigMap that a block `authzConfig` takes its policies from.
pub fn policy_file_of(authz_config: &Block) -> Option<PolicyFile> {
    serde_json::from_value(authz_config.get("configMap")?.clone()).ok()
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
    file: Option<&str>,
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
            let problem = |(place, message, remedy): (String, String, String)| {
                Problem::new(format!("{}{place}", path(INLINE)), message, remedy)
            };
            Some(block(&read.map_err(unreadable)?, file).map_err(problem)?)
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

/// A mistake: the place below `authzConfig`, the fault, and the remedy.
type Mistake = (String, String, String);

/// Returns the block `authz` of the policies. `file` is the content of the ConfigMap, if that exists. Names
/// of claims in the resource win over those of the ConfigMap.
fn block(config: &AuthzConfig, file: Option<&str>) -> Result<Block, Mistake> {
    let mut block: Block = match (config.kind, &config.inline, &config.config_map) {
        (AuthzConfigType::Inline, Some(inline), _) => {
            let fixed = [("type", json!("cedar")), ("policies", json!(inline.policies))];
            let entities = inline.entities_json.iter().map(|entities| ("entitiesJson", json!(entities)));
            fixed.into_iter().chain(entities).map(|(key, value)| (key.to_owned(), value)).collect()
        }
        (AuthzConfigType::ConfigMap, _, Some(place)) => block_of_file(place, file)?,
        (AuthzConfigType::Inline, None, _) => {
            return Err((
                ".inline".to_owned(),
                "is missing".to_owned(),
                "write the policies there".to_owned(),
            ));
        }
        (AuthzConfigType::ConfigMap, _, None) => {
            let remedy = "name the ConfigMap there, or set `type: inline`";
            return Err((".configMap".to_owned(), "is missing".to_owned(), remedy.to_owned()));
        }
    };
    let claims = [
        ("groupClaimName", &config.group_claim_name),
        ("roleClaimName", &config.role_claim_name),
        ("groupEntityType", &config.group_entity_type),
    ];
    for (key, value) in claims {
        if let Some(value) = value {
            block.insert(key.to_owned(), json!(value));
        }
    }
    Ok(block)
}

/// Returns the block `authz` of the policies in a ConfigMap.
fn block_of_file(PolicyFile { name, key }: &PolicyFile, file: Option<&str>) -> Result<Block, Mistake> {
    let place = ".configMap".to_owned();
    let Some(text) = file else {
        let message = format!("there is no text under the key {key} of a ConfigMap {name} in this namespace");
        let remedy = format!("create it: `kubectl create configmap {name} --from-file={key}=…`");
        return Err((place, message, remedy));
    };
    let read: Result<PolicyDocument, _> = serde_saphyr::from_str(text);
    let PolicyDocument { kind, cedar, .. } = read.map_err(|error| {
        // Further lines show the text of the ConfigMap, which readers of the status may not know.
        let error = error.to_string();
        let error = error.lines().next().unwrap_or_default();
        let message = format!("the key {key} of the ConfigMap {name} cannot be read: {error}");
        let remedy = "write JSON or YAML with `version`, `type: cedarv1` and `cedar: {policies: […]}`";
        (place.clone(), message, remedy.to_owned())
    })?;
    // The blocks of an MCPAuthzConfig and of this file have the same keys.
    MCPAuthzConfigSpec { kind, config: cedar }.block().map_err(|problem| {
        let own = problem.path.strip_prefix("spec.").unwrap_or(&problem.path);
        let own = own.strip_prefix("config").map_or_else(|| own.to_owned(), |rest| format!("cedar{rest}"));
        let remedy = problem.remedy.replace("spec.config", "cedar");
        (place, format!("`{own}` in the ConfigMap {name}: {}", problem.message), remedy)
    })
}
