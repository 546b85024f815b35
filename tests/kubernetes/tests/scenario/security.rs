//! Confused deputies: nobody has an object made by the operator that they may not make, and the operator
//! itself changes nothing of a pod but one annotation.

use std::fs;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use vmcp_crds::{EmbeddingServer, MCPGroup, MCPOIDCConfig, MCPServerEntry, VirtualMCPServer};
use vmcp_kubernetes_tests::{Cluster, ControlPlane, Namespace, Operator, PreparedControlPlane, repository};

use super::backends::{apply, await_condition};
use super::deputies::{TENANT, attempts, client_as, refusal, refused};
use super::reference_grants::define_grants;

/// A user who may write ReferenceGrants of the namespace.
const GRANTOR: &str = "apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: grantor}
rules:
- {apiGroups: [gateway.networking.k8s.io], resources: [referencegrants], verbs: ['*']}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: grantor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: grantor}
subjects: [{kind: User, name: grantor, apiGroup: rbac.authorization.k8s.io}]";

/// Returns a control plane with `deploy/`, whose policies apply to all namespaces.
pub(super) async fn deployed() -> Arc<ControlPlane> {
    static DEPLOYED: PreparedControlPlane = PreparedControlPlane::new();
    DEPLOYED
        .get(async || {
            let cluster = ControlPlane::start_without_controllers().await;
            let deploy = repository().join("deploy").display().to_string();
            cluster.kubectl(&["apply", "--server-side", "-k", &deploy]).await.expect("installed");
            cluster.await_definitions().await;
            cluster
        })
        .await
}

/// Makes a namespace with a tenant who may write our resources, Deployments and Services there.
pub(super) async fn namespace_of_tenant(cluster: &Cluster, prefix: &str) -> Namespace {
    let place = cluster.namespace(prefix).await;
    place.apply(TENANT).await;
    place
}

#[tokio::test]
async fn a_tenant_has_nothing_made_that_the_tenant_may_not_make() {
    let cluster = deployed().await;
    let place = namespace_of_tenant(&cluster, "tenant").await;
    let tenant = client_as(&cluster, "tenant").await;
    let mut refusals = Vec::new();
    for attempt in attempts() {
        refusals.push(refused(&place, &attempt).await);
    }
    // Every line of the policy was tried; the one about grants has a test of its own.
    let policy = repository().join("charts/vmcp-operator/templates/_author_rights.tpl");
    let policy = fs::read_to_string(policy).expect("the lines of the policy");
    let lines = policy.lines().filter_map(|line| line.trim().strip_prefix("message: "));
    let lines: Vec<_> = lines.filter(|line| !line.contains("of spec.from ")).collect();
    assert!(lines.len() > 25, "{lines:?}");
    for line in lines {
        assert!(refusals.iter().any(|refusal| refusal.contains(line)), "no attempt against: {line}");
    }
    // Also by an edit of an entry that was allowed to its author.
    place
        .apply(
            "{apiVersion: toolhive.stacklok.com/v1alpha1, kind: MCPServerEntry, metadata: {name: tickets}, \
             spec: {remoteUrl: 'https://tickets.example/mcp', externalAuthConfigRef: {name: a}}}",
        )
        .await;
    let entries: Api<MCPServerEntry> = Api::namespaced(client_as(&cluster, "writer").await, &place.name);
    let elsewhere = Patch::Merge(json!({ "spec": { "remoteUrl": "https://thief.example/mcp" } }));
    let refused =
        entries.patch("tickets", &PatchParams::default(), &elsewhere).await.unwrap_err().to_string();
    assert!(refused.contains("get Secrets"), "{refused}");
    let allowed = json!({ "serviceType": "ClusterIP" });
    assert_eq!(refusal(&tenant, &place, "VirtualMCPServer", "x", &allowed).await, None);
    an_approval_takes_the_right_to_change_the_server(&cluster, &place).await;
    assert_eq!(
        refusal(&tenant, &place, "MCPServerEntry", "x", &json!({ "remoteUrl": "https://a.example/mcp" }))
            .await,
        None
    );
}

