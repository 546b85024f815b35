//! Tests of callers: of other namespaces, and callers that an edit adds together with guards.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::Pod;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vmcp_crds::MCPServer;
use vmcp_crds::lower::PolicyCheck;

use super::removed_callers::narrowed;
use super::{
    MCPServerNetworkPolicy, NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicySpec,
    RunningIngress, callers as callers_of,
};
use crate::mcp_server::controller::plan;
use crate::mcp_server::dereference::References;
use crate::runtime::{BuildSettings, ChildKind, Desired};

/// Returns the callers that the NetworkPolicy admits to the MCP port, with these namespaces granted.
fn callers(spec: &str, granted: &[&str]) -> Vec<Value> {
    let text = format!("{{metadata: {{name: time, namespace: tools}}, spec: {spec}}}");
    let server: MCPServer = serde_saphyr::from_str(&text).unwrap();
    let references = References {
        bridge_token: b"token".to_vec(),
        granted_namespaces: granted.iter().map(|name| (*name).to_owned()).collect(),
        ..References::default()
    };
    let settings = BuildSettings { bridge_image: "vmcp:1".to_owned(), ..BuildSettings::default() };
    let desired = plan(&server, &references, PolicyCheck::default(), &settings).unwrap();
    let policy = desired.children.iter().find(|child| child.kind() == ChildKind::NetworkPolicy).unwrap();
    let policy = serde_json::to_value(policy.object()).unwrap();
    policy["spec"]["ingress"][0]["from"].as_array().unwrap().clone()
}

#[test]
fn granted_namespaces_are_admitted_by_their_virtual_servers_alone() {
    const SPEC: &str = "{image: 'a:1', transport: streamable-http}";
    let before = callers(SPEC, &[]);
    assert_eq!(before.len(), 1, "{before:?}");
    let with = callers(SPEC, &["a", "b"]);
    assert_eq!(with[0], before[0]);
    let expected = json!({
        "namespaceSelector": { "matchExpressions": [
            { "key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"] },
        ] },
        "podSelector": { "matchLabels": { "app.kubernetes.io/name": "vmcp" } },
    });
    assert_eq!(with[1..], [expected]);
}

#[test]
fn a_server_with_webhooks_admits_no_callers_that_ask_none() {
    let spec = "{image: 'a:1', transport: streamable-http, webhookConfigRef: {name: w}}";
    assert_eq!(callers(spec, &["a"]), callers(spec, &[]));
}

/// A guarded server that admits a further caller.
const OPENED: &str = "{image: 'a:1', command: [run], audit: {enabled: true}, \
                      networkPolicy: {ingressFrom: [{ipBlock: {cidr: 10.0.0.0/8}}]}}";

/// Returns the objects of a server, with these pods and this NetworkPolicy running.
fn made(spec: &str, running_ingress: RunningIngress) -> Desired {
    let text = format!("{{metadata: {{name: time, namespace: tools}}, spec: {spec}}}");
    let server: MCPServer = serde_saphyr::from_str(&text).unwrap();
    let references = References {
        bridge_token: b"token".to_vec(),
        session_key: b"key".to_vec(),
        running_ingress,
        ..References::default()
    };
    let settings = BuildSettings { bridge_image: "vmcp:1".to_owned(), ..BuildSettings::default() };
    plan(&server, &references, PolicyCheck::default(), &settings).unwrap()
}

fn object<K: DeserializeOwned>(desired: &Desired, kind: ChildKind) -> Option<K> {
    let child = desired.children.iter().find(|child| child.kind() == kind)?;
    let object = serde_json::to_value(child.object()).unwrap();
    Some(serde_json::from_value(object).unwrap())
}

fn deployment(desired: &Desired) -> Deployment {
    object(desired, ChildKind::Deployment).unwrap()
}

/// Returns a pod of a Deployment.
fn pod(desired: &Desired) -> Arc<Pod> {
    let template = deployment(desired).spec.unwrap().template;
    Arc::new(Pod { metadata: template.metadata.unwrap(), ..Pod::default() })
}

/// Returns the state after these objects were stored. The pods are those of `pods`; `seen` by the controller
/// of Deployments.
fn running(stored: &Desired, seen: bool, pods: &[&Desired]) -> RunningIngress {
    let mut made = deployment(stored);
    made.metadata.generation = Some(2);
    let observed_generation = Some(if seen { 2 } else { 1 });
    made.status = Some(DeploymentStatus { observed_generation, ..DeploymentStatus::default() });
    let pods: Vec<_> = pods.iter().map(|desired| pod(desired)).collect();
    RunningIngress::from_objects(&made, &pods, object(stored, ChildKind::NetworkPolicy))
}

