//! Servers that clients add: the rights of a VirtualMCPServer, the registrar of its pods against a real API
//! server, and the policy that bounds both. The registrar runs in the test, as the ServiceAccount of the
//! pods.

mod of_rules;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use url::Url;
use vmcp_cluster_servers::{ADDED_BY, KubernetesRegistrar, VirtualServer};
use vmcp_crds::{MCPServer, MCPServerEntry, VirtualMCPServer};
use vmcp_engine::server_registrar::{
    NewServer, RegistrarError, ServerChange, ServerPlace, ServerRegistrar as _,
};
use vmcp_kubernetes_tests::{ControlPlane, Namespace, Operator, SERVER_ADMIN_ROLE, server_admin_roles};

use super::backends::{apply, await_condition};
use super::deputies::client_as;
use super::rights::{await_right, install_part, may};

const SERVERS: &str = "x-vmcp-servers";
const PROGRAMS: &str = "x-vmcp-programs";
const GROUP: &str = "toolhive.stacklok.com";
const VALUE: &str = "Bearer hunter2-of-an-agent";
/// Base64 of [`VALUE`], as Secrets have it.
const ENCODED: &str = "QmVhcmVyIGh1bnRlcjItb2YtYW4tYWdlbnQ=";
const TOOLS: &str = "tools: [find_tool, call_tool, add_mcp_server, remove_mcp_server]";
const RULES: &str = "admin: {allow: [{command: [npx, -y, '@acme/*'], image: 'node:22', env: [API_KEY]}, {url: 'https://*.example.com/*', headers: [Authorization]}, {url: 'wss://*.example.com/*'}]}";

fn account(place: &Namespace) -> String {
    format!("system:serviceaccount:{}:x-vmcp", place.name)
}

/// Starts an operator of an installation whose servers may let their clients add servers.
async fn operator_with_admin(place: &Namespace) -> Operator {
    for role in server_admin_roles() {
        place.apply(&role.to_string()).await;
    }
    let role = format!("Role/{SERVER_ADMIN_ROLE}");
    Operator::with(place, "one", &[("LEADER_ELECT", "false"), ("SERVER_ADMIN_ROLE", role.as_str())]).await
}

/// Returns the VirtualMCPServer `x` as its pods know it, by the variables of their Deployment.
async fn virtual_server(place: &Namespace) -> VirtualServer {
    let pod = place
        .eventually("the pods", async || {
            let deployment = place.get::<Deployment>("x").await?;
            Some(serde_json::to_value(deployment).expect("JSON")["spec"]["template"]["spec"].take())
        })
        .await;
    assert_eq!(pod["automountServiceAccountToken"], true);
    let variables = pod["containers"][0]["env"].as_array().expect("variables").clone();
    let server = VirtualServer::from_variables(|name| {
        let found = variables.iter().find(|variable| variable["name"] == name)?;
        let field = found["valueFrom"]["fieldRef"]["fieldPath"].as_str();
        let namespace = (field == Some("metadata.namespace")).then_some(place.name.as_str());
        found["value"].as_str().or(namespace).map(str::to_owned)
    });
    server.expect("a server whose clients add servers")
}

async fn registrar(place: &Namespace, server: VirtualServer) -> KubernetesRegistrar {
    KubernetesRegistrar::new(server, client_as(place.cluster(), &account(place)).await)
}

fn remote(name: &str) -> NewServer {
    let url = Url::parse(&format!("https://{name}.example.com/mcp")).expect("a URL");
    let headers = BTreeMap::from([("Authorization".to_owned(), VALUE.into())]);
    let place = ServerPlace::Remote { url, headers };
    NewServer::new(name, place)
}

fn program(name: &str) -> NewServer {
    let words = ["npx", "-y", "@acme/time"].map(str::to_owned).to_vec();
    let place = ServerPlace::Program { words, env: BTreeMap::from([("API_KEY".to_owned(), VALUE.into())]) };
    let image = Some("node:22".to_owned());
    NewServer { image, ..NewServer::new(name, place) }
}

/// Returns a server behind a websocket.
fn websocket(name: &str) -> NewServer {
    let url = Url::parse(&format!("wss://{name}.example.com/mcp")).expect("a URL");
    let place = ServerPlace::Remote { url, headers: BTreeMap::new() };
    NewServer::new(name, place)
}

