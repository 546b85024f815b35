//! Fields of ToolHive that nothing follows, so that its manifests pass the API server's strict validation.
//!
//! Each has a [`Treatment`]. Fields about callers, credentials or audit are refused: a server that ignored
//! one would be open. Most others are refused too, until the annotation [`UNFOLLOWED_FIELDS`] of the resource
//! lets them be ignored. The few accepted fields, and the ignored ones, are named by the condition
//! `FieldsPending`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::yaml_block::Block;
use crate::problem::Problem;

/// Annotation of a resource. Its value [`IGNORE`] ignores fields with [`Treatment::Refused`].
pub const UNFOLLOWED_FIELDS: &str = "toolhive.stacklok.com/unfollowed-fields";
/// Value of [`UNFOLLOWED_FIELDS`].
pub const IGNORE: &str = "ignore";

/// Effect of a field that nothing follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Refuses the resource: the field guards callers, credentials or audit.
    Guard,
    /// Refuses the resource, unless its annotation [`UNFOLLOWED_FIELDS`] allows to ignore the field.
    Refused,
    /// None: the condition `FieldsPending` names the field.
    Accepted,
}

/// A field that nothing follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingField {
    /// Path below `spec`, with dots.
    pub path: &'static str,
    /// The missing capability, or its replacement in vmcp.
    pub capability: &'static str,
    /// The effect of the field.
    pub treatment: Treatment,
    /// Values, as text, whose meaning vmcp meets anyway.
    met: &'static [&'static str],
}

impl PendingField {
    /// Names values whose meaning vmcp meets anyway.
    const fn unless(self, met: &'static [&'static str]) -> Self {
        Self { met, ..self }
    }

    /// Returns true if the value asks for something that vmcp does not do.
    fn asks(&self, value: &Value) -> bool {
        let is_off = |key: &str, off: Value| value.get(key).is_some_and(|found| *found == off);
        let asks = match value {
            Value::Null | Value::Bool(false) => false,
            Value::Object(_) if is_off("enabled", json!(false)) => false,
            Value::Array(items) => !items.is_empty(),
            // An empty block may mean the defaults of a guard.
            _ if self.treatment == Treatment::Guard => true,
            Value::String(text) => !text.is_empty(),
            // Memory of its own is what each pod has.
            Value::Object(block) => {
                !(block.is_empty() || is_off("provider", json!("memory")) || is_off("type", json!("memory")))
            }
            _ => true,
        };
        let text = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        asks && !self.met.contains(&text().as_str())
    }

    /// Returns the replacement of the field, or the capability that it waits for.
    pub fn hint(&self) -> String {
        match self.capability.strip_prefix("nothing: ") {
            Some(replacement) => format!("in its place: {replacement}"),
            None => format!("waits for {}", self.capability),
        }
    }

    fn problem(&self) -> Problem {
        let path = format!("spec.{}", self.path);
        let remedy = match self.treatment {
            Treatment::Guard => format!("remove it ({})", self.hint()),
            Treatment::Refused | Treatment::Accepted => format!(
                "remove it ({}), or ignore such fields by the annotation `{UNFOLLOWED_FIELDS}: {IGNORE}`",
                self.hint()
            ),
        };
        Problem::new(path, "nothing follows this field", remedy)
    }
}

/// Beginning of the description of a pending field.
pub(crate) const DESCRIPTION: &str = "Not followed";

const fn field(path: &'static str, capability: &'static str, treatment: Treatment) -> PendingField {
    PendingField { path, capability, treatment, met: &[] }
}

const fn guard(path: &'static str, capability: &'static str) -> PendingField {
    field(path, capability, Treatment::Guard)
}

const fn refused(path: &'static str, capability: &'static str) -> PendingField {
    field(path, capability, Treatment::Refused)
}

const fn accepted(path: &'static str, capability: &'static str) -> PendingField {
    field(path, capability, Treatment::Accepted)
}

