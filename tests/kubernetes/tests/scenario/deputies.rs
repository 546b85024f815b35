//! Confused deputies: tenants with rights on the operator's resources alone, and their attempts to have the
//! operator make or read objects beyond these rights.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use vmcp_kubernetes_tests::{Cluster, Namespace};

/// The rights of the tenants, all in the namespace: of `tenant`, the operator's resources, Deployments and
/// Services; of `runner`, no Services; of `writer`, the operator's resources alone; of `host`,
/// VirtualMCPServers, Deployments and Jobs.
pub(super) const TENANT: &str = "apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: tenant}
rules:
- {apiGroups: [toolhive.stacklok.com], resources: ['*'], verbs: ['*']}
- {apiGroups: [apps], resources: [deployments], verbs: ['*']}
- {apiGroups: [''], resources: [services], verbs: ['*']}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tenant}
subjects: [{kind: User, name: tenant, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: runner}
rules:
- {apiGroups: [toolhive.stacklok.com], resources: ['*'], verbs: ['*']}
- {apiGroups: [apps], resources: [deployments], verbs: ['*']}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: runner}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: runner}
subjects: [{kind: User, name: runner, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: writer}
rules:
- {apiGroups: [toolhive.stacklok.com], resources: ['*'], verbs: ['*']}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: writer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writer}
subjects: [{kind: User, name: writer, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: host}
rules:
- {apiGroups: [toolhive.stacklok.com], resources: [virtualmcpservers], verbs: ['*']}
- {apiGroups: [apps], resources: [deployments], verbs: ['*']}
- {apiGroups: [batch], resources: [jobs], verbs: ['*']}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: host}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: host}
subjects: [{kind: User, name: host, apiGroup: rbac.authorization.k8s.io}]";

/// Returns a client that acts as a user.
pub(super) async fn client_as(cluster: &Cluster, user: &str) -> Client {
    let file = Kubeconfig::read_from(cluster.kubeconfig()).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let mut config = config.expect("a configuration");
    config.auth_info.impersonate = Some(user.to_owned());
    Client::try_from(config).expect("a client")
}

/// Applies a resource as the tenant; returns the refusal.
pub(super) async fn refusal(
    tenant: &Client,
    place: &Namespace,
    kind: &str,
    name: &str,
    spec: &Value,
) -> Option<String> {
    let object = json!({
        "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec,
    });
    let lower = kind.to_lowercase();
    let plural = lower.strip_suffix('y').map_or_else(|| format!("{lower}s"), |stem| format!("{stem}ies"));
    let path = format!("/apis/toolhive.stacklok.com/v1alpha1/namespaces/{}/{plural}", place.name);
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(object.to_string().into_bytes()).expect("a request");
    tenant.request::<Value>(request).await.err().map(|error| error.to_string())
}

/// An attempt: user, kind, spec, and the right that the refusal names.
pub(super) struct Attempt {
    user: &'static str,
    kind: &'static str,
    spec: Value,
    right: &'static str,
}

