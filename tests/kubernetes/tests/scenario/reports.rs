//! Words of pods that reach the resource: issues about names, and embeddings that come back. The test plays
//! the pod.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use vmcp_crds::VirtualMCPServer;
use vmcp_kubernetes_tests::{ControlPlane, Namespace, Stopwatch};

use super::backends::{apply, await_condition, place};
use super::stand_in::StandIn;

/// Waits for an event of this reason about the server, and returns its message.
async fn event(place: &Namespace, reason: &str) -> String {
    let published = async || {
        let events = place.list::<Event>("").await.into_iter();
        let mut ours =
            events.filter(|event| event.involved_object.kind.as_deref() == Some("VirtualMCPServer"));
        ours.find(|event| event.reason.as_deref() == Some(reason))?.message
    };
    place.eventually(&format!("an event {reason}"), published).await
}

#[tokio::test]
async fn reserved_names_and_clashes_are_in_a_condition_and_an_event() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("names").await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    let (stand_in, _) = StandIn::of(&place, "x").await;
    let definitions = async |reason: &str| {
        await_condition::<VirtualMCPServer>(&place, "x", "DefinitionsListed", "False", reason).await
    };
    let reserved = "ReservedToolName: tool optim.find_tool of backend web: reserved for vmcp's own tools";
    stand_in.set_report(json!({ "tools": 1, "issues": [reserved] }));
    assert_eq!(definitions("ReservedToolName").await, reserved);
    assert_eq!(event(&place, "ReservedToolName").await, reserved);

    // Only the configuration resolves a clash, so that it degrades the server.
    let clash = "UnresolvedConflict: tool search of backend a: b has it too; name them apart";
    stand_in.set_report(json!({ "tools": 1, "issues": [reserved, clash] }));
    let message = definitions("UnresolvedConflict").await;
    assert!(message.starts_with(clash) && message.contains(reserved), "{message}");
    assert_eq!(event(&place, "UnresolvedConflict").await, message);
    await_condition::<VirtualMCPServer>(&place, "x", "Degraded", "True", "UnresolvedConflict").await;
    place.remove().await;
}

#[tokio::test]
async fn embeddings_that_come_back_are_told_in_time() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("vectors").await;
    let tei = "{provider: tei, tei: {endpoint: 'http://tei:8080'}}";
    apply(&place, "VirtualMCPServer", "x", &format!("{{optimizer: {{enabled: true, embeddings: {tei}}}}}"))
        .await;
    let (stand_in, _) = StandIn::of(&place, "x").await;
    let embeddings = |state: &str| json!({ "tools": 1, "embeddings": { "provider": "tei", "state": state } });
    stand_in.set_report(embeddings("degraded"));
    let kind = "EmbeddingsReady";
    await_condition::<VirtualMCPServer>(&place, "x", kind, "False", "EmbeddingsFailing").await;

    let watch = Stopwatch::start(&place).await;
    stand_in.set_report(embeddings("ready"));
    await_condition::<VirtualMCPServer>(&place, "x", kind, "True", "EmbeddingsReady").await;
    let since = place.condition("vmcp/x", kind).await["lastTransitionTime"].take();
    let since: Time = serde_json::from_value(since).expect("a time");
    // A pod asks a failed service again after 40 s at most; the rest of the minute is the operator's.
    watch.assert_within(Duration::from_secs(20), "EmbeddingsReady=True", &since);
    place.remove().await;
}