/// In place of fields about clients with a secret.
const PUBLIC_CLIENTS: &str = "nothing: clients are public and prove themselves by PKCE";

/// Lists the fields of an embedded authorization server in a block, and further fields after them.
macro_rules! with_auth_server {
    ($block:literal, $($further:expr),* $(,)?) => {
        &[
            refused(concat!($block, ".allowConfidentialClientRegistration"), PUBLIC_CLIENTS),
            refused(
                concat!($block, ".authorizationEndpointBaseUrl"),
                "an authorization endpoint at another host",
            ),
            refused(
                concat!($block, ".baselineClientScopes"),
                "nothing: every client may ask for all scopes of the oidcConfigRef beside it",
            ),
            refused(
                concat!($block, ".cimd"),
                "client identifiers that are URLs of metadata; clients register",
            ),
            guard(concat!($block, ".delegateClients"), "token exchange at the authorization server"),
            guard(
                concat!($block, ".disableUpstreamTokenInjection"),
                "nothing: tokens of providers go to backends with upstreamInject alone",
            ),
            guard(concat!($block, ".forceConfidentialRedirectUris"), PUBLIC_CLIENTS),
            refused(concat!($block, ".insecureAllowConfidentialOverLoopbackHTTP"), PUBLIC_CLIENTS),
            refused(
                concat!($block, ".storage"),
                "nothing: what clients carry is sealed, and any pod can open it",
            ),
            guard(concat!($block, ".trustedIssuers"), "token exchange at the authorization server"),
            $($further),*
        ]
    };
}

/// Fields of a VirtualMCPServer.
const VIRTUAL_MCP_SERVER: &[PendingField] = with_auth_server!(
    "authServerConfig",
    refused("config.audit.detectApplicationErrors", "nothing: errors of tools have an outcome of their own")
        .unless(&["true"]),
    guard("config.audit.includeResponseData", "nothing: events hold no results"),
    guard("config.audit.maxDelegationDepth", "chains of delegation in audit events").unless(&["10"]),
    refused("config.backends", "nothing: backends are the members of the group"),
    accepted("config.codeMode.stepLimit", "nothing: spec.config.code.timeout bounds a script by its time")
        .unless(&["100000"]),
    guard("config.incomingAuth", "authentication of clients; spec.incomingAuth decides"),
    accepted("config.metadata", "nothing: labels of the resource"),
    accepted("config.name", "nothing: the name of the resource"),
    accepted(
        "config.operational.failureHandling.statusReportingInterval",
        "nothing: the operator asks the pods, more often while something changes",
    )
    .unless(&["30s"]),
    guard("config.outgoingAuth", "nothing: spec.outgoingAuth, or externalAuthConfigRef of the backends"),
    refused("config.sessionStorage", "nothing: spec.sessionStorage"),
    refused("config.telemetry", "nothing: spec.telemetryConfigRef"),
);

/// Fields of an MCPServer.
const MCP_SERVER: &[PendingField] = &[
    refused("endpointPrefix", "a path before the endpoint"),
    refused("proxyMode", "nothing: the bridge serves streamable HTTP in both eras")
        .unless(&["streamable-http"]),
    accepted(
        "resourceOverrides.proxyDeployment.env",
        "nothing: the bridge takes its settings from the resource; variables of the server are spec.env",
    ),
    refused("trustProxyHeaders", "nothing: spec.oidcConfigRef.resourceUrl names the URL of the endpoint"),
];

/// In place of fields that shape ToolHive's proxy.
const NO_PROXY: &str = "nothing: no proxy is run; VirtualMCPServers connect to the server themselves";

