//! Fields of ToolHive whose capability comes later: the API server accepts them, nothing follows them, and
//! the condition `FieldsPending` names those that a resource has.
//!
//! A field that guards the client endpoint (`incomingAuth.type: oidc`) is none of these: it stays refused,
//! since an endpoint that ignored it would be open.

use serde_json::{Map, Value, json};

/// A field that is accepted and not followed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingField {
    /// Path below `spec`, with dots; `[]` stands for every item of a list.
    pub path: &'static str,
    /// The capability that the field waits for, or what stands in its place here.
    pub capability: &'static str,
}

const fn pending(path: &'static str, capability: &'static str) -> PendingField {
    PendingField { path, capability }
}

/// Fields of a VirtualMCPServer.
const VIRTUAL_MCP_SERVER: &[PendingField] = &[
    pending("authServerConfig", "an authorization server"),
    pending("sessionStorage", "nothing: session ids are sealed, and need no store"),
    pending(
        "config.aggregation.tools[].toolConfigRef",
        "nothing: filter and overrides in the same entry of spec.config.aggregation.tools",
    ),
    pending("config.audit.detectApplicationErrors", "nothing: errors of tools have an outcome of their own"),
    pending("config.audit.includeResponseData", "nothing: events hold no results"),
    pending("config.audit.maxDelegationDepth", "chains of delegation in audit events"),
    pending("config.backends", "nothing: backends are the members of the group"),
    pending("config.codeMode", "scripts that call tools"),
    pending("config.compositeTools", "composite tools"),
    pending("config.compositeToolRefs", "composite tools"),
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
    pending("config.sessionStorage", "nothing: session ids are sealed, and need no store"),
    pending("config.telemetry", "nothing: spec.telemetryConfigRef"),
];

/// Fields of an MCPServer.
const MCP_SERVER: &[PendingField] = &[
    pending("audit", "nothing: spec.config.audit of the VirtualMCPServer"),
    pending("authServerRef", "an authorization server"),
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
    pending("permissionProfile", "limits on outgoing connections; until then a NetworkPolicy of your own"),
    pending("proxyMode", "nothing: the bridge serves streamable HTTP in both eras"),
    pending("rateLimiting", "nothing: spec.config.rateLimiting of the VirtualMCPServer"),
    pending("resourceOverrides", "labels and annotations of what is made"),
    pending("sessionStorage", "nothing: the VirtualMCPServer keeps sessions"),
    pending("telemetryConfigRef", "traces of the bridge"),
    pending("toolConfigRef", "nothing: spec.config.aggregation.tools of the VirtualMCPServer"),
    pending("trustProxyHeaders", "a proxy before the server"),
    pending("volumes", "nothing: volumes in spec.podTemplateSpec"),
    pending("webhookConfigRef", "webhooks"),
];

/// Fields of an MCPServerEntry.
const MCP_SERVER_ENTRY: &[PendingField] = &[pending("caBundleRef", "certificates of a private authority")];

/// Fields of an EmbeddingServer.
const EMBEDDING_SERVER: &[PendingField] =
    &[pending("resourceOverrides", "labels and annotations of what is made")];

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
        "MCPServerEntry" => MCP_SERVER_ENTRY,
        "EmbeddingServer" => EMBEDDING_SERVER,
        "MCPTelemetryConfig" => MCP_TELEMETRY_CONFIG,
        _ => &[],
    }
}

/// Returns the pending fields that a `spec` has.
pub fn given(kind: &str, spec: &Value) -> Vec<PendingField> {
    let is_given = |field: &&PendingField| {
        let mut found = vec![spec];
        for segment in field.path.split('.') {
            let (name, is_list) = segment.strip_suffix("[]").map_or((segment, false), |name| (name, true));
            let values = found.into_iter().filter_map(|block| block.get(name));
            found = if is_list {
                values.filter_map(Value::as_array).flatten().collect()
            } else {
                values.collect()
            };
        }
        found.iter().any(|value| !value.is_null())
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
        Some((segment, rest)) => match block.get_mut(segment.trim_end_matches("[]")) {
            Some(Value::Object(inner)) => remove_at(rest, inner),
            Some(Value::Array(items)) => {
                items.iter_mut().filter_map(Value::as_object_mut).for_each(|item| remove_at(rest, item));
            }
            _ => {}
        },
    }
}

/// Adds the pending fields of a kind to the schema of its `spec`: their content is not looked at.
pub(crate) fn add_to_schema(kind: &str, spec: &mut Value) {
    for PendingField { path, capability } in fields_of(kind) {
        let (blocks, field) = path.rsplit_once('.').unwrap_or(("", path));
        let mut properties = "/properties".to_owned();
        for block in blocks.split('.').filter(|name| !name.is_empty()) {
            properties.push('/');
            properties.push_str(block.trim_end_matches("[]"));
            properties.push_str(if block.ends_with("[]") { "/items/properties" } else { "/properties" });
        }
        if let Some(Value::Object(properties)) = spec.pointer_mut(&properties) {
            let description = format!("Accepted and not followed; waits for {capability}.");
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
        let spec =
            json!({ "authServerConfig": {}, "config": { "codeMode": { "enabled": true }, "name": null } });
        let paths: Vec<_> = given("VirtualMCPServer", &spec).iter().map(|field| field.path).collect();
        assert_eq!(paths, ["authServerConfig", "config.codeMode"]);
        assert!(given("MCPGroup", &spec).is_empty());
        let spec = json!({ "config": { "aggregation": { "tools": [{ "workload": "a" }, { "toolConfigRef": {} }] } } });
        let paths: Vec<_> = given("VirtualMCPServer", &spec).iter().map(|field| field.path).collect();
        assert_eq!(paths, ["config.aggregation.tools[].toolConfigRef"]);
    }

    #[test]
    fn the_file_is_spared_pending_fields() {
        let handling =
            json!({ "failureHandling": { "partialFailureMode": "fail", "healthCheckInterval": "30s" } });
        let Value::Object(mut block) = handling else { unreachable!() };
        remove("config.operational", &mut block);
        assert_eq!(Value::from(block), json!({ "failureHandling": { "partialFailureMode": "fail" } }));
        let tools = json!({ "tools": [{ "workload": "a", "toolConfigRef": { "name": "t" } }] });
        let Value::Object(mut block) = tools else { unreachable!() };
        remove("config.aggregation", &mut block);
        assert_eq!(Value::from(block), json!({ "tools": [{ "workload": "a" }] }));
    }

    #[test]
    fn every_pending_field_is_in_its_schema() {
        for definition in crate::definitions::all() {
            let kind = definition.spec.names.kind.clone();
            let schema = json!(definition.spec.versions[0].schema);
            for PendingField { path, .. } in fields_of(&kind) {
                let path = path.replace("[]", "/items").replace('.', "/properties/");
                let pointer = format!("/openAPIV3Schema/properties/spec/properties/{path}");
                assert!(schema.pointer(&pointer).is_some(), "{kind}: {pointer}");
            }
        }
    }
}