/// Returns the number of callers; `None` if all are admitted.
fn admitted(desired: &Desired) -> Option<usize> {
    let policy: NetworkPolicy = object(desired, ChildKind::NetworkPolicy)?;
    let first = policy.spec?.ingress?.into_iter().next()?;
    first.from.map(|callers| callers.len())
}

#[test]
fn callers_that_an_edit_adds_wait_for_the_guards_of_the_same_edit() {
    let open = made("{image: 'a:1', command: [run]}", RunningIngress::default());
    let first = made(OPENED, RunningIngress::default());
    assert_eq!(admitted(&first), Some(2), "no pod is older than its guards");
    let held = made(OPENED, running(&open, true, &[&open]));
    assert_eq!(admitted(&held), Some(1));
    for (seen, pods, expected) in [
        (true, vec![&open, &held], 1),
        (false, vec![&held], 1),
        (true, vec![&held], 2),
        // As after a restart of the operator: the state is that of the stored objects.
        (true, vec![&open], 1),
    ] {
        let now = made(OPENED, running(&held, seen, &pods));
        assert_eq!(admitted(&now), Some(expected), "{seen} {}", pods.len());
    }

    let opened = OPENED.replace("ingressFrom: [{ipBlock: {cidr: 10.0.0.0/8}}]", "enabled: false");
    assert_eq!(admitted(&made(&opened, running(&open, true, &[&open]))), Some(1), "also for all callers");
    assert_eq!(admitted(&made(&opened, running(&held, true, &[&held]))), None);
    let anonymous = OPENED.replace("audit: {enabled: true}, ", "");
    assert_eq!(admitted(&made(&anonymous, running(&open, true, &[&open]))), Some(2), "it has no guards");
    let wide = made(OPENED, running(&held, true, &[&held]));
    let narrow = OPENED.replace("audit: {enabled: true}", "audit: {enabled: true, includeRequestData: true}");
    let narrow = narrow.replace(", networkPolicy: {ingressFrom: [{ipBlock: {cidr: 10.0.0.0/8}}]}", "");
    assert_eq!(
        admitted(&made(&narrow, running(&wide, true, &[&wide]))),
        Some(1),
        "what closes waits for nothing"
    );
}

/// The references of a refused resource are not looked at.
#[test]
fn callers_that_an_edit_removes_wait_for_no_reference() {
    let peer = |text: &str| serde_saphyr::from_str::<NetworkPolicyPeer>(text).unwrap();
    let stored =
        || object::<NetworkPolicy>(&made(OPENED, RunningIngress::default()), ChildKind::NetworkPolicy);
    let admitted = callers_of_spec(stored().unwrap().spec.unwrap());
    let [own, range] = admitted.as_slice() else { panic!("two callers: {admitted:?}") };
    let part = peer("ipBlock: {cidr: 10.1.0.0/16}");
    for (wanted, expected) in [
        (vec![own.clone()], Some(vec![own.clone()])),
        (vec![own.clone(), part.clone()], Some(vec![own.clone(), part])),
        (vec![own.clone(), range.clone()], None),
        (vec![own.clone(), peer("namespaceSelector: {}")], Some(vec![own.clone()])),
        (vec![own.clone(), range.clone(), peer("namespaceSelector: {}")], None),
        // As after a move to another group.
        (vec![peer("podSelector: {matchLabels: {app: b}}")], Some(vec![own.clone()])),
    ] {
        let spec = narrowed(stored().unwrap(), wanted.clone());
        assert_eq!(spec.map(callers_of_spec), expected, "{wanted:?}");
    }
}

/// Namespaces are granted to a refused server, and taken back: the others stay callers all the while.
#[test]
fn callers_of_granted_namespaces_stay_while_another_namespace_comes_or_goes() {
    let granted = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        callers_of(None, &names, &MCPServerNetworkPolicy::default())
    };
    let stored = |names: &[&str]| {
        let rule = NetworkPolicyIngressRule { from: Some(granted(names)), ports: None };
        let spec = NetworkPolicySpec {
            ingress: Some(vec![rule]),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ..NetworkPolicySpec::default()
        };
        NetworkPolicy { spec: Some(spec), ..NetworkPolicy::default() }
    };
    let admitted =
        |before: &[&str], wanted: &[&str]| narrowed(stored(before), granted(wanted)).map(callers_of_spec);
    assert_eq!(admitted(&["a", "b"], &["a"]), Some(granted(&["a"])));
    assert_eq!(admitted(&["a"], &["a", "b"]), None, "the new one waits, and the known one stays");
    assert_eq!(admitted(&["a"], &[]), Some(granted(&[])));
}

fn callers_of_spec(spec: NetworkPolicySpec) -> Vec<NetworkPolicyPeer> {
    let first = spec.ingress.into_iter().flatten().next();
    first.and_then(|rule| rule.from).unwrap_or_default()
}