/// Returns an attempt for each object that the operator would make, and each Secret that it would read, with
/// rights of its own.
pub(super) fn attempts() -> Vec<Attempt> {
    let key = json!({ "name": "s", "key": "k" });
    let own =
        json!({ "name": "a", "remoteUrl": "https://a.example", "externalAuthConfigRef": { "name": "a" } });
    let gateway = json!([{ "name": "public", "namespace": "gateways" }]);
    let header = json!({ "headerName": "A", "valueSecretRef": key });
    let collector = json!({
        "enabled": true, "endpoint": "a.example:4318", "sensitiveHeaders": [{ "name": "A", "secretKeyRef": key }],
    });
    let entry = json!({
        "remoteUrl": "https://a.example/mcp", "headerForward": { "addHeadersFromSecret": [header] },
    });
    let bearer = json!({ "type": "bearerToken", "bearerToken": { "tokenSecretRef": key } });
    let authority = json!({ "configMapRef": { "name": "c", "key": "k" } });
    let borrowed = json!({ "remoteUrl": "https://a.example/mcp", "externalAuthConfigRef": { "name": "a" } });
    let private = json!({ "remoteUrl": "https://a.example/mcp", "caBundleRef": authority });
    let (autoscalers, budgets) = ("create HorizontalPodAutoscalers", "create PodDisruptionBudgets");
    let policies = "create NetworkPolicies";
    let (secrets, deployments) = ("get Secrets", "create Deployments");
    let note = json!({ "annotations": { "a": "b" } });
    let managed = json!({ "provider": "tei", "tei": { "managed": {} } });
    [
        ("writer", "VirtualMCPServer", json!({}), deployments),
        ("writer", "MCPServer", json!({ "image": "i", "command": ["c"] }), deployments),
        ("runner", "VirtualMCPServer", json!({ "serviceType": "LoadBalancer" }), "create Services"),
        (
            "tenant",
            "VirtualMCPServer",
            json!({ "optimizer": { "enabled": true, "tools": ["add_mcp_server"] } }),
            "create Secrets",
        ),
        (
            "tenant",
            "VirtualMCPServer",
            json!({ "httpRoute": { "parentRefs": gateway } }),
            "create HTTPRoutes",
        ),
        ("tenant", "VirtualMCPServer", json!({ "serviceMonitor": {} }), "create ServiceMonitors"),
        ("tenant", "EmbeddingServer", json!({}), "create StatefulSets"),
        (
            "tenant",
            "VirtualMCPServer",
            json!({ "optimizer": { "enabled": true, "embeddings": managed } }),
            "create StatefulSets",
        ),
        (
            "runner",
            "VirtualMCPServer",
            json!({ "resourceOverrides": { "service": note } }),
            "create Services",
        ),
        (
            "runner",
            "MCPServer",
            json!({ "image": "i", "resourceOverrides": { "proxyService": note } }),
            "create Services",
        ),
        (
            "tenant",
            "VirtualMCPServer",
            json!({ "resourceOverrides": { "serviceAccount": note } }),
            "create ServiceAccounts",
        ),
        ("tenant", "VirtualMCPServer", json!({ "autoscaling": { "maxReplicas": 2 } }), autoscalers),
        ("tenant", "VirtualMCPServer", json!({ "podDisruptionBudget": { "maxUnavailable": 0 } }), budgets),
        ("tenant", "VirtualMCPServer", json!({ "networkPolicy": {} }), policies),
        ("tenant", "VirtualMCPServer", json!({ "console": { "viewerTokenSecretRefs": [key] } }), secrets),
        ("tenant", "VirtualMCPServer", json!({ "backends": [own] }), secrets),
        ("tenant", "VirtualMCPServer", json!({ "config": { "code": { "engine": "job" } } }), "create Jobs"),
        (
            "tenant",
            "MCPServer",
            json!({ "image": "i", "networkPolicy": { "ingressFrom": [{ "ipBlock": { "cidr": "0.0.0.0/0" } }] } }),
            policies,
        ),
        (
            "tenant",
            "MCPServer",
            json!({ "image": "i", "permissionProfile": { "type": "configmap", "name": "p", "key": "k" } }),
            policies,
        ),
        ("tenant", "MCPServerEntry", entry.clone(), secrets),
        ("tenant", "MCPRemoteProxy", entry, secrets),
        ("writer", "MCPServerEntry", borrowed.clone(), secrets),
        ("writer", "MCPRemoteProxy", borrowed, secrets),
        ("writer", "MCPServerEntry", private.clone(), "get ConfigMaps"),
        ("writer", "MCPRemoteProxy", private, "get ConfigMaps"),
        ("tenant", "MCPExternalAuthConfig", bearer, secrets),
        ("tenant", "MCPTelemetryConfig", json!({ "openTelemetry": collector }), secrets),
    ]
    .into_iter()
    .chain(of_webhooks(&key))
    .chain(of_providers(&key, &authority))
    .chain(of_hosts())
    .map(|(user, kind, spec, right)| Attempt { user, kind, spec, right })
    .collect()
}