/// The approval is an annotation, which a user may write who may not change the spec.
async fn an_approval_takes_the_right_to_change_the_server(cluster: &Cluster, place: &Namespace) {
    let servers = async |user: &str| -> Api<VirtualMCPServer> {
        Api::namespaced(client_as(cluster, user).await, &place.name)
    };
    let approval = |value: Value| {
        let annotations = json!({ "toolhive.stacklok.com/approve-tools": value });
        Patch::Merge(json!({ "metadata": { "annotations": annotations } }))
    };
    let (writer, tenant) = (servers("writer").await, servers("tenant").await);
    let (params, approve) = (PatchParams::default(), approval(json!("docs/search@fingerprint")));
    place
        .eventually("the policy to refuse an approval", async || {
            let refused = writer.patch("x", &params, &approve).await.err();
            if refused.is_none() {
                tenant.patch("x", &params, &approval(Value::Null)).await.expect("taken back");
            }
            refused.filter(|refused| refused.to_string().contains("create Deployments"))
        })
        .await;
    tenant.patch("x", &params, &approve).await.expect("approved");
    for key in ["toolhive.stacklok.com/restarted-at", "toolhive.stacklok.com/paused"] {
        let order = Patch::Merge(json!({ "metadata": { "annotations": { key: "true" } } }));
        let refused = writer.patch("x", &params, &order).await.unwrap_err().to_string();
        assert!(refused.contains("create Deployments"), "{refused}");
        tenant.patch("x", &params, &order).await.expect("ordered");
    }
    let note = Patch::Merge(json!({ "metadata": { "annotations": { "example.com/note": "a" } } }));
    writer.patch("x", &params, &note).await.expect("noted");

    apply(place, "EmbeddingServer", "paused", "{}").await;
    // The tenant may create Deployments, and no StatefulSets.
    let services: Api<EmbeddingServer> = Api::namespaced(client_as(cluster, "tenant").await, &place.name);
    let pause = json!({ "metadata": { "annotations": { "toolhive.stacklok.com/paused": "true" } } });
    let refused = services.patch("paused", &params, &Patch::Merge(pause)).await.unwrap_err().to_string();
    assert!(refused.contains("create StatefulSets"), "{refused}");
}

/// A grant makes the operator add callers to NetworkPolicies of the granted servers.
#[tokio::test]
async fn a_grant_for_virtual_servers_takes_the_right_to_create_network_policies() {
    let cluster = deployed().await;
    let place = namespace_of_tenant(&cluster, "grantor").await;
    define_grants(&cluster).await;
    place.apply(GRANTOR).await;
    let grantor = client_as(&cluster, "grantor").await;
    let create = async |name: &str, kind: &str| {
        let grant = json!({
            "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant", "metadata": { "name": name },
            "spec": {
                "from": [{ "group": "toolhive.stacklok.com", "kind": kind, "namespace": "elsewhere" }],
                "to": [{ "group": "toolhive.stacklok.com", "kind": "MCPServer" }],
            },
        });
        let path =
            format!("/apis/gateway.networking.k8s.io/v1beta1/namespaces/{}/referencegrants", place.name);
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(grant.to_string().into_bytes()).expect("a request");
        grantor.request::<Value>(request).await.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let mut attempts = 0;
    place
        .eventually("the policy to want the right to create NetworkPolicies", async || {
            attempts += 1;
            let refused = create(&format!("attempt-{attempts}"), "VirtualMCPServer").await;
            refused.contains("create NetworkPolicies").then_some(())
        })
        .await;
    // The policy lets grants of other projects pass.
    assert_eq!(create("route", "HTTPRoute").await, "");
}

/// Only ToolHive's operator removes its finalizers: the deletion of such a resource would hang.
#[tokio::test]
async fn a_saved_manifest_brings_no_finalizer_that_nothing_removes() {
    let cluster = deployed().await;
    let place = namespace_of_tenant(&cluster, "saved").await;
    let group = |finalizers: &str| {
        format!(
            "{{apiVersion: toolhive.stacklok.com/v1alpha1, kind: MCPGroup, metadata: {{name: g, finalizers: [{finalizers}]}}, \
             spec: {{}}}}"
        )
    };
    let saved = group("toolhive.stacklok.dev/mcpgroup-finalizer");
    place
        .eventually("the policy to refuse the finalizer", async || {
            let Err(refused) = place.try_apply(&saved).await else {
                place.edit::<MCPGroup>("g", json!({ "metadata": { "finalizers": null } })).await;
                return None;
            };
            refused.to_string().contains("remove metadata.finalizers").then_some(())
        })
        .await;
    place.apply(&group("example.com/kept")).await;
    let both = group("example.com/kept, mcpgroup.toolhive.stacklok.dev/finalizer");
    let refused = place.try_apply(&both).await.unwrap_err().to_string();
    assert!(refused.contains("remove metadata.finalizers"), "{refused}");
}

#[tokio::test]
async fn the_operator_changes_one_annotation_of_a_pod_and_nothing_else() {
    let cluster = deployed().await;
    let place = namespace_of_tenant(&cluster, "pods").await;
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {a: b}}, \
               spec: {containers: [{name: c, image: i}]}}";
    place.apply(pod).await;
    let operator = client_as(&cluster, "system:serviceaccount:vmcp-system:vmcp-operator").await;
    let pods: Api<Pod> = Api::namespaced(operator, &place.name);
    let patch = async |change: Value| {
        // By names of containers: the API server itself refuses most other changes of a pod.
        let patched = pods.patch("p", &PatchParams::default(), &Patch::Strategic(change)).await;
        patched.err().map(|error| error.to_string()).unwrap_or_default()
    };
    place
        .eventually("the policy to refuse a label", async || {
            let refused = patch(json!({ "metadata": { "labels": { "a": "b" } } })).await;
            if refused.is_empty() {
                place.edit::<Pod>("p", json!({ "metadata": { "labels": null } })).await;
            }
            refused.contains("nothing of a pod but one annotation").then_some(())
        })
        .await;
    let annotate = |key: &str, value: Value| json!({ "metadata": { "annotations": { key: value } } });
    assert_eq!(patch(annotate("toolhive.stacklok.com/configuration", json!("1-2"))).await, "");
    assert!(patch(annotate("other", json!("1"))).await.contains("no annotation of a pod"));
    assert!(patch(annotate("a", Value::Null)).await.contains("no annotation of a pod"));
    let image = json!({ "spec": { "containers": [{ "name": "c", "image": "evil" }] } });
    assert!(patch(image).await.contains("nothing of a pod but one annotation"));
}

