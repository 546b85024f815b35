//! The status.

use vmcp_crds::MCPServerStatus;
use vmcp_crds::mcp_server::MCPServerPhase;

use super::*;
use crate::mcp_server::build::CONTAINER;
use crate::mcp_server::permission_profile::ProfileText;
use crate::mcp_server::status::{self, ObservedMCPServer};
use crate::workload::health::{PodCounts, resource_health};

fn status(server: &MCPServer, refusal: Option<&SpecRefusal>, counts: Option<PodCounts>) -> MCPServerStatus {
    let health = resource_health(refusal, counts.as_ref(), &[], CONTAINER);
    let counts = counts.unwrap_or_default();
    let permission_profile = &ProfileText::NotNeeded;
    let observed = ObservedMCPServer {
        awaited_secrets: None,
        group_exists: None,
        permission_profile,
        refusal,
        counts,
        health,
    };
    status::compute(server, &observed, "cluster.local")
}

#[test]
fn the_status_follows_the_pods() {
    let server = server(STDIO);
    let counts =
        |desired, ready| Some(PodCounts { desired, existing: desired, ready, ..PodCounts::default() });
    assert_eq!(status(&server, None, None).phase, Some(MCPServerPhase::Pending));
    assert_eq!(status(&server, None, counts(0, 0)).phase, Some(MCPServerPhase::Stopped));
    let ready = status(&server, None, counts(1, 1));
    assert_eq!((ready.phase, ready.message, ready.ready_replicas), (Some(MCPServerPhase::Ready), None, 1));
    let selector = "app.kubernetes.io/instance=time,app.kubernetes.io/managed-by=vmcp-operator,\
                    app.kubernetes.io/name=mcp-server";
    assert_eq!(ready.selector.as_deref(), Some(selector));

    // A refused edit leaves running pods alone, and the status says so.
    let refusal = SpecRefusal::SecretNotFound("there is no Secret s".to_owned());
    let refused = status(&server, Some(&refusal), counts(1, 1));
    assert_eq!(refused.phase, Some(MCPServerPhase::Degraded));
    assert_eq!(
        refused.message.as_deref(),
        Some("there is no Secret s; the previous version still serves (ready pods: 1)")
    );
    let ready = refused.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("True", "SecretNotFound"));
}

#[test]
fn a_guard_that_cannot_be_followed_refuses_the_server_and_is_never_ready() {
    for guard in ["oidcConfigRef: {name: a, audience: b}", "authzConfig: {type: inline}"] {
        let spec = STDIO.replace("args:", &format!("{guard}, args:"));
        let mut server = server(&spec);
        server.metadata.annotations =
            Some([("toolhive.stacklok.com/unfollowed-fields".to_owned(), "ignore".to_owned())].into());
        let refusal = plan(&server, &references(ReferencedSecrets::default()), &settings()).unwrap_err();
        let path = format!("spec.{}", guard.split_once(':').unwrap().0);
        assert!(refusal.to_string().starts_with(&path), "{refusal}");
        // Pods of an earlier version serve on.
        let counts = PodCounts { desired: 1, existing: 1, ready: 1, ..PodCounts::default() };
        let status = status(&server, Some(&refusal), Some(counts));
        assert_eq!(status.phase, Some(MCPServerPhase::Degraded));
        let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "ConfigInvalid"));
    }
}

#[test]
fn a_server_that_every_pod_may_call_says_so() {
    let with = |policy: &str| STDIO.replace("args:", &format!("networkPolicy: {policy}, args:"));
    let from = |peer: &str| {
        with(&format!("{{ingressFrom: [{{podSelector: {{matchLabels: {{app: a}}}}}}, {peer}]}}"))
    };
    let every =
        |namespaces: &str| from(&format!("{{namespaceSelector: {{matchExpressions: [{namespaces}]}}}}"));
    for (spec, reason) in [
        (STDIO.to_owned(), "PodsReady"),
        (with("{enabled: false}"), "Unauthenticated"),
        (from("{podSelector: {}}"), "PodsReady"),
        (from("{namespaceSelector: {matchLabels: {team: a}}}"), "PodsReady"),
        (from("{namespaceSelector: {}, podSelector: {matchLabels: {app: b}}}"), "PodsReady"),
        (from("{ipBlock: {cidr: 10.0.0.0/8}}"), "PodsReady"),
        (from("{namespaceSelector: {}}"), "Unauthenticated"),
        (from("{namespaceSelector: {matchLabels: {}}, podSelector: {}}"), "Unauthenticated"),
        (from("{ipBlock: {cidr: 0.0.0.0/0}}"), "Unauthenticated"),
        (from("{ipBlock: {cidr: '::/0'}}"), "Unauthenticated"),
        (from("{ipBlock: {cidr: 0.0.0.0/1}}, {ipBlock: {cidr: 128.0.0.0/1}}"), "Unauthenticated"),
        (from("{ipBlock: {cidr: 'fd00::/8'}}"), "PodsReady"),
        (every("{key: kubernetes.io/metadata.name, operator: Exists}"), "Unauthenticated"),
        (every("{key: team, operator: Exists}"), "PodsReady"),
        (every("{key: team, operator: NotIn, values: [a]}"), "Unauthenticated"),
        (every("{key: team, operator: In, values: [a]}"), "PodsReady"),
    ] {
        let counts = PodCounts { desired: 1, existing: 1, ready: 1, ..PodCounts::default() };
        let status = status(&server(&spec), None, Some(counts));
        let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("True", reason));
        assert_eq!(status.phase, Some(MCPServerPhase::Ready));
    }
}