/// Fields of an MCPRemoteProxy.
const MCP_REMOTE_PROXY: &[PendingField] = &[
    guard("audit", "nothing: spec.config.audit of the VirtualMCPServer"),
    guard("authServerRef", "nothing: spec.authServerConfig of the VirtualMCPServer"),
    guard("authzConfig", "nothing: spec.incomingAuth.authzConfig of the VirtualMCPServer"),
    guard("authzConfigRef", "nothing: spec.incomingAuth.authzConfigRef of the VirtualMCPServer"),
    refused("endpointPrefix", NO_PROXY),
    guard("oidcConfigRef", "nothing: spec.incomingAuth.oidcConfigRef of the VirtualMCPServer"),
    refused("podTemplateSpec", NO_PROXY),
    accepted("proxyPort", NO_PROXY).unless(&["8080"]),
    accepted("replicas", NO_PROXY),
    refused("resourceOverrides", NO_PROXY),
    accepted("resources", NO_PROXY),
    refused("serviceAccount", NO_PROXY),
    refused("sessionAffinity", NO_PROXY).unless(&["ClientIP"]),
    refused("sessionStorage", NO_PROXY),
    refused("telemetryConfigRef", "nothing: spec.telemetryConfigRef of the VirtualMCPServer"),
    refused("trustProxyHeaders", NO_PROXY),
];

/// Fields of an MCPExternalAuthConfig.
const MCP_EXTERNAL_AUTH_CONFIG: &[PendingField] = with_auth_server!("embeddedAuthServer",);

/// Fields of an MCPTelemetryConfig.
const MCP_TELEMETRY_CONFIG: &[PendingField] =
    &[refused("openTelemetry.useLegacyAttributes", "nothing: attributes have one form").unless(&["true"])];

/// Returns the pending fields of a kind.
pub fn fields_of(kind: &str) -> &'static [PendingField] {
    match kind {
        "VirtualMCPServer" => VIRTUAL_MCP_SERVER,
        "MCPServer" => MCP_SERVER,
        "MCPRemoteProxy" => MCP_REMOTE_PROXY,
        "MCPExternalAuthConfig" => MCP_EXTERNAL_AUTH_CONFIG,
        "MCPTelemetryConfig" => MCP_TELEMETRY_CONFIG,
        _ => &[],
    }
}

/// Returns the fields of a `spec` that ask for something and that nothing follows.
fn asked(kind: &str, spec: &Value) -> Vec<PendingField> {
    let asks = |field: &&PendingField| {
        let found = field.path.split('.').try_fold(spec, |block, name| block.get(name));
        found.is_some_and(|value| field.asks(value))
    };
    fields_of(kind).iter().filter(asks).copied().collect()
}

/// Returns true if the annotations of a resource let fields be ignored.
fn ignores(annotations: Option<&BTreeMap<String, String>>) -> bool {
    annotations.and_then(|all| all.get(UNFOLLOWED_FIELDS)).is_some_and(|value| value == IGNORE)
}

/// Returns the fields of a `spec` that are ignored, for the condition `FieldsPending`.
pub fn ignored(
    kind: &str,
    spec: &Value,
    annotations: Option<&BTreeMap<String, String>>,
) -> Vec<PendingField> {
    let mut fields = asked(kind, spec);
    fields.retain(|field| match field.treatment {
        Treatment::Guard => false,
        Treatment::Refused => ignores(annotations),
        Treatment::Accepted => true,
    });
    fields
}

/// Returns the problem of each field of a `spec` that refuses the resource.
pub fn problems(kind: &str, spec: &Value, annotations: Option<&BTreeMap<String, String>>) -> Vec<Problem> {
    let refuses = |field: &PendingField| match field.treatment {
        Treatment::Guard => true,
        Treatment::Refused => !ignores(annotations),
        Treatment::Accepted => false,
    };
    asked(kind, spec).iter().filter(|field| refuses(field)).map(PendingField::problem).collect()
}

/// Returns true if a `spec` has a guard that nothing follows.
pub fn lacks_a_guard(kind: &str, spec: &Value) -> bool {
    asked(kind, spec).iter().any(|field| field.treatment == Treatment::Guard)
}

