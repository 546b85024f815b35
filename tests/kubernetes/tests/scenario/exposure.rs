//! The Service for clients and what leads to it, on a real API server.

use serde_json::json;
use vmcp_crds::VirtualMCPServer;
use vmcp_kubernetes_tests::{ControlPlane, Operator};

use super::backends::{apply, assert_writes_nothing, await_condition, place};
use super::packaging::define_foreign;

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

#[tokio::test]
async fn routes_autoscalers_and_monitors_are_made_as_they_are_asked_for() {
    // Kinds of other projects are defined for the whole cluster, so it must not be the shared one.
    let cluster = ControlPlane::start().await;
    define_foreign(&cluster).await;
    let place = cluster.namespace("settings").await;
    let variables =
        [("LEADER_ELECT", "false"), ("ENABLE_HTTP_ROUTES", "true"), ("ENABLE_SERVICE_MONITORS", "true")];
    let operator = Operator::with(&place, "one", &variables).await;
    let spec = "{allowAnonymousExposure: true, \
        httpRoute: {parentRefs: [{name: gw}], timeouts: {request: 0s}, annotations: {note: a}, labels: {team: b}}, \
        autoscaling: {maxReplicas: 5, behavior: {scaleDown: {policies: [{type: Pods, value: 1, periodSeconds: 60}]}}}, \
        serviceMonitor: {interval: 30s, scrapeTimeout: 10s, relabelings: [{targetLabel: c, replacement: d}]}}";
    apply(&place, "VirtualMCPServer", "x", spec).await;
    let route = place
        .eventually("the route", async || {
            let route = place.json("httproutes/x-vmcp").await;
            route.is_object().then_some(route)
        })
        .await;
    assert_eq!(route["spec"]["rules"][0]["timeouts"], json!({ "request": "0s" }));
    assert_eq!(route["metadata"]["annotations"]["note"], "a");
    assert_eq!(route["metadata"]["labels"]["team"], "b");
    // The API server adds defaults beside what is asked for, which is no drift.
    assert_writes_nothing::<VirtualMCPServer>(&place, &operator, "x").await;
    let scaler = place.json("hpa/x-vmcp").await;
    assert_eq!(scaler["spec"]["behavior"]["scaleDown"]["policies"][0]["periodSeconds"], 60);
    let monitor = place.json("servicemonitors/x-vmcp").await["spec"]["endpoints"][0].take();
    assert_eq!(monitor["scrapeTimeout"], "10s");
    assert_eq!(monitor["relabelings"], json!([{ "targetLabel": "c", "replacement": "d" }]));

    let refused = "{apiVersion: toolhive.stacklok.com/v1alpha1, kind: VirtualMCPServer, metadata: {name: other}, \
                   spec: {serviceMonitor: {interval: 10s, scrapeTimeout: 1m}}}";
    let refused = place.try_apply(refused).await.unwrap_err().to_string();
    assert!(refused.contains("scrapeTimeout is longer than interval"), "{refused}");

    apply(
        &place,
        "VirtualMCPServer",
        "x",
        "{allowAnonymousExposure: true, httpRoute: {parentRefs: [{name: gw}]}}",
    )
    .await;
    place
        .eventually("the settings to go", async || {
            let route = place.json("httproutes/x-vmcp").await;
            let gone = route.pointer("/spec/rules/0/timeouts").is_none()
                && route["metadata"]["annotations"].get("note").is_none();
            (gone && place.json("hpa/x-vmcp").await.is_null()).then_some(())
        })
        .await;
}