/// Returns the attempts with references of identity providers and collectors.
fn of_providers(key: &Value, authority: &Value) -> [(&'static str, &'static str, Value, &'static str); 3] {
    let introspected = json!({ "type": "inline", "inline": {
        "issuer": "https://a.example", "introspectionUrl": "https://a.example/t", "clientId": "v", "clientSecretRef": key,
    } });
    let private =
        json!({ "type": "inline", "inline": { "issuer": "https://a.example", "caBundleRef": authority } });
    let collector = json!({ "openTelemetry": { "caBundleRef": authority } });
    [
        ("writer", "MCPOIDCConfig", introspected, "get Secrets"),
        ("writer", "MCPOIDCConfig", private, "get ConfigMaps"),
        ("writer", "MCPTelemetryConfig", collector, "get ConfigMaps"),
    ]
}

/// Returns the attempts of authors who may run some pods: objects that these pods make, and other pods.
fn of_hosts() -> [(&'static str, &'static str, Value, &'static str); 6] {
    let optimizer = |more: Value| {
        let mut optimizer = json!({ "enabled": true });
        for (key, value) in more.as_object().into_iter().flatten() {
            optimizer[key] = value.clone();
        }
        json!({ "optimizer": optimizer })
    };
    let claim = optimizer(json!({ "storage": { "volume": { "persistentVolumeClaim": {} } } }));
    let images = optimizer(json!({ "admin": { "allow": [{ "image": "ghcr.io/a/*" }] } }));
    [
        ("writer", "MCPRegistry", json!({ "configYAML": "sources: []" }), "create Deployments"),
        ("tenant", "VirtualMCPServer", claim, "create StatefulSets"),
        ("host", "VirtualMCPServer", json!({ "config": { "code": { "engine": "job" } } }), "list Pods"),
        (
            "host",
            "VirtualMCPServer",
            optimizer(json!({ "tools": ["add_mcp_server"] })),
            "create MCPServerEntries",
        ),
        (
            "host",
            "VirtualMCPServer",
            optimizer(json!({ "tools": ["install_server"] })),
            "create MCPServerEntries",
        ),
        ("host", "VirtualMCPServer", images, "create MCPServers"),
    ]
}

/// Returns the attempts with Secrets of webhooks.
fn of_webhooks(key: &Value) -> [(&'static str, &'static str, Value, &'static str); 2] {
    let webhook = |more: Value| {
        let mut webhook = json!({ "name": "a", "url": "https://a.example/" });
        for (key, value) in more.as_object().into_iter().flatten() {
            webhook[key] = value.clone();
        }
        webhook
    };
    let secrets = "get Secrets";
    [
        (
            "tenant",
            "MCPWebhookConfig",
            json!({ "validating": [webhook(json!({ "hmacSecretRef": key }))] }),
            secrets,
        ),
        (
            "writer",
            "MCPWebhookConfig",
            json!({
                "mutating": [webhook(json!({}))],
                "post": [webhook(json!({})), webhook(json!({ "name": "b", "tlsConfig": { "caSecretRef": key } }))],
            }),
            secrets,
        ),
    ]
}

/// Waits until an attempt is refused for want of its right, and returns the refusal: a policy is in force a
/// moment after it was made.
pub(super) async fn refused(place: &Namespace, Attempt { user, kind, spec, right }: &Attempt) -> String {
    let client = client_as(place.cluster(), user).await;
    place
        .eventually(&format!("the policy to want the right to {right} for {kind}"), async || {
            let refused = refusal(&client, place, kind, "attempt", spec).await;
            if refused.is_none() {
                let object = format!("{kind}/attempt");
                let delete = ["delete", object.as_str(), "--namespace", &place.name];
                place.cluster().kubectl(&delete).await.expect("deleted");
            }
            refused.filter(|refused| refused.contains(right))
        })
        .await
}
