//! Credentials of backends: a backend is called with them, or not at all.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use vmcp_crds::MCPExternalAuthConfig;
use vmcp_kubernetes_tests::Namespace;

use super::backends::place;

const RESOURCES: &str = "
apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPExternalAuthConfig
metadata: {name: tickets}
spec: {type: bearerToken, bearerToken: {tokenSecretRef: {name: tickets, key: token}}}
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPServerEntry
metadata: {name: tickets}
spec: {remoteUrl: 'https://tickets.example.com/mcp', externalAuthConfigRef: {name: tickets}}
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: VirtualMCPServer
metadata: {name: x}
spec: {}";

const SECRET: &str =
    "{apiVersion: v1, kind: Secret, metadata: {name: tickets}, stringData: {token: hunter2-hunter2}}";

/// The entry of a backend that is not called. The optimizer is off as well.
const DISABLED: &str = "transport: streamable-http\n  enabled: false";

/// Waits for a configuration that contains `text`.
async fn configuration(place: &Namespace, text: &str) -> String {
    place
        .eventually(&format!("a configuration with {text}"), async || {
            let found = place.get::<ConfigMap>("x-vmcp-config").await?.data?.remove("vmcp.yaml")?;
            found.contains(text).then_some(found)
        })
        .await
}

async fn validity(place: &Namespace, reason: &str) {
    place
        .eventually(&format!("Valid: {reason}"), async || {
            let valid = place.condition("mcpexternalauthconfigs/tickets", "Valid").await;
            (valid["reason"] == reason).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_backend_is_called_with_its_credentials_or_not_at_all() {
    let (place, _operator) = place("credentials").await;
    place.apply(RESOURCES).await;
    let without = configuration(&place, DISABLED).await;
    assert!(!without.contains("outgoingAuth"), "{without}");
    validity(&place, "SecretNotFound").await;

    place.apply(SECRET).await;
    let with = configuration(&place, "Bearer ${file:/etc/vmcp/secrets/tickets_token}").await;
    assert!(!with.contains(DISABLED) && !with.contains("hunter2"), "{with}");
    validity(&place, "ConfigValid").await;
    let mounted = place.get::<Secret>("x-vmcp-secrets").await.and_then(|secret| secret.data);
    assert_eq!(mounted.expect("data")["tickets_token"].0, b"hunter2-hunter2");

    place.delete::<MCPExternalAuthConfig>("tickets").await;
    let gone = configuration(&place, DISABLED).await;
    assert!(!gone.contains("tickets_token"), "{gone}");
}
