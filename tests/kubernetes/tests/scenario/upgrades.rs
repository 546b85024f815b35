//! Upgrades of the operator, and its scope.

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;
use vmcp_crds::MCPServer;
use vmcp_kubernetes_tests::{ControlPlane, Namespace, Operator};

use super::backends::{apply, await_condition, deployment, set_pod_status};

/// Returns the image of the bridge in the pods of a server.
async fn bridge_image(place: &Namespace, server: &str) -> String {
    let deployment = place.get::<Deployment>(&format!("mcp-{server}")).await.expect("a Deployment");
    let pod = deployment.spec.and_then(|spec| spec.template.spec).expect("a pod template");
    pod.init_containers.expect("the bridge")[0].image.clone().expect("an image")
}

#[tokio::test]
async fn an_upgrade_restarts_no_stdio_server_that_runs() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let place = ControlPlane::shared().await.namespace("upgrade").await;
    let version = |image: &'static str| [("LEADER_ELECT", "false"), ("VMCP_BRIDGE_IMAGE", image)];
    let operator = Operator::with(&place, "before", &version("vmcp:1")).await;
    apply(&place, "MCPServer", "time", "{image: 'node:24', command: [npx, server-time]}").await;
    set_pod_status(&place, "time", true, json!({ "state": { "running": {} } })).await;
    await_condition::<MCPServer>(&place, "time", "Ready", "True", "PodsReady").await;
    drop(operator);

    let operator = Operator::with(&place, "after", &version("vmcp:2")).await;
    apply(&place, "MCPServer", "other", "{image: 'node:24', command: [npx, server-other]}").await;
    deployment(&place, "mcp-other").await;
    assert_eq!(bridge_image(&place, "other").await, "vmcp:2");
    // The new operator looks at the old server, too: at rest, only a change makes it look.
    let looks = operator.reconciles("MCPServer").await;
    let touch = json!({ "metadata": { "annotations": { "example.com/touched": "true" } } });
    place.edit::<MCPServer>("time", touch).await;
    place
        .eventually("a look at the touched server", async || {
            (operator.reconciles("MCPServer").await > looks).then_some(())
        })
        .await;
    assert_eq!(bridge_image(&place, "time").await, "vmcp:1", "it runs, and nothing of it changed");

    place.edit::<MCPServer>("time", json!({ "spec": { "args": ["--utc"] } })).await;
    place
        .eventually("the new bridge with the new arguments", async || {
            (bridge_image(&place, "time").await == "vmcp:2").then_some(())
        })
        .await;
    place.remove().await;
}

#[tokio::test]
async fn an_operator_looks_after_the_namespaces_of_a_list_and_no_other() {
    let cluster = ControlPlane::shared().await;
    let [first, second, other] =
        [cluster.namespace("list").await, cluster.namespace("list").await, cluster.namespace("list").await];
    let namespaces = format!("{}, {}", first.name, second.name);
    let variables = [("LEADER_ELECT", "false"), ("WATCH_NAMESPACE", namespaces.as_str())];
    let _operator = Operator::with(&first, "list", &variables).await;
    for place in [&other, &first, &second] {
        apply(place, "VirtualMCPServer", "x", "{}").await;
    }
    deployment(&first, "x").await;
    deployment(&second, "x").await;
    assert!(other.get::<Deployment>("x").await.is_none());
    for place in [first, second, other] {
        place.remove().await;
    }
}

/// Each of 34 kinds is watched once in each namespace: over HTTP/1 these were 400 connections.
#[tokio::test]
async fn watches_of_many_namespaces_share_connections() {
    let cluster = ControlPlane::shared().await;
    let mut places = Vec::new();
    for _ in 0..12 {
        places.push(cluster.namespace("shared").await);
    }
    let names: Vec<_> = places.iter().map(|place| place.name.as_str()).collect();
    let namespaces = names.join(",");
    let variables = [("LEADER_ELECT", "false"), ("WATCH_NAMESPACE", namespaces.as_str())];
    let operator = Operator::with(&places[0], "many", &variables).await;
    assert!(operator.sockets() < 60, "{} sockets", operator.sockets());
    for place in [&places[0], &places[11]] {
        apply(place, "VirtualMCPServer", "x", "{}").await;
        deployment(place, "x").await;
    }
    for place in places {
        place.remove().await;
    }
}

#[tokio::test]
async fn a_release_for_the_cluster_leaves_excluded_namespaces_to_another() {
    // A control plane of its own: an operator for all namespaces would meet those of other tests.
    let cluster = ControlPlane::start_without_controllers().await;
    let (own, shared) = (cluster.namespace("own").await, cluster.namespace("shared").await);
    let elect = ("LEADER_ELECT", "false");
    let whole = [
        elect,
        ("WATCH_NAMESPACE", ""),
        ("EXCLUDE_NAMESPACES", own.name.as_str()),
        ("VMCP_IMAGE", "vmcp:cluster"),
    ];
    let for_cluster = Operator::with(&shared, "cluster", &whole).await;
    let _for_namespace = Operator::with(&own, "namespace", &[elect, ("VMCP_IMAGE", "vmcp:own")]).await;
    for place in [&own, &shared] {
        apply(place, "VirtualMCPServer", "x", "{}").await;
    }
    let image = async |place: &Namespace| {
        let pod = place.get::<Deployment>("x").await?.spec?.template.spec?;
        pod.containers[0].image.clone()
    };
    for (place, expected) in [(&shared, "vmcp:cluster"), (&own, "vmcp:own")] {
        place
            .eventually(expected, async || (image(place).await.as_deref() == Some(expected)).then_some(()))
            .await;
    }
    // By now the operator of the cluster has looked at the other namespace twice more.
    for_cluster.at_rest(&shared, "VirtualMCPServer", 2).await;
    assert_eq!(image(&own).await.as_deref(), Some("vmcp:own"));
    let generation = own.get::<Deployment>("x").await.and_then(|deployment| deployment.metadata.generation);
    assert_eq!(generation, Some(1), "one operator wrote it, once");
}
