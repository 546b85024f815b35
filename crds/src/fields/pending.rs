//! Fields of ToolHive whose capability comes later: the API server accepts them, the operator ignores them,
//! and the condition `FieldsPending` names those that a resource has.
//!
//! Fields that guard the client endpoint of a VirtualMCPServer (`incomingAuth`) are followed or refused: an
//! endpoint that ignored one would be open.

use serde_json::{Map, Value, json};

/// A field that is accepted and not followed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingField {
    /// Path below `spec`, with dots.
    pub path: &'static str,
    /// The missing capability, or its replacement in vmcp.
    pub capability: &'static str,
}

/// Beginning of the description of a pending field.
pub(crate) const DESCRIPTION: &str = "Accepted and not followed";

const fn pending(path: &'static str, capability: &'static str) -> PendingField {
    PendingField { path, capability }
}

/// Fields of a VirtualMCPServer.
const VIRTUAL_MCP_SERVER: &[PendingField] = &[
    pending(
        "authServerConfig.allowConfidentialClientRegistration",
        "nothing: clients are public and prove themselves by PKCE",
    ),
    pending("authServerConfig.authorizationEndpointBaseUrl", "an authorization endpoint at another host"),
    pending(
        "authServerConfig.baselineClientScopes",
        "nothing: every client may ask for all scopes of incomingAuth.oidcConfigRef",
    ),
    pending("authServerConfig.cimd", "client identifiers that are URLs of metadata; clients register"),
    pending("authServerConfig.delegateClients", "token exchange at the authorization server"),
    pending(
        "authServerConfig.disableUpstreamTokenInjection",
        "nothing: only backends with upstreamInject get tokens of providers",
    ),
    pending("authServerConfig.forceConfidentialRedirectUris", "nothing: clients are public"),
    pending("authServerConfig.insecureAllowConfidentialOverLoopbackHTTP", "nothing: clients are public"),
    pending("authServerConfig.storage", "nothing: what clients carry is sealed, and any pod can open it"),
    pending("authServerConfig.trustedIssuers", "token exchange at the authorization server"),
    pending("config.audit.detectApplicationErrors", "nothing: errors of tools have an outcome of their own"),
    pending("config.audit.includeResponseData", "nothing: events hold no results"),
    pending("config.audit.maxDelegationDepth", "chains of delegation in audit events"),
    pending("config.backends", "nothing: backends are the members of the group"),
    pending("config.codeMode.stepLimit", "nothing: spec.config.code.timeout bounds a script by its time"),
    pending("config.incomingAuth", "authentication of clients; spec.incomingAuth decides"),
    pending("config.metadata", "nothing: labels of the resource"),
    pending("config.name", "nothing: the name of the resource"),
    pending(
        "config.operational.failureHandling.healthCheckInterval",
        "nothing: each call and each listing, every spec.config.proxy.refreshInterval, shows whether a backend is alive",
    ),
    pending(
        "config.operational.failureHandling.healthCheckTimeout",
        "nothing: spec.config.proxy.connectionTimeout",
    ),
    pending(
        "config.operational.failureHandling.statusReportingInterval",
        "nothing: the operator asks the pods, more often while something changes",
    ),
    pending(
        "config.operational.failureHandling.unhealthyThreshold",
        "nothing: circuitBreaker.failureThreshold beside it",
    ),
    pending("config.outgoingAuth", "nothing: spec.outgoingAuth, or externalAuthConfigRef of the backends"),
    pending("config.sessionStorage", "nothing: spec.sessionStorage"),
    pending("config.telemetry", "nothing: spec.telemetryConfigRef"),
];

/// Fields of an MCPServer.
const MCP_SERVER: &[PendingField] = &[
    pending("audit", "nothing: spec.config.audit of the VirtualMCPServer"),
    pending("authServerRef", "nothing: spec.authServerConfig of the VirtualMCPServer"),
    pending(
        "authzConfig",
        "authorization; until then the NetworkPolicy admits the group's VirtualMCPServers only",
    ),
    pending(
        "authzConfigRef",
        "authorization; until then the NetworkPolicy admits the group's VirtualMCPServers only",
    ),
    pending("backendReplicas", "nothing: spec.replicas"),
    pending("endpointPrefix", "a path before the endpoint"),
    pending(
        "oidcConfigRef",
        "authentication; until then the NetworkPolicy admits the group's VirtualMCPServers only",
    ),
    pending("proxyMode", "nothing: the bridge serves streamable HTTP in both eras"),
    pending("rateLimiting", "nothing: spec.config.rateLimiting of the VirtualMCPServer"),
    pending(
        "resourceOverrides.proxyDeployment.env",
        "nothing: no proxy is beside the server; its own variables are spec.env",
    ),
    pending("sessionStorage", "nothing: the VirtualMCPServer keeps sessions"),
    pending("telemetryConfigRef", "traces of the bridge"),
    pending("trustProxyHeaders", "a proxy before the server"),
    pending("volumes", "nothing: volumes in spec.podTemplateSpec"),
];

