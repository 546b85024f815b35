//! The port of events.

use super::*;

#[test]
fn events_have_a_port_of_the_pods_only_where_the_resource_asks_for_it() {
    let ports = |spec: &str| {
        let container = one(spec, "Deployment/x")["spec"]["template"]["spec"]["containers"][0].take();
        let of_pod = container["ports"].as_array().expect("ports").len();
        let service = one(spec, "Service/vmcp-x-peers")["spec"]["ports"].take();
        let policy = one(spec, "NetworkPolicy/x-vmcp")["spec"]["ingress"][1]["ports"].take();
        (of_pod, service.as_array().expect("ports").len(), policy.as_array().expect("ports").len())
    };
    assert_eq!(ports("{networkPolicy: {enabled: true}}"), (2, 2, 1));
    let spec = "{networkPolicy: {enabled: true}, events: {enabled: true}, serviceType: LoadBalancer, \
                allowAnonymousExposure: true}";
    assert_eq!(ports(spec), (3, 3, 2));
    let events = one(spec, "Service/vmcp-x-peers")["spec"]["ports"][2].take();
    assert_eq!((&events["name"], &events["port"]), (&json!("events"), &json!(8766)));
    assert_eq!(one(spec, "NetworkPolicy/x-vmcp")["spec"]["ingress"][1]["ports"][1]["port"], 8766);
    let clients = one(spec, "Service/vmcp-x")["spec"]["ports"].take();
    assert_eq!(clients.as_array().map(Vec::len), Some(1), "it may lead out of the cluster");
}
