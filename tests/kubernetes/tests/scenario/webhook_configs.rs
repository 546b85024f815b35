//! MCPWebhookConfigs on a real API server: references that cannot be followed, and Secrets that change.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};
use vmcp_crds::{MCPServer, MCPWebhookConfig, VirtualMCPServer};
use vmcp_kubernetes_tests::Namespace;

use super::backends::{apply, await_condition, place};

const GUARDS: &str = "{validating: [{name: guard, url: 'https://guard.example/ask', tools: [push], hmacSecretRef: {name: hmac, key: key}}]}";

/// Part of `vmcp.yaml` that disables a backend.
const DISABLED: &str = "transport: streamable-http\n  enabled: false";

/// Waits until the configuration of the server `x` holds each of these texts.
async fn configured(place: &Namespace, texts: &[&str]) -> String {
    place
        .eventually(&format!("{texts:?} in vmcp.yaml"), async || {
            let text = place.get::<ConfigMap>("x-vmcp-config").await?.data?.remove("vmcp.yaml")?;
            texts.iter().all(|wanted| text.contains(wanted)).then_some(text)
        })
        .await
}

/// Stores the HMAC key.
async fn store_key(place: &Namespace, value: &str) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "hmac" }, "stringData": { "key": value },
    });
    place.apply(&secret.to_string()).await;
}

/// Waits until the pods of the server `x` would mount this HMAC key.
async fn mounted_key(place: &Namespace, value: &str) {
    place
        .eventually("the HMAC key to be mounted", async || {
            let mounted = place.get::<Secret>("x-vmcp-secrets").await?.data?.remove("hmac_key")?;
            (mounted.0 == value.as_bytes()).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_webhook_guards_a_server_or_the_server_is_not_called() {
    let (place, _operator) = place("webhooks").await;
    apply(&place, "MCPServer", "git", "{image: 'x:1', command: [run], webhookConfigRef: {name: guards}}")
        .await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    let is = async |status: &str, reason: &str| {
        await_condition::<VirtualMCPServer>(&place, "x", "WebhookConfigRefsValidated", status, reason).await
    };
    let message = is("False", "WebhookConfigRefNotFound").await;
    assert!(message.contains("no MCPWebhookConfig guards"), "{message}");
    let text = configured(&place, &[DISABLED]).await;
    assert!(!text.contains("webhooks:"), "{text}");

    apply(&place, "MCPWebhookConfig", "guards", GUARDS).await;
    let message =
        await_condition::<MCPWebhookConfig>(&place, "guards", "Valid", "False", "SecretNotFound").await;
    assert!(message.contains("kubectl create secret generic hmac"), "{message}");
    is("False", "WebhookConfigRefNotValid").await;

    store_key(&place, "an-hmac-key-of-some-length").await;
    await_condition::<MCPWebhookConfig>(&place, "guards", "Valid", "True", "ConfigValid").await;
    is("True", "WebhookConfigRefsValid").await;
    let text = configured(&place, &["guards/guard", "${file:/etc/vmcp/secrets/hmac_key}"]).await;
    assert!(!text.contains(DISABLED) && !text.contains("an-hmac-key"), "{text}");
    mounted_key(&place, "an-hmac-key-of-some-length").await;
    // A rotation changes the mounted value, and no reference.
    store_key(&place, "another-hmac-key-of-some-length").await;
    mounted_key(&place, "another-hmac-key-of-some-length").await;

    let referenced_by = async |wanted: &[&str]| {
        place
            .eventually("the resources that refer to it", async || {
                let status = place.get::<MCPWebhookConfig>("guards").await?.status?;
                (status.referenced_by == wanted).then_some(())
            })
            .await;
    };
    referenced_by(&["MCPServer/git"]).await;
    // Followed twice: `tools: [push]` means the server's own name in one, the listed name in the other.
    let own = json!({ "spec": { "webhookConfigRef": { "name": "guards" } } });
    place.edit::<VirtualMCPServer>("x", own).await;
    configured(&place, &["guards/guard/all", "backends"]).await;
    referenced_by(&["MCPServer/git", "VirtualMCPServer/x"]).await;

    let slow = json!({ "spec": { "validating": [{ "name": "guard", "url": "https://guard.example/ask", "timeout": "1h" }] } });
    place.edit::<MCPWebhookConfig>("guards", slow).await;
    let message =
        await_condition::<VirtualMCPServer>(&place, "x", "ConfigValid", "False", "WebhookConfigRefNotValid")
            .await;
    assert!(message.contains("MCPWebhookConfig guards: spec.validating[0].timeout"), "{message}");
    configured(&place, &["guards/guard/all"]).await;
    place.remove().await;
}

#[tokio::test]
async fn a_server_without_its_network_policy_takes_no_webhooks() {
    let (place, _operator) = place("webhooks-open").await;
    let open =
        "{image: 'x:1', command: [c], webhookConfigRef: {name: guards}, networkPolicy: {enabled: false}}";
    apply(&place, "MCPServer", "git", open).await;
    let message = place
        .eventually("the refusal", async || {
            let server: Value = serde_json::to_value(place.get::<MCPServer>("git").await?).ok()?;
            let conditions = server.pointer("/status/conditions")?.as_array()?.clone();
            let invalid = conditions.into_iter().find(|condition| condition["type"] == "Valid")?;
            (invalid["status"] == "False").then(|| invalid["message"].as_str().unwrap_or_default().to_owned())
        })
        .await;
    assert!(
        message.contains("spec.networkPolicy.enabled") && message.contains("webhookConfigRef"),
        "{message}"
    );
    place.remove().await;
}
