//! Added servers outside of the rules of their VirtualMCPServer, which the operator refuses.

use vmcp_crds::MCPRemoteProxy;

use super::*;

/// The pods check the rules; the operator does too, for pods that are under an attacker.
#[tokio::test]
async fn an_added_program_runs_in_an_image_of_a_rule_alone() {
    let place = ControlPlane::shared().await.namespace("images-of-rules").await;
    let _operator = operator_with_admin(&place).await;
    apply(&place, "VirtualMCPServer", "x", &format!("{{optimizer: {{enabled: true, {TOOLS}, {RULES}}}}}"))
        .await;
    let added = |image: &str| {
        format!(
            "{{apiVersion: {GROUP}/v1alpha1, kind: MCPServer, metadata: {{name: time, labels: {{{ADDED_BY}: x}}}}, \
             spec: {{image: '{image}', command: [npx], args: [-y, '@acme/time']}}}}"
        )
    };
    place.apply(&added("evil:1")).await;
    let message = await_condition::<MCPServer>(&place, "time", "Valid", "False", "ConfigInvalid").await;
    assert!(message.contains("spec.optimizer.admin.allow"), "{message}");
    assert!(place.get::<Deployment>("mcp-time").await.is_none(), "no pod of that image");
    let rules = json!([{ "command": ["npx", "-y", "@acme/*"], "image": "evil:1" }]);
    let allowed = json!({ "spec": { "optimizer": { "admin": { "allow": rules } } } });
    place.edit::<VirtualMCPServer>("x", allowed).await;
    await_condition::<MCPServer>(&place, "time", "Valid", "True", "ConfigValid").await;
    // Its pods outlive the rule, until a person switches the server off.
    place
        .edit::<VirtualMCPServer>("x", json!({ "spec": { "optimizer": { "admin": { "allow": [] } } } }))
        .await;
    await_condition::<MCPServer>(&place, "time", "Valid", "False", "ConfigInvalid").await;
    let replicas = async || place.get::<Deployment>("mcp-time").await?.spec?.replicas;
    assert_ne!(replicas().await, Some(0));
    place.edit::<MCPServer>("time", json!({ "spec": { "enabled": false } })).await;
    let ended = async || (replicas().await == Some(0)).then_some(());
    place.eventually("its pods to end", ended).await;
    place.remove().await;
}

/// As above, for addresses: the entry is refused, and reaches no configuration.
#[tokio::test]
async fn an_added_entry_leads_to_an_address_of_a_rule_alone() {
    let place = ControlPlane::shared().await.namespace("urls-of-rules").await;
    let _operator = operator_with_admin(&place).await;
    apply(&place, "VirtualMCPServer", "x", &format!("{{optimizer: {{enabled: true, {TOOLS}, {RULES}}}}}"))
        .await;
    let added = |name: &str, url: &str| {
        format!(
            "{{apiVersion: {GROUP}/v1alpha1, kind: MCPServerEntry, metadata: {{name: {name}, labels: {{{ADDED_BY}: x}}}}, \
             spec: {{remoteUrl: '{url}'}}}}"
        )
    };
    place.apply(&added("docs", "https://docs.example.com/mcp")).await;
    place.apply(&added("evil", "https://evil.example/mcp")).await;
    let message = await_condition::<MCPServerEntry>(&place, "evil", "Valid", "False", "ConfigInvalid").await;
    assert!(message.contains("spec.optimizer.admin.allow"), "{message}");
    // A `*` in a rule names no host in full: its name may lead to public addresses alone.
    let is_guarded = |backend: &Value| backend["url"].is_string() && backend["addresses"] == "public";
    await_backend(&place, "docs", "the address of a rule", is_guarded).await;
    // A proxy with the label is held to the same.
    let proxy = added("proxy", "https://evil.example/mcp").replace("MCPServerEntry", "MCPRemoteProxy");
    place.apply(&proxy).await;
    let message = await_condition::<MCPRemoteProxy>(&place, "proxy", "Ready", "False", "ConfigInvalid").await;
    assert!(message.contains("spec.optimizer.admin.allow"), "{message}");
    await_backend(&place, "proxy", "no proxy to that address", Value::is_null).await;
    await_backend(&place, "evil", "no other address", Value::is_null).await;
    let rules = json!([{ "url": "https://evil.example/*" }]);
    let allowed = json!({ "spec": { "optimizer": { "admin": { "allow": rules } } } });
    place.edit::<VirtualMCPServer>("x", allowed).await;
    await_backend(&place, "evil", "the address of the new rule", |backend| backend["url"].is_string()).await;
    await_condition::<MCPServerEntry>(&place, "evil", "Valid", "True", "ConfigValid").await;
    await_backend(&place, "docs", "the address without a rule to go", Value::is_null).await;
    place.remove().await;
}
