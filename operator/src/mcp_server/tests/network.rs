//! Security context and NetworkPolicy of the pods.

use super::*;
use crate::mcp_server::permission_profile::ProfileText;

#[test]
fn pods_are_restricted_and_take_calls_of_their_group_alone() {
    let spec = STDIO.replace("args:", "groupRef: {name: team}, args:");
    let references = references(ReferencedSecrets::default());
    let settings = BuildSettings { operator_namespace: Some("vmcp-system".to_owned()), ..settings() };
    let desired = plan(&server(&spec), &references, &settings).unwrap();
    let of = |kind| {
        let child = desired.children.iter().find(|child| child.kind() == kind).unwrap();
        serde_json::to_value(child.object()).unwrap()
    };
    let pod = of(ChildKind::Deployment)["spec"]["template"]["spec"].take();
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["runAsUser"], 1000);
    for container in [&pod["containers"][0], &pod["initContainers"][0]] {
        assert!(container["resources"]["limits"]["memory"].is_string(), "{container}");
        assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    }
    let ingress = of(ChildKind::NetworkPolicy)["spec"]["ingress"].take();
    let callers = &ingress[0]["from"][0]["podSelector"];
    assert_eq!(callers["matchLabels"], json!({ "app.kubernetes.io/name": "vmcp" }));
    assert_eq!(callers["matchExpressions"][0]["values"], json!(["team", ""]));
    assert_eq!(ingress[0]["ports"][0]["port"], 8080);
    assert_eq!(ingress[0]["ports"][1]["port"], 15008, "tunnels of Istio's ambient mode");
    let operator = &ingress[1]["from"][0];
    let system = json!({ "kubernetes.io/metadata.name": "vmcp-system" });
    assert_eq!(operator["namespaceSelector"]["matchLabels"], system);

    let open = STDIO.replace("args:", "networkPolicy: {enabled: false}, args:");
    let desired = plan(&server(&open), &references, &settings).unwrap();
    assert!(desired.children.iter().all(|child| child.kind() != ChildKind::NetworkPolicy));
}

#[test]
fn pods_connect_to_what_their_profile_allows() {
    let policy = |fields: &str, text: Option<&str>| {
        let permission_profile =
            text.map_or(ProfileText::NotNeeded, |text| ProfileText::Found(text.to_owned()));
        let references = References { permission_profile, ..references(ReferencedSecrets::default()) };
        let spec = STDIO.replace("args:", &format!("{fields}, args:"));
        let desired = plan(&server(&spec), &references, &settings()).unwrap();
        let child = desired.children.iter().find(|child| child.kind() == ChildKind::NetworkPolicy);
        child.map(|child| serde_json::to_value(child.object()).unwrap()["spec"].take())
    };
    let none = "permissionProfile: {type: builtin, name: none}";
    let closed = policy(none, None).unwrap();
    assert_eq!(closed["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(closed["egress"], json!([]), "not even to the DNS");
    let open = policy("permissionProfile: {type: builtin, name: network}", None).unwrap();
    assert_eq!(open["policyTypes"], json!(["Ingress"]));

    let configmap = "permissionProfile: {type: configmap, name: p, key: k}";
    let profile = r#"{"network": {"outbound": {"allow_host": ["10.0.0.0/8"], "allow_port": [443]}}}"#;
    let limited = policy(configmap, Some(profile)).unwrap();
    let port = |protocol: &str, port: u16| json!({ "port": port, "protocol": protocol });
    assert_eq!(limited["egress"][0], json!({ "ports": [port("UDP", 53), port("TCP", 53)] }));
    let block = json!({ "ipBlock": { "cidr": "10.0.0.0/8" } });
    assert_eq!(limited["egress"][1], json!({ "ports": [port("TCP", 443)], "to": [block] }));

    // An open way in opens no way out.
    let way_in = policy(&format!("networkPolicy: {{enabled: false}}, {none}"), None).unwrap();
    assert_eq!(way_in["policyTypes"], json!(["Egress"]));
    assert_eq!(policy("networkPolicy: {enabled: false}", None), None);

    let refused = refused(&STDIO.replace("args:", &format!("{configmap}, args:")));
    assert!(
        refused.starts_with("spec.permissionProfile: there is no ConfigMap p with the key `k`"),
        "{refused}"
    );
}

#[test]
fn a_server_open_to_every_pod_has_no_webhooks() {
    for (policy, place) in [
        ("{enabled: false}", "spec.networkPolicy.enabled"),
        ("{ingressFrom: [{namespaceSelector: {}}]}", "spec.networkPolicy.ingressFrom"),
        ("{ingressFrom: [{podSelector: {matchLabels: {app: a}}}]}", "spec.networkPolicy.ingressFrom"),
    ] {
        let open = format!("webhookConfigRef: {{name: a}}, networkPolicy: {policy}, args:");
        let refused = refused(&STDIO.replace("args:", &open));
        let expected = format!("{place}: `spec.webhookConfigRef` is followed");
        assert!(refused.starts_with(&expected), "{refused}");
    }
}