/// Returns the fields among `pending` that refuse an MCPRemoteProxy: an entry that was read from one keeps
/// them, and the API server gives an MCPServerEntry none.
pub fn problems_of_entry(pending: &Block, annotations: Option<&BTreeMap<String, String>>) -> Vec<Problem> {
    problems("MCPRemoteProxy", &Value::from(pending.clone()), annotations)
}

/// Removes the pending fields of a VirtualMCPServer below `prefix` (such as `config.operational`) from the
/// block that is written there: the file that it goes into knows none of them.
pub(crate) fn remove(prefix: &str, block: &mut Map<String, Value>) {
    for PendingField { path, .. } in VIRTUAL_MCP_SERVER {
        if let Some(path) = path.strip_prefix(prefix).and_then(|path| path.strip_prefix('.')) {
            remove_at(path, block);
        }
    }
}

fn remove_at(path: &str, block: &mut Map<String, Value>) {
    match path.split_once('.') {
        None => drop(block.remove(path)),
        Some((name, rest)) => {
            if let Some(Value::Object(inner)) = block.get_mut(name) {
                remove_at(rest, inner);
            }
        }
    }
}

/// Adds the pending fields of a kind to the schema of its `spec`: their content is not looked at.
pub(crate) fn add_to_schema(kind: &str, spec: &mut Value) {
    for field in fields_of(kind) {
        let (blocks, name) = field.path.rsplit_once('.').unwrap_or(("", field.path));
        let mut properties = "/properties".to_owned();
        for block in blocks.split('.').filter(|name| !name.is_empty()) {
            properties.push('/');
            properties.push_str(block);
            properties.push_str("/properties");
        }
        if let Some(Value::Object(properties)) = spec.pointer_mut(&properties) {
            let effect = match field.treatment {
                Treatment::Guard | Treatment::Refused => "refused",
                Treatment::Accepted => "accepted",
            };
            let description = format!("{DESCRIPTION}, {effect}; {}.", field.hint());
            let mut schema = Map::new();
            schema.insert("description".to_owned(), description.into());
            schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true));
            properties.entry(name).or_insert(schema.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignoring() -> BTreeMap<String, String> {
        BTreeMap::from([(UNFOLLOWED_FIELDS.to_owned(), IGNORE.to_owned())])
    }

    fn paths(problems: Vec<Problem>) -> Vec<String> {
        problems.into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn a_field_without_an_effect_is_refused_until_the_annotation_ignores_it() {
        let spec = json!({ "authServerConfig": { "cimd": { "a": 1 } }, "config": { "codeMode": { "stepLimit": 9 }, "name": null } });
        let kind = "VirtualMCPServer";
        assert_eq!(paths(problems(kind, &spec, None)), ["spec.authServerConfig.cimd"]);
        assert_eq!(paths(problems(kind, &spec, Some(&ignoring()))), [""; 0]);
        let named = |annotations| -> Vec<_> {
            ignored(kind, &spec, annotations).iter().map(|field| field.path).collect()
        };
        assert_eq!(named(None), ["config.codeMode.stepLimit"]);
        assert_eq!(named(Some(&ignoring())), ["authServerConfig.cimd", "config.codeMode.stepLimit"]);
        let other = BTreeMap::from([(UNFOLLOWED_FIELDS.to_owned(), "true".to_owned())]);
        assert_eq!(problems(kind, &spec, Some(&other)).len(), 1, "another value ignores nothing");
        assert!(asked("MCPGroup", &spec).is_empty());
    }

    #[test]
    fn a_guard_is_refused_whatever_the_annotations_say() {
        for spec in [
            json!({ "oidcConfigRef": { "name": "a" } }),
            json!({ "authzConfig": {} }),
            json!({ "audit": { "enabled": true } }),
        ] {
            let kind = "MCPRemoteProxy";
            assert_eq!(problems(kind, &spec, Some(&ignoring())).len(), 1, "{spec}");
            assert!(lacks_a_guard(kind, &spec), "{spec}");
            assert!(ignored(kind, &spec, Some(&ignoring())).is_empty(), "{spec}");
            assert!(problems("MCPServer", &spec, None).is_empty(), "followed: {spec}");
        }
        let problem =
            problems("MCPRemoteProxy", &json!({ "oidcConfigRef": { "name": "a" } }), None).remove(0);
        assert!(!problem.to_string().contains(UNFOLLOWED_FIELDS), "{problem}");
    }

    #[test]
    fn values_that_vmcp_meets_ask_for_nothing() {
        for spec in [
            json!({ "audit": { "enabled": false }, "trustProxyHeaders": false, "endpointPrefix": "" }),
            json!({ "sessionStorage": { "provider": "memory" } }),
        ] {
            assert!(problems("MCPRemoteProxy", &spec, None).is_empty(), "{spec}");
        }
        assert!(problems("MCPServer", &json!({ "proxyMode": "streamable-http" }), None).is_empty());
        let empty = json!({ "authServerConfig": { "trustedIssuers": [], "delegateClients": [] } });
        assert!(problems("VirtualMCPServer", &empty, None).is_empty());
        let filled = json!({ "authServerConfig": { "trustedIssuers": [{}], "delegateClients": ["a"] } });
        assert_eq!(problems("VirtualMCPServer", &filled, Some(&ignoring())).len(), 2);
        assert_eq!(problems("MCPServer", &json!({ "proxyMode": "sse" }), None).len(), 1);
        let redis = json!({ "sessionStorage": { "provider": "redis" } });
        assert_eq!(problems("MCPRemoteProxy", &redis, None).len(), 1);
    }

    #[test]
    fn both_places_of_an_authorization_server_lack_the_same_fields() {
        let below = |kind: &str, block: &str| -> Vec<_> {
            let fields = fields_of(kind).iter();
            fields.filter_map(|field| Some((field.path.strip_prefix(block)?, field.treatment))).collect()
        };
        let of_server = below("VirtualMCPServer", "authServerConfig");
        assert_eq!(of_server, below("MCPExternalAuthConfig", "embeddedAuthServer"));
        assert!(of_server.contains(&(".trustedIssuers", Treatment::Guard)), "{of_server:?}");
    }

    /// Ten at most, and none about callers, credentials or audit: such a field refuses the resource.
    #[test]
    fn few_fields_are_accepted_without_an_effect() {
        let definitions = crate::definitions::all();
        let kinds = definitions.iter().map(|definition| definition.spec.names.kind.as_str());
        let fields = kinds.flat_map(fields_of);
        let accepted = fields.filter(|field| field.treatment == Treatment::Accepted);
        let accepted: Vec<_> = accepted.map(|field| field.path).collect();
        let known = [
            "config.codeMode.stepLimit",
            "config.metadata",
            "config.name",
            "config.operational.failureHandling.statusReportingInterval",
            "resourceOverrides.proxyDeployment.env",
            "proxyPort",
            "replicas",
            "resources",
        ];
        assert_eq!(accepted, known);
    }

    #[test]
    fn the_file_is_spared_pending_fields() {
        let handling =
            json!({ "failureHandling": { "partialFailureMode": "fail", "statusReportingInterval": "30s" } });
        let Value::Object(mut block) = handling else { unreachable!() };
        remove("config.operational", &mut block);
        assert_eq!(Value::from(block), json!({ "failureHandling": { "partialFailureMode": "fail" } }));
    }

    #[test]
    fn every_pending_field_is_in_its_schema() {
        for definition in crate::definitions::all() {
            let kind = definition.spec.names.kind.clone();
            let schema = json!(definition.spec.versions[0].schema);
            for PendingField { path, .. } in fields_of(&kind) {
                let path = path.replace('.', "/properties/");
                let pointer = format!("/openAPIV3Schema/properties/spec/properties/{path}");
                assert!(schema.pointer(&pointer).is_some(), "{kind}: {pointer}");
            }
        }
    }
}
