//! Life of a release: installed, upgraded, uninstalled and installed again, while the servers go on serving.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use vmcp_integration::Client;
use vmcp_kubernetes_tests::images::{NEXT_VMCP, in_cluster};
use vmcp_kubernetes_tests::{Cluster, Namespace, RELEASE, WEB, chart, older_chart, repository, skipped};

const SERVER: &str = "apiVersion: toolhive.stacklok.com/v1alpha1
kind: VirtualMCPServer
metadata: {name: kept}
spec: {}
";

/// Returns every pod that the operator made, with the number of its restarts.
async fn pods(place: &Namespace) -> Vec<(Option<String>, i32)> {
    let pods = place.list::<Pod>("app.kubernetes.io/managed-by=vmcp-operator").await;
    let restarts = |pod: &Pod| {
        let states = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        states.into_iter().flatten().map(|state| state.restart_count).sum()
    };
    pods.iter().map(|pod| (pod.metadata.name.clone(), restarts(pod))).collect()
}

#[tokio::test]
async fn what_serves_goes_on_through_upgrade_uninstallation_and_reinstallation() {
    let cluster = Cluster::from_environment();
    let uninstall = ["uninstall", RELEASE, "--namespace", RELEASE, "--wait", "--ignore-not-found"];
    // Other scenarios may have installed it.
    cluster.helm(&uninstall).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    cluster.release(&older_chart(folder.path()), "replicas=1").await;
    assert_eq!(cluster.longest_description().await, "512");
    let place = cluster.namespace("release").await;
    place.apply(WEB).await;
    place.apply(SERVER).await;
    let serving = async |replicas: i32| {
        let status = place.json("virtualmcpserver/kept").await["status"].take();
        (status["phase"] == "Ready" && status["backendCount"] == 1 && status["readyReplicas"] == replicas)
            .then_some(())
    };
    place.eventually("the server", async || serving(1).await).await;

    let way = place.endpoint("vmcp-kept", 4483).await;
    let url = format!("{}/mcp", way.url);
    let modern = Client::modern(&url);
    place.eventually("web_echo", async || modern.tools().await.contains_key("web_echo").then_some(())).await;
    let session = Client::legacy(&url, "2025-11-25", "loyal").await;
    let enough = Arc::new(AtomicBool::new(false));
    let steady = tokio::spawn({
        let enough = Arc::clone(&enough);
        async move {
            let mut calls = 0;
            while !enough.load(Ordering::Relaxed) {
                for client in [&modern, &session] {
                    calls += 1;
                    let said = client.call_tool("web_echo", json!({"message": "still here"})).await;
                    assert!(said.content_text().contains("still here"), "call {calls}: {}", said.text);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            calls
        }
    });
    let before = pods(&place).await;

    cluster.release(&chart(), "replicas=2").await;
    assert_eq!(cluster.longest_description().await, "1024");

    let said = cluster.helm(&uninstall).await.unwrap();
    assert!(said.contains("[CustomResourceDefinition] virtualmcpservers.toolhive.stacklok.com"), "{said}");
    let operators =
        cluster.kubectl(&["get", "deployments", "--namespace", RELEASE, "--output", "name"]).await;
    assert_eq!(operators.unwrap(), "");
    // The server is kept, but no operator looks after it.
    let scale = ["scale", "vmcp/kept", "--replicas", "2", "--namespace", &place.name];
    cluster.kubectl(&scale).await.unwrap();
    assert_eq!(place.get::<Deployment>("kept").await.unwrap().spec.unwrap().replicas, Some(1));

    cluster.release(&chart(), "replicas=1").await;
    place.eventually("another replica", async || serving(2).await).await;
    let after = pods(&place).await;
    assert!(before.iter().all(|pod| after.contains(pod)), "no pod was made anew: {before:?}, {after:?}");
    enough.store(true, Ordering::Relaxed);
    let calls = steady.await.unwrap();
    eprintln!("{calls} calls went well");
    a_missing_right_is_told_and_stops_nothing_that_runs(&place).await;
    an_upgrade_that_changes_the_image_fails_no_call(&place, &url).await;
    cluster.helm(&uninstall).await.unwrap();
    plain_manifests_make_a_ready_operator(&place, folder.path()).await;
    place.remove().await;
}

/// Takes the right to write Deployments from the running operator, and gives it back.
async fn a_missing_right_is_told_and_stops_nothing_that_runs(place: &Namespace) {
    let roles: Api<ClusterRole> = Api::all(place.cluster().client().await);
    let granted = roles.get(RELEASE).await.unwrap().rules.unwrap();
    let mut without = granted.clone();
    for rule in &mut without {
        if rule.resources.iter().flatten().any(|resource| resource == "deployments") {
            rule.verbs.retain(|verb| ["get", "list", "watch"].contains(&verb.as_str()));
        }
    }
    let set = async |rules: &[PolicyRule]| {
        let rules = Patch::Merge(json!({"rules": rules}));
        roles.patch(RELEASE, &PatchParams::default(), &rules).await.unwrap();
    };
    set(&without).await;
    let user = format!("system:serviceaccount:{RELEASE}:{RELEASE}");
    let may = ["auth", "can-i", "patch", "deployments.apps", "--as", &user, "--namespace", &place.name];
    let taken = async || place.cluster().kubectl(&may).await.is_err().then_some(());
    place.eventually("the right to be gone", taken).await;
    place.apply(&SERVER.replace("kept", "late")).await;
    let told = async || {
        let status = place.json("virtualmcpserver/late").await["status"].take();
        let said = status["conditions"].to_string();
        said.contains("deployments.apps").then_some(said)
    };
    let said = place.eventually("a condition that names the missing right", told).await;
    assert!(said.contains("forbidden"), "{said}");
    assert_eq!(place.condition("virtualmcpserver/kept", "Ready").await["status"], "True");

    set(&granted).await;
    place.eventually("the new server", async || is_ready(place, "late").await).await;
}

/// Installs `deploy/` without Helm, with the images of the tests, and removes it again.
async fn plain_manifests_make_a_ready_operator(place: &Namespace, folder: &Path) {
    let cluster = place.cluster();
    let deploy = repository().join("deploy").display().to_string();
    let text = cluster.kubectl(&["kustomize", &deploy]).await.unwrap();
    let [vmcp, operator, _] = in_cluster();
    let version = env!("CARGO_PKG_VERSION");
    let images = [("image: vmcp-operator:", operator), ("value: vmcp:", vmcp)];
    let text = images.into_iter().fold(text, |text, (field, image)| {
        let named = format!("{field}{version}");
        assert!(text.contains(&named), "{named} in {text}");
        let (key, _) = field.split_once(' ').unwrap();
        text.replace(&named, &format!("{key} {image}"))
    });
    let [definitions, rest]: [Vec<&str>; 2] = [true, false].map(|wanted| {
        let is_definition = |document: &&str| document.contains("kind: CustomResourceDefinition\n");
        text.split("\n---\n").filter(|document| is_definition(document) == wanted).collect()
    });
    assert!(definitions.len() > 10 && rest.len() > 5, "{} and {}", definitions.len(), rest.len());
    let file = |name: &str, documents: &[&str]| {
        let path = folder.join(name).display().to_string();
        std::fs::write(&path, documents.join("\n---\n")).unwrap();
        path
    };
    let (definitions, rest) = (file("definitions.yaml", &definitions), file("operator.yaml", &rest));
    // Helm has left the definitions, and fields of them are its.
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", &definitions, "-f", &rest];
    cluster.kubectl(&apply).await.unwrap();
    let rolled_out =
        ["rollout", "status", "deployment/vmcp-operator", "-n", "vmcp-system", "--timeout", "180s"];
    cluster.kubectl(&rolled_out).await.unwrap();
    place.apply(&SERVER.replace("kept", "plain")).await;
    place.eventually("a server without Helm", async || is_ready(place, "plain").await).await;
    cluster.kubectl(&["delete", "-f", &rest]).await.unwrap();
}

async fn is_ready(place: &Namespace, name: &str) -> Option<()> {
    let object = format!("virtualmcpserver/{name}");
    (place.condition(&object, "Ready").await["status"] == "True").then_some(())
}

/// Upgrades to another image of vmcp while both replicas serve.
async fn an_upgrade_that_changes_the_image_fails_no_call(place: &Namespace, url: &str) {
    if std::env::var_os("VMCP_E2E_DIRECT").is_none() {
        skipped("a second image of vmcp is on the tests' own node only");
        return;
    }
    let modern = Client::modern(url).reconnecting();
    let session = Client::legacy(url, "2025-11-25", "loyal").await.reconnecting();
    let (cluster, chart) = (place.cluster(), chart());
    let upgrade = cluster.release_with(&chart, "replicas=1", NEXT_VMCP);
    let rolled = async {
        let mut calls = 0;
        let new_pods = async || {
            for client in [&modern, &session] {
                calls += 1;
                let said = client.call_tool("web_echo", json!({"message": "still here"})).await;
                assert!(said.content_text().contains("still here"), "call {calls}: {}", said.text);
            }
            let pods = place.list::<Pod>("app.kubernetes.io/name=vmcp,app.kubernetes.io/instance=kept").await;
            let image = |pod: &Pod| pod.spec.as_ref()?.containers.first()?.image.clone();
            let all_new = pods.len() == 2 && pods.iter().all(|pod| image(pod).as_deref() == Some(NEXT_VMCP));
            let status = place.get::<Deployment>("kept").await?.status?;
            (all_new && status.ready_replicas == Some(2)).then_some(())
        };
        place.eventually("pods with the new image", new_pods).await;
        calls
    };
    let ((), calls) = tokio::join!(upgrade, rolled);
    eprintln!("{calls} calls went well while the image changed");
}