/// Returns an image that runs its own program.
fn image(name: &str) -> NewServer {
    let env = BTreeMap::from([("API_KEY".to_owned(), VALUE.into())]);
    let (image, args) = ("ghcr.io/acme/clock:1.0.0".to_owned(), vec!["--utc".to_owned()]);
    let place = ServerPlace::Image { image, args, env };
    NewServer::new(name, place)
}

fn set(name: &str, enabled: bool) -> ServerChange {
    ServerChange::SetEnabled { name: name.to_owned(), enabled }
}

fn remove(name: &str) -> ServerChange {
    ServerChange::Remove { name: name.to_owned() }
}

/// Returns `vmcp.yaml` of a VirtualMCPServer.
async fn configuration(place: &Namespace, server: &str) -> Value {
    let map = place.get::<ConfigMap>(&format!("{server}-vmcp-config")).await;
    let text = map.and_then(|map| map.data?.remove("vmcp.yaml")).unwrap_or_default();
    serde_saphyr::from_str(&text).unwrap_or_default()
}

/// Waits until the entry of a backend in `vmcp.yaml` of `x` is as wanted; null without the entry.
async fn await_backend(place: &Namespace, name: &str, what: &str, is_wanted: impl Fn(&Value) -> bool) {
    place
        .eventually(what, async || {
            let file = configuration(place, "x").await;
            let backends = file["backends"].as_array().cloned().unwrap_or_default();
            let backend = backends.into_iter().find(|backend| backend["name"] == name).unwrap_or_default();
            is_wanted(&backend).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_server_with_the_tools_may_change_servers_and_nothing_else() {
    let place = ControlPlane::shared().await.namespace("serveradmin").await;
    let _operator = operator_with_admin(&place).await;
    apply(&place, "VirtualMCPServer", "x", &format!("{{optimizer: {{enabled: true, {TOOLS}}}}}")).await;
    let binding = place.eventually("the right", async || place.get::<RoleBinding>(SERVERS).await).await;
    assert_eq!(binding.role_ref.name, SERVER_ADMIN_ROLE);

    let user = account(&place);
    let [own, other] = [place.name.as_str(), "default"];
    let entries = ["get", "create", "patch", "delete"].map(|verb| (verb, GROUP, "mcpserverentries"));
    for (verb, group, resource) in entries.into_iter().chain([("create", "", "secrets")]) {
        await_right(&place, &user, (verb, group, resource), true).await;
        assert!(!may(&place, &user, verb, group, resource, other).await, "{verb} {resource} elsewhere");
    }
    for (verb, group, resource) in [
        ("get", "", "secrets"),
        ("list", "", "secrets"),
        ("patch", "", "secrets"),
        ("delete", "", "secrets"),
        ("get", GROUP, "mcpservers"),
        ("create", GROUP, "mcpservers"),
        ("patch", GROUP, "virtualmcpservers"),
        ("create", GROUP, "mcpexternalauthconfigs"),
        ("create", "", "pods"),
        ("create", "apps", "deployments"),
        ("create", "rbac.authorization.k8s.io", "rolebindings"),
    ] {
        assert!(!may(&place, &user, verb, group, resource, own).await, "{verb} {resource}");
    }

    let rules = json!([{ "command": ["npx", "-y", "@acme/*"], "image": "node:22" }]);
    let rules = json!({ "spec": { "optimizer": { "admin": { "allow": rules } } } });
    place.edit::<VirtualMCPServer>("x", rules).await;
    await_right(&place, &user, ("create", GROUP, "mcpservers"), true).await;
    place.eventually("the right to programs", async || place.get::<RoleBinding>(PROGRAMS).await).await;

    let without = json!({ "spec": { "optimizer": { "tools": ["find_tool", "call_tool"] } } });
    place.edit::<VirtualMCPServer>("x", without).await;
    for right in
        [("create", GROUP, "mcpserverentries"), ("create", GROUP, "mcpservers"), ("create", "", "secrets")]
    {
        await_right(&place, &user, right, false).await;
    }
    place
        .eventually("the token to go", async || {
            let pod = place.get::<Deployment>("x").await?.spec?.template.spec?;
            (pod.automount_service_account_token == Some(false)).then_some(())
        })
        .await;
}

#[tokio::test]
async fn the_tools_take_a_word_of_the_installation() {
    let place = ControlPlane::shared().await.namespace("noadmin").await;
    let _operator = Operator::start(&place).await;
    apply(&place, "VirtualMCPServer", "x", &format!("{{optimizer: {{enabled: true, {TOOLS}}}}}")).await;
    let condition =
        await_condition::<VirtualMCPServer>(&place, "x", "ConfigValid", "False", "ServerAdminDisabled").await;
    assert!(condition.contains("`serverAdmin.enabled: true`"), "{condition}");
    assert!(!may(&place, &account(&place), "create", GROUP, "mcpserverentries", &place.name).await);
}

#[tokio::test]
async fn servers_are_added_switched_and_removed_as_resources_and_values_stay_in_secrets() {
    let place = ControlPlane::shared().await.namespace("addservers").await;
    let operator = operator_with_admin(&place).await;
    apply(&place, "MCPGroup", "tools", "{}").await;
    let spec = format!("{{groupRef: {{name: tools}}, optimizer: {{enabled: true, {TOOLS}, {RULES}}}}}");
    apply(&place, "VirtualMCPServer", "x", &spec).await;
    apply(&place, "VirtualMCPServer", "other", "{groupRef: {name: tools}}").await;
    apply(
        &place,
        "MCPServerEntry",
        "byhand",
        "{groupRef: {name: tools}, remoteUrl: 'https://h.example.com/mcp'}",
    )
    .await;
    await_right(&place, &account(&place), ("create", GROUP, "mcpservers"), true).await;
    let server = virtual_server(&place).await;
    assert_eq!((server.name.as_str(), server.group.as_deref()), ("x", Some("tools")));
    let (one, other) = (registrar(&place, server.clone()).await, registrar(&place, server).await);

    // Of two replicas at the same moment, one wins.
    let (first, second) = tokio::join!(
        one.change(ServerChange::Add(remote("docs"))),
        other.change(ServerChange::Add(remote("docs")))
    );
    let taken = Err(RegistrarError::Taken("docs".to_owned()));
    assert!((first.is_ok() && second == taken) || (second.is_ok() && first == taken), "{first:?} {second:?}");
    await_backend(&place, "docs", "the server with its header", |backend| {
        backend["url"] == "https://docs.example.com/mcp" && backend["headers"]["Authorization"].is_string()
    })
    .await;
    one.change(ServerChange::Add(websocket("live"))).await.expect("a websocket");
    await_backend(&place, "live", "the websocket", |backend| {
        (&backend["url"], &backend["transport"])
            == (&json!("wss://live.example.com/mcp"), &json!("websocket"))
    })
    .await;
    one.change(remove("live")).await.expect("removed");
    one.change(ServerChange::Add(program("time"))).await.expect("a program");
    await_backend(&place, "time", "the program", |backend| backend["url"].is_string()).await;
    let deployment =
        place.eventually("the pod of the program", async || place.get::<Deployment>("mcp-time").await).await;
    let pod = deployment.spec.and_then(|spec| spec.template.spec).expect("a pod");
    assert_eq!(pod.security_context.and_then(|context| context.run_as_non_root), Some(true));
    place
        .eventually("the other to serve the entry of a person alone", async || {
            let names = configuration(&place, "other").await["backends"].to_string();
            assert!(!names.contains("docs"), "clients of x have no say in the other: {names}");
            names.contains("byhand").then_some(())
        })
        .await;

    let secrets = place.list::<Secret>(&format!("{ADDED_BY}=x")).await;
    assert_eq!(secrets.len(), 2, "one for each server, and none of the replica that lost");
    for object in ["mcpserverentry/docs", "mcpserver/time", "configmap/x-vmcp-config", "deployment/mcp-time"]
    {
        let shown = place.json(object).await.to_string();
        assert!(!shown.contains(VALUE) && !shown.contains(ENCODED), "{object}: {shown}");
    }
    assert!(!operator.process.output().contains(VALUE));

    one.change(set("docs", false)).await.expect("switched off");
    await_backend(&place, "docs", "the server to be off", |backend| backend["enabled"] == false).await;
    other.change(set("docs", true)).await.expect("switched on");
    await_backend(&place, "docs", "the server to be on", |backend| {
        backend["url"].is_string() && backend.get("enabled").is_none()
    })
    .await;
    one.change(set("time", false)).await.expect("switched off");
    place
        .eventually("the pod to go", async || {
            (place.get::<Deployment>("mcp-time").await?.spec?.replicas == Some(0)).then_some(())
        })
        .await;

    let refused = one.change(remove("byhand")).await.expect_err("of a person").to_string();
    assert!(refused.contains(&format!("MCPServerEntry byhand in namespace {}", place.name)), "{refused}");
    one.change(remove("docs")).await.expect("removed");
    await_backend(&place, "docs", "the server to go", Value::is_null).await;
    assert!(place.get::<MCPServerEntry>("byhand").await.is_some());
    one.change(remove("time")).await.expect("removed");
    await_backend(&place, "time", "the program to go", Value::is_null).await;
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    place
        .eventually("the Secrets to go with their servers", async || {
            place.list::<Secret>(&format!("{ADDED_BY}=x")).await.is_empty().then_some(())
        })
        .await;
}

/// Installs the chart's part about servers of clients; its policy is one of the cluster, and names its
/// servers by a mark.
async fn install_rights(place: &Namespace) -> bool {
    place.cluster().define_resources().await;
    let programs = format!("{SERVER_ADMIN_ROLE}-programs");
    let roles = [(SERVERS, SERVER_ADMIN_ROLE), (PROGRAMS, programs.as_str())];
    if !install_part(place, "serverAdmin.enabled=true", "server-admin.yaml", &roles).await {
        return false;
    }
    await_right(place, &account(place), ("create", GROUP, "mcpservers"), true).await;
    true
}

/// A change of a manifest.
type Change = fn(&mut Value);

/// Returns a manifest as the registrar writes it: kind, owner's kind and spec.
fn manifest(kind: &str, owner: &str, name: &str, content: &Value) -> Value {
    let owner_name = if owner == "VirtualMCPServer" { "x" } else { "mine" };
    let owner =
        json!({ "apiVersion": format!("{GROUP}/v1alpha1"), "kind": owner, "name": owner_name, "uid": "u" });
    let api = if kind == "Secret" { "v1".to_owned() } else { format!("{GROUP}/v1alpha1") };
    let metadata = json!({ "name": name, "labels": { ADDED_BY: "x" }, "ownerReferences": [owner] });
    let mut manifest = json!({ "apiVersion": api, "kind": kind, "metadata": metadata });
    for (key, value) in content.as_object().into_iter().flatten() {
        manifest[key] = value.clone();
    }
    manifest
}

fn entry(name: &str) -> Value {
    let reference = json!({ "name": "x.added.mine-1", "key": "k" });
    let headers = json!([{ "headerName": "A", "valueSecretRef": reference }]);
    let spec = json!({ "remoteUrl": "https://a.example.com/mcp", "headerForward": { "addHeadersFromSecret": headers } });
    manifest("MCPServerEntry", "VirtualMCPServer", name, &json!({ "spec": spec }))
}

/// Returns attempts of a server that was taken over: a manifest, its change, and a part of the refusal.
fn attempts() -> [(Value, Change, &'static str); 13] {
    let secret = manifest("Secret", "MCPServerEntry", "x.added.mine-1", &json!({ "type": "Opaque" }));
    let spec = json!({ "image": "i", "command": ["c"] });
    let program = manifest("MCPServer", "VirtualMCPServer", "program", &json!({ "spec": spec }));
    let label: Change = |object| object["metadata"]["labels"] = json!({ ADDED_BY: "other" });
    let no_label: Change = |object| object["metadata"]["labels"] = json!({});
    let no_owner: Change = |object| object["metadata"]["ownerReferences"] = json!([]);
    [
        (entry("mine"), label, "its clients added"),
        (entry("mine"), no_label, "its clients added"),
        (entry("mine"), no_owner, "owned by the VirtualMCPServer"),
        (entry("mine"), |it| it["spec"]["allowPrivateEndpoint"] = json!(true), "public address"),
        (entry("mine"), |it| it["spec"]["externalAuthConfigRef"] = json!({ "name": "a" }), "of others"),
        (
            entry("mine"),
            |it| {
                let header = &mut it["spec"]["headerForward"]["addHeadersFromSecret"][0];
                header["valueSecretRef"]["name"] = json!("of-others");
            },
            "Secrets of its own",
        ),
        (program.clone(), |it| it["spec"]["podTemplateSpec"] = json!({ "spec": {} }), "the operator's"),
        (program.clone(), |it| it["spec"]["serviceAccount"] = json!("admin"), "the operator's"),
        (
            program.clone(),
            |it| it["spec"]["secrets"] = json!([{ "name": "of-others", "key": "k" }]),
            "the operator's",
        ),
        (program, label, "its clients added"),
        (secret.clone(), no_label, "its clients added"),
        (secret.clone(), |it| it["metadata"]["name"] = json!("bootstrap"), "begin with its own"),
        (
            secret,
            |it| {
                it["type"] = json!("kubernetes.io/service-account-token");
                it["metadata"]["annotations"] = json!({ "kubernetes.io/service-account.name": "default" });
            },
            "of the type Opaque",
        ),
    ]
}

/// A server under an attacker keeps its rights, and RBAC alone would let it send any Secret of the namespace
/// to any URL.
#[tokio::test]
async fn the_right_to_add_servers_gains_a_server_nothing_more() {
    let place = ControlPlane::shared().await.namespace("takenover").await;
    if !install_rights(&place).await {
        return;
    }
    let client = client_as(place.cluster(), &account(&place)).await;
    let create = async |manifest: &Value| {
        let (api, version) = match manifest["apiVersion"].as_str() {
            Some("v1") => ("", "v1"),
            _ => (GROUP, "v1alpha1"),
        };
        let kind = manifest["kind"].as_str().expect("a kind");
        let plural = if kind == "MCPServerEntry" {
            "mcpserverentries".to_owned()
        } else {
            format!("{}s", kind.to_lowercase())
        };
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(api, version, kind), &plural);
        let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), &place.name, &resource);
        let object = serde_json::from_value(manifest.clone()).expect("an object");
        let made = objects.create(&PostParams::default(), &object).await;
        made.err().map(|error| error.to_string()).unwrap_or_default()
    };
    place
        .eventually("the policy", async || {
            let mut unlabeled = entry("early");
            unlabeled["metadata"]["labels"] = json!({});
            let refused = create(&unlabeled).await;
            // Until the policy is there the entry is made. Its owner does not exist: garbage collection may
            // delete it first.
            if refused.is_empty() {
                drop(place.api::<MCPServerEntry>().delete("early", &DeleteParams::background()).await);
            }
            refused.contains("its clients added").then_some(())
        })
        .await;
    for (mut attempt, change, expected) in attempts() {
        change(&mut attempt);
        let refused = create(&attempt).await;
        assert!(refused.contains(expected), "{expected}: {refused}\n{attempt}");
    }
    assert_eq!(create(&entry("mine")).await, "");
    let mut lent = entry("lent");
    let header = &mut lent["spec"]["headerForward"]["addHeadersFromSecret"][0];
    header["valueSecretRef"]["name"] = json!("x.shared.git");
    assert_eq!(create(&lent).await, "", "a Secret for clients to name; the operator looks at the rules");

    // Servers of people stay.
    apply(&place, "MCPServerEntry", "byhand", "{remoteUrl: 'https://h.example.com/mcp'}").await;
    apply(&place, "MCPServer", "program", "{image: i, command: [c]}").await;
    let entries: Api<MCPServerEntry> = Api::namespaced(client.clone(), &place.name);
    let programs: Api<MCPServer> = Api::namespaced(client.clone(), &place.name);
    let adopt = json!({ "metadata": { "labels": { ADDED_BY: "x" },
        "ownerReferences": [{ "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "VirtualMCPServer", "name": "x", "uid": "u" }] } });
    let elsewhere = json!({ "spec": { "remoteUrl": "https://evil.example/mcp" } });
    for change in [adopt, elsewhere] {
        let refused = entries.patch("byhand", &PatchParams::default(), &Patch::Merge(change)).await;
        let refused = refused.expect_err("refused").to_string();
        assert!(refused.contains("its clients added"), "{refused}");
    }
    let refused = entries.delete("byhand", &DeleteParams::default()).await.expect_err("refused").to_string();
    assert!(refused.contains("its clients added"), "{refused}");
    let refused =
        programs.delete("program", &DeleteParams::default()).await.expect_err("refused").to_string();
    assert!(refused.contains("its clients added"), "{refused}");

    // The registrar itself stays within the policy.
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    let uid = place.get::<VirtualMCPServer>("x").await.and_then(|server| server.metadata.uid);
    let server = VirtualServer {
        name: "x".to_owned(),
        uid: uid.expect("a UID"),
        namespace: place.name.clone(),
        api_version: format!("{GROUP}/v1alpha1"),
        group: None,
        runs_programs: true,
    };
    let registrar = registrar(&place, server).await;
    registrar.change(ServerChange::Add(remote("docs"))).await.expect("a server");
    registrar.change(ServerChange::Add(program("time"))).await.expect("a program");
    registrar.change(ServerChange::Add(websocket("live"))).await.expect("a websocket");
    registrar.change(ServerChange::Add(image("clock"))).await.expect("an image");
    registrar.change(set("time", false)).await.expect("switched off");
    for added in ["time", "docs", "live", "clock"] {
        registrar.change(remove(added)).await.expect("removed");
    }
}
