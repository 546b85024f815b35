//! `spec.permissionProfile` of an MCPServer on a real API server. NetworkPolicies are looked at, not
//! enforced: no pod runs.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use vmcp_crds::MCPServer;

use super::backends::{apply, assert_writes_nothing, await_condition, deployment, place};

const ENFORCED: &str = "PermissionProfileEnforced";

#[tokio::test]
async fn a_profile_becomes_a_network_policy_and_says_what_it_cannot() {
    let (place, operator) = place("permissions").await;
    let spec = "{image: 'x:1', transport: sse, permissionProfile: {type: builtin, name: none}}";
    apply(&place, "MCPServer", "s", spec).await;
    await_condition::<MCPServer>(&place, "s", ENFORCED, "True", "NetworkPolicyApplied").await;
    let policy = async || place.json("networkpolicy/mcp-s").await["spec"].take();
    let closed = policy().await;
    assert_eq!(closed["policyTypes"], json!(["Ingress", "Egress"]));
    assert!(closed["egress"].as_array().is_none_or(Vec::is_empty), "{closed}");
    assert_writes_nothing::<MCPServer>(&place, &operator, "s").await;

    // A missing guard opens nothing: pods of the version before run on as they are.
    let reference = json!({ "type": "configmap", "name": "profiles", "key": "github.json" });
    place.edit::<MCPServer>("s", json!({ "spec": { "permissionProfile": reference } })).await;
    let message = await_condition::<MCPServer>(&place, "s", "Valid", "False", "ConfigInvalid").await;
    assert!(message.contains("there is no ConfigMap profiles with the key `github.json`"), "{message}");
    await_condition::<MCPServer>(&place, "s", ENFORCED, "False", "ProfileUnusable").await;
    assert_eq!(policy().await["policyTypes"], json!(["Ingress", "Egress"]));

    let profile = |outbound: &str| {
        let text = format!(r#"{{"network": {{"outbound": {outbound}}}}}"#);
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "profiles" }, "data": { "github.json": text } })
            .to_string()
    };
    place.apply(&profile(r#"{"allow_port": [443]}"#)).await;
    place
        .eventually("the way to port 443", async || {
            let egress = policy().await["egress"].take();
            let port = egress.pointer("/1/ports/0/port")?;
            (*port == json!(443) && egress.pointer("/0/ports/0/port") == Some(&json!(53))).then_some(())
        })
        .await;
    await_condition::<MCPServer>(&place, "s", ENFORCED, "True", "NetworkPolicyApplied").await;
    deployment(&place, "mcp-s").await;

    place.apply(&profile(r#"{"allow_host": ["api.github.com"], "allow_port": [443]}"#)).await;
    let message = await_condition::<MCPServer>(&place, "s", ENFORCED, "False", "HostNamesNotEnforced").await;
    assert!(message.contains("api.github.com (allow_host) are open as every other host is"), "{message}");

    place.delete::<ConfigMap>("profiles").await;
    await_condition::<MCPServer>(&place, "s", ENFORCED, "False", "ProfileUnusable").await;
    place.edit::<MCPServer>("s", json!({ "spec": { "permissionProfile": null } })).await;
    place
        .eventually("no limit to the way out", async || {
            (policy().await["policyTypes"] == json!(["Ingress"])).then_some(())
        })
        .await;
    place.remove().await;
}
