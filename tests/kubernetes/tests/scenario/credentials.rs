//! Credentials of backends: a backend is called with them, or not at all. Certificates of authorities: an
//! identity provider is asked with them, or not at all.

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use serde_json::json;
use vmcp_crds::{MCPExternalAuthConfig, MCPOIDCConfig, MCPServer, VirtualMCPServer};
use vmcp_kubernetes_tests::Namespace;

use super::backends::{await_condition, place};

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

/// An MCPServer that gets the credentials of [`RESOURCES`].
const SERVED: &str = "
apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPServer
metadata: {name: served}
spec: {image: 'x:1', transport: streamable-http, externalAuthConfigRef: {name: tickets}}";

/// A tenant who may create Services takes the name under which an MCPServer is called, or leads its Service
/// elsewhere.
#[tokio::test]
async fn no_credentials_go_to_a_service_of_others() {
    let (place, _operator) = place("taken").await;
    let service = "{apiVersion: v1, kind: Service, metadata: {name: mcp-served}, spec: {type: ExternalName, externalName: \
                   thief.example}}";
    place.apply(service).await;
    place.apply(RESOURCES).await;
    place.apply(SECRET).await;
    place.apply(SERVED).await;
    await_condition::<MCPServer>(&place, "served", "Ready", "False", "NameTaken").await;
    // The credentials of the entry `tickets`.
    let called = configuration(&place, "Bearer ${file:/etc/vmcp/secrets/tickets_token}").await;
    let credentials = |text: &str| text.matches("Bearer ${file:").count();
    assert_eq!(credentials(&called), 1, "{called}");

    place.delete::<Service>("mcp-served").await;
    // The operator looks again later by itself.
    place.edit::<MCPServer>("served", json!({ "spec": { "env": [{ "name": "A", "value": "b" }] } })).await;
    place
        .eventually("the credentials of the server", async || {
            let text = place.get::<ConfigMap>("x-vmcp-config").await?.data?.remove("vmcp.yaml")?;
            (credentials(&text) == 2).then_some(())
        })
        .await;

    let elsewhere = json!({ "spec": { "type": "ExternalName", "externalName": "thief.example" } });
    place.edit::<Service>("mcp-served", elsewhere).await;
    place
        .eventually("the Service to lead to the pods again", async || {
            let spec = place.get::<Service>("mcp-served").await?.spec?;
            (spec.type_.as_deref() == Some("ClusterIP")).then_some(())
        })
        .await;
    place.remove().await;
}

const LOGIN: &str = "
apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPOIDCConfig
metadata: {name: login}
spec:
  type: inline
  inline: {issuer: 'https://login.example.com', caBundleRef: {configMapRef: {name: authority}}}
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: VirtualMCPServer
metadata: {name: x}
spec: {incomingAuth: {type: oidc, oidcConfigRef: {name: login, audience: tools}}}";

#[tokio::test]
async fn an_identity_provider_is_trusted_by_the_certificates_that_are_named() {
    let (place, _operator) = place("authority").await;
    place.apply(LOGIN).await;
    let told = await_condition::<MCPOIDCConfig>(&place, "login", "Valid", "False", "ConfigInvalid").await;
    assert!(told.contains("kubectl create configmap authority"), "{told}");
    let is = async |kind: &str, status: &str, reason: &str| {
        await_condition::<VirtualMCPServer>(&place, "x", kind, status, reason).await
    };
    is("AuthConfigured", "False", "OIDCConfigRefNotValid").await;
    assert!(place.get::<ConfigMap>("x-vmcp-config").await.is_none(), "never without its authority");

    let authority = || rcgen::generate_simple_self_signed(["authority".to_owned()]).expect("one").cert.pem();
    let with = async |pem: &str| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "authority"}, "data": {"ca.crt": pem}});
        place.apply(&map.to_string()).await;
        place
            .eventually("the certificates to be mounted", async || {
                let text = place.get::<ConfigMap>("x-vmcp-config").await?.data?.remove("vmcp.yaml")?;
                let (_, file) = text.split_once("/etc/vmcp/secrets/ca-bundle-")?;
                let file = format!("ca-bundle-{}", file.lines().next()?);
                let mounted = place.get::<Secret>("x-vmcp-secrets").await?.data?.remove(&file)?;
                (mounted.0 == pem.as_bytes()).then_some(file)
            })
            .await
    };
    let first = with(&authority()).await;
    is("AuthConfigured", "True", "AuthValid").await;
    await_condition::<MCPOIDCConfig>(&place, "login", "Valid", "True", "ConfigValid").await;
    // Another file, so that the configuration is another one, too, and takes effect at once.
    let second = with(&authority()).await;
    assert_ne!(first, second);

    place.edit::<ConfigMap>("authority", json!({"data": {"ca.crt": "none"}})).await;
    let told = await_condition::<MCPOIDCConfig>(&place, "login", "Valid", "False", "ConfigInvalid").await;
    assert!(told.contains("holds no certificates"), "{told}");
    is("AuthConfigured", "False", "OIDCConfigRefNotValid").await;
    let mounted = place.get::<Secret>("x-vmcp-secrets").await.and_then(|secret| secret.data);
    assert!(mounted.expect("data").contains_key(&second), "the last good ones stay");
    place.remove().await;
}