/// In place of fields that shape ToolHive's proxy.
const NO_PROXY: &str = "nothing: no proxy is run; VirtualMCPServers connect to the server themselves";

/// Fields of an MCPRemoteProxy.
const MCP_REMOTE_PROXY: &[PendingField] = &[
    pending("audit", "nothing: spec.config.audit of the VirtualMCPServer"),
    pending("authServerRef", "nothing: spec.authServerConfig of the VirtualMCPServer"),
    pending("authzConfig", "nothing: spec.incomingAuth.authzConfig of the VirtualMCPServer"),
    pending("authzConfigRef", "nothing: spec.incomingAuth.authzConfigRef of the VirtualMCPServer"),
    pending("endpointPrefix", NO_PROXY),
    pending("oidcConfigRef", "nothing: spec.incomingAuth.oidcConfigRef of the VirtualMCPServer"),
    pending("podTemplateSpec", NO_PROXY),
    pending("proxyPort", NO_PROXY),
    pending("replicas", NO_PROXY),
    pending("resourceOverrides", NO_PROXY),
    pending("resources", NO_PROXY),
    pending("serviceAccount", NO_PROXY),
    pending("sessionAffinity", NO_PROXY),
    pending("sessionStorage", NO_PROXY),
    pending("telemetryConfigRef", "nothing: spec.telemetryConfigRef of the VirtualMCPServer"),
    pending("trustProxyHeaders", NO_PROXY),
];

/// Fields of an MCPTelemetryConfig.
const MCP_TELEMETRY_CONFIG: &[PendingField] = &[
    pending("openTelemetry.caBundleRef", "certificates of a private authority"),
    pending("openTelemetry.metrics", "export of metrics; until then `GET /metrics`"),
    pending("openTelemetry.resourceAttributes", "attributes of traces"),
    pending("openTelemetry.useLegacyAttributes", "nothing: attributes have one form"),
];

/// Returns the pending fields of a kind.
pub fn fields_of(kind: &str) -> &'static [PendingField] {
    match kind {
        "VirtualMCPServer" => VIRTUAL_MCP_SERVER,
        "MCPServer" => MCP_SERVER,
        "MCPRemoteProxy" => MCP_REMOTE_PROXY,
        "MCPTelemetryConfig" => MCP_TELEMETRY_CONFIG,
        _ => &[],
    }
}

/// Returns the pending fields that a `spec` has.
pub fn given(kind: &str, spec: &Value) -> Vec<PendingField> {
    let is_given = |field: &&PendingField| {
        let found = field.path.split('.').try_fold(spec, |block, name| block.get(name));
        found.is_some_and(|value| !value.is_null())
    };
    fields_of(kind).iter().filter(is_given).copied().collect()
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
    for PendingField { path, capability } in fields_of(kind) {
        let (blocks, field) = path.rsplit_once('.').unwrap_or(("", path));
        let mut properties = "/properties".to_owned();
        for block in blocks.split('.').filter(|name| !name.is_empty()) {
            properties.push('/');
            properties.push_str(block);
            properties.push_str("/properties");
        }
        if let Some(Value::Object(properties)) = spec.pointer_mut(&properties) {
            let description = format!("{DESCRIPTION}; waits for {capability}.");
            let description = description.replace("waits for nothing: ", "in its place: ");
            let mut schema = Map::new();
            schema.insert("description".to_owned(), description.into());
            schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true));
            properties.entry(field).or_insert(schema.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_fields_are_found_at_any_depth() {
        let spec = json!({ "authServerConfig": { "cimd": {} }, "config": { "codeMode": { "stepLimit": 9 }, "name": null } });
        let paths: Vec<_> = given("VirtualMCPServer", &spec).iter().map(|field| field.path).collect();
        assert_eq!(paths, ["authServerConfig.cimd", "config.codeMode.stepLimit"]);
        assert!(given("MCPGroup", &spec).is_empty());
    }

    #[test]
    fn the_file_is_spared_pending_fields() {
        let handling =
            json!({ "failureHandling": { "partialFailureMode": "fail", "healthCheckInterval": "30s" } });
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
