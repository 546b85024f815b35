//! Two replicas, of which one is deleted under load.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::json;
use vmcp_integration::Client;
use vmcp_kubernetes_tests::{Cluster, WEB};

use super::ready;

const SERVER: &str = "apiVersion: toolhive.stacklok.com/v1alpha1
kind: VirtualMCPServer
metadata: {name: pair}
spec: {replicas: 2}
";
const PODS: &str = "app.kubernetes.io/name=vmcp,app.kubernetes.io/instance=pair";

#[tokio::test]
async fn sessions_go_on_in_the_other_replica_and_deletion_leaves_nothing() {
    let cluster = Cluster::from_environment();
    let place = cluster.served("replicas").await;
    place.apply(WEB).await;
    place.apply(SERVER).await;
    ready(&place, "pair").await;
    let both = async || {
        let status = place.get::<Deployment>("pair").await?.status?;
        (status.ready_replicas == Some(2) && status.updated_replicas == Some(2)).then_some(())
    };
    place.eventually("two replicas", both).await;

    // Each replica asks the other by the headless Service.
    let peers = async || {
        let slices = place.list::<EndpointSlice>("kubernetes.io/service-name=vmcp-pair-peers").await;
        let endpoints = slices.into_iter().flat_map(|slice| slice.endpoints);
        let ready = endpoints
            .filter(|endpoint| endpoint.conditions.as_ref().is_some_and(|state| state.ready == Some(true)));
        (ready.count() == 2).then_some(())
    };
    place.eventually("two endpoints of the headless Service", peers).await;

    let way = place.endpoint("vmcp-pair", 4483).await;
    let url = format!("{}/mcp", way.url);
    let modern = Client::modern(&url).reconnecting();
    let session = Client::legacy(&url, "2025-11-25", "loyal").await.reconnecting();
    let everywhere = async || {
        // Each request may reach the other replica.
        for _ in 0..8 {
            let listed = modern.tools().await.contains_key("web_echo")
                && session.tools().await.contains_key("web_echo");
            listed.then_some(())?;
        }
        Some(())
    };
    place.eventually("web_echo in both replicas", everywhere).await;

    for victim in place.list::<Pod>(PODS).await {
        let name = victim.metadata.name.unwrap_or_default();
        place.delete::<Pod>(&name).await;
        // No call may fail meanwhile: the pod takes connections until the Service has forgotten it.
        let mut calls = 0;
        let replaced = async || {
            for client in [&modern, &session] {
                calls += 1;
                let said = client.call_tool("web_echo", json!({"message": "still here"})).await;
                assert!(said.content_text().contains("still here"), "call {calls}: {}", said.text);
            }
            let pods = place.list::<Pod>(PODS).await;
            let gone = pods.iter().all(|pod| pod.metadata.name.as_deref() != Some(&name));
            (gone && both().await.is_some()).then_some(())
        };
        place.eventually(&format!("{name} to be replaced"), replaced).await;
        eprintln!("{calls} calls went well while {name} was replaced");
    }

    let ours = ["delete", "virtualmcpserver/pair", "mcpserver/web", "--namespace", &place.name];
    place.cluster().kubectl(&ours).await.unwrap();
    let managed = "app.kubernetes.io/managed-by=vmcp-operator";
    let nothing = async || {
        let left = place.list::<Deployment>(managed).await.len()
            + place.list::<Service>(managed).await.len()
            + place.list::<ConfigMap>(managed).await.len()
            + place.list::<Secret>(managed).await.len()
            + place.list::<ServiceAccount>(managed).await.len()
            + place.list::<Pod>(managed).await.len();
        (left == 0).then_some(())
    };
    place.eventually("nothing to be left", nothing).await;
    place.remove().await;
}
