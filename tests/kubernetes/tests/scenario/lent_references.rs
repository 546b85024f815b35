//! References by name that one person writes and another one turns: credentials for the backends of a
//! VirtualMCPServer, whose URLs are in other resources, and the ConfigMap of a permission profile.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use vmcp_crds::MCPServerEntry;
use vmcp_kubernetes_tests::{Cluster, Namespace};

use super::backends::apply;
use super::deputies::{client_as, refusal};
use super::security::{deployed, namespace_of_tenant};

/// A user who may write ConfigMaps of the namespace, and nothing else.
const EDITOR: &str = "apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: editor}
rules:
- {apiGroups: [''], resources: [configmaps], verbs: ['*']}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: editor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: editor}
subjects: [{kind: User, name: editor, apiGroup: rbac.authorization.k8s.io}]";

/// Waits until `writer`, who may not read Secrets, is refused a backend.
async fn await_refusal(place: &Namespace, kind: &str, name: &str, spec: &Value) {
    let writer = client_as(place.cluster(), "writer").await;
    place
        .eventually(&format!("{kind} {name} to be refused"), async || {
            let refused = refusal(&writer, place, kind, name, spec).await;
            if refused.is_none() {
                let object = format!("{kind}/{name}");
                let delete = ["delete", object.as_str(), "--namespace", &place.name];
                place.cluster().kubectl(&delete).await.expect("deleted");
            }
            refused.filter(|refused| refused.contains("get Secrets"))
        })
        .await;
}

#[tokio::test]
async fn nobody_turns_a_reference_of_others_to_an_end_of_their_own() {
    let cluster = deployed().await;
    let place = namespace_of_tenant(&cluster, "turned").await;
    place.apply(EDITOR).await;
    credentials_go_to_no_url_of_a_tenant(&cluster, &place).await;
    no_tenant_edits_a_permission_profile(&cluster, &place).await;
}

async fn credentials_go_to_no_url_of_a_tenant(cluster: &Cluster, place: &Namespace) {
    let own = "{type: externalAuthConfigRef, externalAuthConfigRef: {name: own}}";
    apply(place, "VirtualMCPServer", "x", &format!("{{outgoingAuth: {{backends: {{github: {own}}}}}}}"))
        .await;
    let of_group = format!("{{groupRef: {{name: team}}, outgoingAuth: {{default: {own}}}}}");
    apply(place, "VirtualMCPServer", "team", &of_group).await;
    // Of others, only backends that name the server belong to it.
    let backends = "[{name: a, remoteUrl: 'https://a.example/mcp'}]";
    let alone = format!("{{backends: {backends}, outgoingAuth: {{default: {own}}}}}");
    apply(place, "VirtualMCPServer", "alone", &alone).await;

    let of_alone = json!({ "remoteUrl": "https://thief.example/mcp", "vmcpRef": { "name": "alone" } });
    let thief = json!({ "remoteUrl": "https://thief.example/mcp" });
    let member = json!({ "remoteUrl": "https://thief.example/mcp", "groupRef": { "name": "team" } });
    await_refusal(place, "MCPServerEntry", "github", &thief).await;
    await_refusal(place, "MCPRemoteProxy", "github", &thief).await;
    await_refusal(place, "MCPServerEntry", "any", &member).await;
    await_refusal(place, "MCPServerEntry", "named", &of_alone).await;
    let writer = client_as(cluster, "writer").await;
    let other = json!({ "remoteUrl": "https://a.example/mcp", "groupRef": { "name": "other" } });
    for (name, spec) in [("plain", &thief), ("elsewhere", &other)] {
        assert_eq!(refusal(&writer, place, "MCPServerEntry", name, spec).await, None, "{name}");
    }

    // Neither by an edit of an entry that a person with rights wrote, nor by a label.
    apply(place, "MCPServerEntry", "github", "{remoteUrl: 'https://github.example/mcp'}").await;
    let entries: Api<MCPServerEntry> = Api::namespaced(writer, &place.name);
    let edit = async |name: &str, change: Value| {
        let edited = entries.patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
        edited.err().map(|error| error.to_string()).unwrap_or_default()
    };
    for change in [
        json!({ "spec": { "remoteUrl": "https://thief.example/mcp" } }),
        json!({ "metadata": { "labels": { "stage": "prod" } } }),
    ] {
        let refused = edit("github", change.clone()).await;
        assert!(refused.contains("get Secrets"), "{change}: {refused}");
    }
    assert!(
        edit("plain", json!({ "spec": { "groupRef": { "name": "team" } } })).await.contains("get Secrets")
    );
    assert_eq!(edit("github", json!({ "metadata": { "annotations": { "note": "a" } } })).await, "");
}

async fn no_tenant_edits_a_permission_profile(cluster: &Cluster, place: &Namespace) {
    let spec = "{image: 'x:1', command: [run], permissionProfile: {type: configmap, name: profile, key: k}}";
    apply(place, "MCPServer", "time", spec).await;
    let editor = client_as(cluster, "editor").await;
    let maps: Api<ConfigMap> = Api::namespaced(editor, &place.name);
    let open = json!({ "data": { "k": "{\"network\": {\"outbound\": {\"insecure_allow_all\": true}}}" } });
    let edit = async |name: &str, change: Value| {
        let edited = maps.patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
        edited.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let closed = "{apiVersion: v1, kind: ConfigMap, metadata: {name: profile}, data: {k: '{}'}}";
    place
        .eventually("the edit of the profile to be refused", async || {
            place.apply(closed).await;
            edit("profile", open.clone()).await.contains("create NetworkPolicies").then_some(())
        })
        .await;
    assert_eq!(edit("profile", json!({ "metadata": { "labels": { "stage": "prod" } } })).await, "");
    place.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: other}, data: {k: '{}'}}").await;
    assert_eq!(edit("other", open).await, "", "no profile of a server");
}
