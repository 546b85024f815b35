//! Backends of other namespaces, by a ReferenceGrant of the Gateway API.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};
use vmcp_crds::VirtualMCPServer;
use vmcp_kubernetes_tests::{Cluster, ControlPlane, Namespace, Operator};

use super::backends::{apply, assert_writes_nothing, await_condition};

/// The kind as the Gateway API defines it, with a schema that takes everything.
const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: referencegrants.gateway.networking.k8s.io
  annotations: {api-approved.kubernetes.io: unapproved}
spec:
  group: gateway.networking.k8s.io
  scope: Namespaced
  names: {kind: ReferenceGrant, plural: referencegrants, singular: referencegrant}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}";

/// Defines ReferenceGrants.
pub(super) async fn define_grants(cluster: &Cluster) {
    cluster.apply(DEFINITION, "").await.expect("applied");
    cluster.await_definitions().await;
}

/// A withdrawn grant ends the use of its backends within this time.
const WITHDRAWN: Duration = Duration::from_secs(20);

/// Returns the backends of the mounted configuration that are on, by name.
async fn backends(place: &Namespace) -> Option<Vec<String>> {
    let text = place.get::<ConfigMap>("x-vmcp-config").await?.data?.remove("vmcp.yaml")?;
    let file: Value = serde_saphyr::from_str(&text).ok()?;
    let backends = file["backends"].as_array().cloned().unwrap_or_default();
    let on = backends.iter().filter(|backend| backend.get("enabled") != Some(&json!(false)));
    Some(on.filter_map(|backend| Some(backend["name"].as_str()?.to_owned())).collect())
}

/// Returns the namespaces whose VirtualMCPServers may connect to an MCPServer.
async fn admitted(place: &Namespace, policy: &str) -> Option<Value> {
    let policy = serde_json::to_value(place.get::<NetworkPolicy>(policy).await?).ok()?;
    let callers = policy.pointer("/spec/ingress/0/from")?.as_array()?.clone();
    let namespaces =
        callers.iter().find_map(|peer| peer.pointer("/namespaceSelector/matchExpressions/0/values"));
    Some(namespaces.cloned().unwrap_or_default())
}

#[tokio::test]
async fn backends_of_another_namespace_serve_for_as_long_as_it_grants_them() {
    // A kind of another project is defined for the whole cluster, so it must not be the shared one.
    let cluster = ControlPlane::start_without_controllers().await;
    let (place, other) = (cluster.namespace("granted").await, cluster.namespace("granting").await);
    let namespaces = format!("{},{}", place.name, other.name);
    let variables = [("LEADER_ELECT", "false"), ("WATCH_NAMESPACE", namespaces.as_str())];
    let operator = Operator::with(&place, "one", &variables).await;
    apply(&other, "MCPGroup", "tools", "{}").await;
    apply(
        &other,
        "MCPServer",
        "github",
        "{image: 'x:1', transport: streamable-http, groupRef: {name: tools}}",
    )
    .await;
    apply(&other, "MCPServerEntry", "web", "{remoteUrl: 'https://a.example/mcp', groupRef: {name: tools}}")
        .await;
    let secret = "{remoteUrl: 'https://b.example/mcp', headerForward: {addHeadersFromSecret: [{headerName: A, \
                  valueSecretRef: {name: s, key: k}}]}}";
    apply(&other, "MCPServerEntry", "secret", secret).await;
    // A Secret of the same name, which the other namespace must not get.
    place.apply("{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {k: own-secret}}").await;
    let spec = format!(
        "{{groupRef: {{name: tools, namespace: {0}}}, backendRefs: [{{kind: MCPServerEntry, name: secret, namespace: {0}}}]}}",
        other.name
    );
    apply(&place, "VirtualMCPServer", "x", &spec).await;
    let missing =
        await_condition::<VirtualMCPServer>(&place, "x", "ReferencesGranted", "False", "ApiMissing").await;
    assert!(missing.contains("install the Gateway API"), "{missing}");
    place
        .eventually("a configuration without backends", async || {
            backends(&place).await?.is_empty().then_some(())
        })
        .await;

    define_grants(&cluster).await;
    drop(operator);
    let operator = Operator::with(&place, "two", &variables).await;
    let message =
        await_condition::<VirtualMCPServer>(&place, "x", "ReferencesGranted", "False", "RefNotPermitted")
            .await;
    other
        .eventually("a NetworkPolicy that admits no other namespace", async || {
            (admitted(&other, "mcp-github").await? == Value::Null).then_some(())
        })
        .await;
    // The condition has the grant, word for word.
    let (_, grant) = message.split_once("apply there: ").expect("a manifest");
    other.apply(grant).await;
    await_condition::<VirtualMCPServer>(&place, "x", "ReferencesGranted", "True", "ReferencesGranted").await;
    let called = |name: &str| format!("{}_{name}", other.name);
    let expected = vec![called("github"), called("web")];
    place
        .eventually("the granted backends", async || {
            let mut found = backends(&place).await?;
            found.sort();
            (found == expected).then_some(())
        })
        .await;
    other
        .eventually("the callers of the other namespace", async || {
            (admitted(&other, "mcp-github").await? == json!([place.name])).then_some(())
        })
        .await;
    let server = serde_json::to_value(place.get::<VirtualMCPServer>("x").await).expect("JSON");
    assert!(server.to_string().contains("are not read for this server"), "{server}");
    let secrets = place.json("secret/x-vmcp-secrets").await["data"].take();
    // `own-secret` in Base64.
    assert!(secrets.is_object() && !secrets.to_string().contains("b3duLXNlY3JldA"), "{secrets}");
    assert_writes_nothing::<VirtualMCPServer>(&place, &operator, "x").await;

    // Also while the configuration is refused, and the last good one stays mounted.
    let closed = json!({ "spec": { "incomingAuth": { "type": "oidc", "oidcConfigRef": { "name": "none", "audience": "a" } } } });
    place.edit::<VirtualMCPServer>("x", closed).await;
    await_condition::<VirtualMCPServer>(&place, "x", "ConfigValid", "False", "OIDCConfigRefNotFound").await;
    assert_eq!(backends(&place).await.map(|found| found.len()), Some(2));
    let grants = ["delete", "referencegrants", "--all", "--namespace", &other.name];
    cluster.kubectl(&grants).await.expect("deleted");
    place
        .eventually_within(WITHDRAWN, "the backends to go with their grant", async || {
            backends(&place).await?.is_empty().then_some(())
        })
        .await;
    other
        .eventually_within(WITHDRAWN, "the callers to go with their grant", async || {
            (admitted(&other, "mcp-github").await? == Value::Null).then_some(())
        })
        .await;
    place.remove().await;
    other.remove().await;
}