#[tokio::test]
async fn an_anonymous_endpoint_is_exposed_by_an_explicit_word_only() {
    let place = ControlPlane::shared().await.namespace("exposure").await;
    let _operator = Operator::start(&place).await;
    apply(&place, "VirtualMCPServer", "x", "{serviceType: NodePort}").await;
    let kind = "ExposureAllowed";
    await_condition::<VirtualMCPServer>(&place, "x", kind, "False", "AnonymousExposure").await;
    let service = async || place.json("service/vmcp-x").await["spec"]["type"].take();
    assert_eq!(service().await, "ClusterIP");

    place.edit::<VirtualMCPServer>("x", json!({ "spec": { "allowAnonymousExposure": true } })).await;
    await_condition::<VirtualMCPServer>(&place, "x", kind, "True", "ExposureAllowed").await;
    assert_eq!(service().await, "NodePort");
    place.remove().await;
}

/// One edit that asks for a load balancer and for an identity whose provider does not exist.
#[tokio::test]
async fn an_exposure_waits_for_the_identity_that_it_is_meant_for() {
    let place = ControlPlane::shared().await.namespace("order").await;
    let _operator = Operator::start(&place).await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    let service = async || place.json("service/vmcp-x").await["spec"]["type"].take();
    place.eventually("the Service", async || (service().await == "ClusterIP").then_some(())).await;

    let edit = json!({ "spec": {
        "serviceType": "LoadBalancer",
        "incomingAuth": { "type": "oidc", "oidcConfigRef": { "name": "login", "audience": "a" } },
    } });
    place.edit::<VirtualMCPServer>("x", edit).await;
    let kind = "ExposureAllowed";
    await_condition::<VirtualMCPServer>(&place, "x", kind, "False", "AnonymousExposure").await;
    assert_eq!(service().await, "ClusterIP");

    let login = "{type: inline, inline: {issuer: 'https://login.example.com'}}";
    apply(&place, "MCPOIDCConfig", "login", login).await;
    await_condition::<VirtualMCPServer>(&place, "x", kind, "True", "ExposureAllowed").await;
    assert_eq!(service().await, "LoadBalancer");
    let text = place.json("configmap/x-vmcp-config").await["data"]["vmcp.yaml"].take();
    assert!(text.as_str().is_some_and(|text| text.contains("login.example.com")), "{text}");

    // The last good configuration asks for tokens too.
    place.delete::<MCPOIDCConfig>("login").await;
    await_condition::<VirtualMCPServer>(&place, "x", "ConfigValid", "False", "OIDCConfigRefNotFound").await;
    assert_eq!(service().await, "LoadBalancer");
    place.remove().await;
}

#[tokio::test]
async fn without_policies_no_field_is_followed_that_takes_a_right() {
    let place = ControlPlane::shared().await.namespace("unchecked").await;
    let variables = [("LEADER_ELECT", "false"), ("AUTHORS_CHECKED", "false")];
    let _operator = Operator::with(&place, "one", &variables).await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    let service = async || place.json("service/vmcp-x").await["spec"]["type"].take();
    place.eventually("the Service", async || (service().await == "ClusterIP").then_some(())).await;
    let edit = json!({ "spec": { "serviceType": "NodePort", "allowAnonymousExposure": true } });
    place.edit::<VirtualMCPServer>("x", edit).await;
    await_condition::<VirtualMCPServer>(&place, "x", "ConfigValid", "False", "InvalidSpec").await;
    assert_eq!(service().await, "ClusterIP");
    let entry = "{remoteUrl: 'https://a.example/mcp', externalAuthConfigRef: {name: a}}";
    apply(&place, "MCPServerEntry", "thief", entry).await;
    await_condition::<MCPServerEntry>(&place, "thief", "Valid", "False", "ConfigInvalid").await;
    place.remove().await;
}
