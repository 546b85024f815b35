//! The Service for clients and what leads to it, on a real API server.

use serde_json::json;
use vmcp_crds::VirtualMCPServer;

use super::backends::{apply, assert_writes_nothing, await_condition, place};

/// The API server refuses settings of a load balancer at any other Service.
#[tokio::test]
async fn a_load_balancer_takes_connections_from_the_given_addresses_alone() {
    let (place, operator) = place("balancer").await;
    let spec = "{serviceType: LoadBalancer, service: {loadBalancerSourceRanges: [203.0.113.0/24], \
                loadBalancerClass: example.com/internal, externalTrafficPolicy: Local}}";
    apply(&place, "VirtualMCPServer", "x", spec).await;
    // Withheld until the exposure is allowed; everything else is in force.
    await_condition::<VirtualMCPServer>(&place, "x", "ExposureAllowed", "False", "AnonymousExposure").await;
    let service = async || place.json("service/vmcp-x").await["spec"].take();
    assert_eq!(service().await["type"], "ClusterIP");

    place.edit::<VirtualMCPServer>("x", json!({ "spec": { "allowAnonymousExposure": true } })).await;
    let made = place
        .eventually("the load balancer", async || {
            let made = service().await;
            (made["type"] == "LoadBalancer").then_some(made)
        })
        .await;
    assert_eq!(made["loadBalancerSourceRanges"], json!(["203.0.113.0/24"]));
    assert_eq!(made["loadBalancerClass"], "example.com/internal");
    assert_eq!(made["externalTrafficPolicy"], "Local");
    assert_writes_nothing::<VirtualMCPServer>(&place, &operator, "x").await;

    // Back inside: the fields go with the type.
    place
        .edit::<VirtualMCPServer>("x", json!({ "spec": { "serviceType": "ClusterIP", "service": null } }))
        .await;
    place
        .eventually("a Service inside of the cluster", async || {
            let made = service().await;
            let gone = ["loadBalancerSourceRanges", "loadBalancerClass", "externalTrafficPolicy"]
                .iter()
                .all(|field| made.get(*field).is_none());
            (made["type"] == "ClusterIP" && gone).then_some(())
        })
        .await;

    let refused = place
        .try_apply(
            "{apiVersion: toolhive.stacklok.com/v1alpha1, kind: VirtualMCPServer, metadata: {name: other}, \
             spec: {service: {loadBalancerSourceRanges: [10.0.0.0/8]}}}",
        )
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("set serviceType: LoadBalancer, or remove them"), "{refused}");
    place.remove().await;
}
