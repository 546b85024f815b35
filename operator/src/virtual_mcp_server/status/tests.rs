//! Tests of statuses, by the reports of pods.

mod configuration;
mod definitions;
mod network;
mod reachability;
mod suspended;
mod switched_off;
mod trusted_tools;
mod volumes;

use std::sync::Arc;

use serde_json::{Value, json};
use vmcp_config::status::StatusReport;
use vmcp_crds::lower::PolicyCheck;

use super::*;
use crate::references::ReferencedSecrets;
use crate::virtual_mcp_server::exposure_order::{CurrentExposure, order, uptake};
use crate::virtual_mcp_server::testing::{plan, references, server, settings, with_server, yaml};
use crate::virtual_mcp_server::validate::validate;
use crate::workload::admin_poller::PollFailure;

/// A server with everything that its status is computed from.
struct World {
    server: VirtualMCPServer,
    references: References,
    applied: Applied,
    running: RunningWorkload,
    limits: NetworkLimits,
    pods: Vec<ObservedPod>,
    exposure: CurrentExposure,
    trust: Option<KeptTrust>,
}

impl World {
    fn new(spec: &str) -> Self {
        let references = with_server(with_server(references(), "a"), "b");
        Self {
            server: server(spec),
            references,
            applied: Applied::default(),
            running: RunningWorkload::default(),
            limits: NetworkLimits::default(),
            pods: Vec::new(),
            exposure: CurrentExposure::default(),
            trust: None,
        }
    }

    /// Adds a ready pod with this report; the digest is the right one unless the report has another.
    fn pod(mut self, report: Value) -> Self {
        let plan = validate(&self.server, &self.references, PolicyCheck::default(), &settings());
        let mut report: StatusReport = serde_json::from_value(report).expect("a report");
        if let (true, Ok(configuration)) = (report.configuration.digest.is_empty(), plan.configuration) {
            report.configuration.digest = vmcp_config::status::digest(&configuration.lowered.text);
        }
        let pod =
            yaml("metadata: {name: p, namespace: n}\nstatus: {conditions: [{type: Ready, status: 'True'}]}");
        self.pods.push(ObservedPod {
            pod: Arc::new(pod),
            ready: true,
            report: Some(Arc::new(report)),
            reported_at: None,
            trusted: None,
            trust_unread: None,
            failure: None,
        });
        self
    }

    fn computed(&self) -> ComputedStatus {
        let ready = i32::try_from(self.pods.len()).expect("a few");
        let counts = PodCounts { desired: ready, existing: ready, ready, ..PodCounts::default() };
        let plan = validate(&self.server, &self.references, PolicyCheck::default(), &settings());
        let wanted = plan.configuration.as_ref().ok().map(|configuration| &configuration.mounted);
        let mounted = self.references.mounted.as_ref().or(wanted);
        let order = plan.server.as_ref().ok().map(|valid| {
            let uptake = uptake(&plan, mounted, &self.pods, None);
            order(valid, &plan, mounted, uptake, &self.exposure)
        });
        ObservedVirtualMCPServer {
            server: &self.server,
            plan: &plan,
            references: &self.references,
            order: order.as_ref(),
            applied: &self.applied,
            counts: Some(&counts),
            running: &self.running,
            limits: &self.limits,
            pods: &self.pods,
            trust: self.trust.as_ref(),
            exposure: &self.exposure,
            settings: &settings(),
        }
        .status()
    }

    fn status(&self) -> VirtualMCPServerStatus {
        self.computed().status
    }

    /// Returns the world a moment later, with its status written.
    fn later(mut self) -> Self {
        self.server.status = Some(self.status());
        self
    }
}

fn condition<'a>(status: &'a VirtualMCPServerStatus, kind: &str) -> &'a Condition {
    status.conditions.iter().find(|condition| condition.type_ == kind).expect("the condition")
}

fn backend(name: &str, state: &str) -> Value {
    json!({"name": name, "state": state, "tools": 3, "revision": "2026-07-28"})
}

fn all_well() -> Value {
    json!({"tools": 6, "backends": [backend("a", "connected"), backend("b", "connected")]})
}

#[test]
fn a_server_that_is_well_says_so_and_comes_to_rest() {
    let world = World::new("{}").pod(all_well());
    let ComputedStatus { status, in_flux } = world.computed();
    assert!(!in_flux);
    assert_eq!((status.phase, status.message.as_deref()), (Some(Phase::Ready), None));
    assert_eq!((status.backend_count, status.tool_count, status.ready_replicas), (Some(2), Some(6), 1));
    assert_eq!(status.url.as_deref(), Some("http://vmcp-x.n.svc.cluster.local:4483/mcp"));
    assert_eq!(status.discovered_backends[0].mcp_revision.as_deref(), Some("2026-07-28"));
    for kind in ["Ready", "ConfigValid", "BackendsDiscovered", "EmbeddingsReady", "PodTemplateSpecValid"] {
        assert_eq!(condition(&status, kind).status, "True", "{kind}");
    }
    let world = world.later();
    assert_eq!(Some(world.status()), world.server.status, "nothing is rewritten at rest");
}

#[test]
fn the_worst_pod_is_what_counts() {
    let one_down = json!({"tools": 3, "backends": [
        backend("a", "connected"),
        {"name": "b", "state": "failed", "lastError": "connection refused at port 40123"},
    ]});
    let status = World::new("{replicas: 2}").pod(all_well()).pod(one_down.clone()).status();
    assert_eq!(status.discovered_backends[1].status, BackendState::Degraded, "one pod of two can call it");

    let world = World::new("{}").pod(one_down).later();
    let status = world.status();
    assert_eq!(status.phase, Some(Phase::Degraded));
    assert_eq!(status.discovered_backends[1].status, BackendState::Unavailable);
    assert_eq!(status.backend_count, Some(1));
    assert!(condition(&status, "Degraded").message.contains("connection refused"), "{status:?}");

    // The next attempt fails at another port, and is seen while it lasts.
    let again = json!({"tools": 3, "backends": [
        backend("a", "connected"),
        {"name": "b", "state": "connecting", "lastError": "connection refused at port 40999"},
    ]});
    assert_eq!(World { pods: Vec::new(), ..world }.pod(again).status(), status);
}

#[test]
fn composite_tools_whose_steps_call_missing_tools_are_named() {
    let spec = "{config: {compositeTools: [{name: t, steps: [{id: a, tool: a.x}]}]}}";
    let listed = |issues: Value| {
        let mut report = all_well();
        report["issues"] = issues;
        let status = World::new(spec).pod(report).status();
        let condition = condition(&status, "CompositeToolsListed");
        (condition.status.clone(), condition.reason.clone(), condition.message.clone())
    };
    let (is_true, reason, _) = listed(json!([]));
    assert_eq!((is_true.as_str(), reason.as_str()), ("True", "CompositeToolsListed"));
    let missing = |name: &str, tools: &str| {
        format!(
            "MissingStepTool: tool {name} of backend composite: a step calls {tools}, which no backend offers now; \
             it is hidden until one does"
        )
    };
    let (is_true, reason, message) = listed(json!([missing("t", "a.x, b.y"), missing("u", "c.z")]));
    assert_eq!((is_true.as_str(), reason.as_str()), ("False", "ToolNotFound"));
    assert_eq!(message, "t calls a.x, b.y, which no backend has | u calls c.z, which no backend has");
    let without = World::new("{}").pod(all_well()).status();
    assert!(without.conditions.iter().all(|condition| condition.type_ != "CompositeToolsListed"));
}

#[test]
fn what_is_wrong_with_an_mcp_server_is_told_instead_of_what_follows_from_it() {
    let refused = json!({"tools": 3, "backends": [
        backend("a", "connected"),
        {"name": "b", "state": "failed", "lastError": "connection refused"},
    ]});
    let mut world = World::new("{}").pod(refused);
    let is = |world: &mut World, status: &str| {
        world.references.servers[1] = Arc::new(yaml(&format!(
            "metadata: {{name: b, namespace: n}}\nspec: {{image: i}}\nstatus: {status}"
        )));
        let status = world.status();
        let message = status.discovered_backends[1].message.clone().expect("a message");
        assert!(condition(&status, "Degraded").message.contains(&message), "{status:?}");
        message
    };
    assert_eq!(
        is(&mut world, "{phase: Failed, message: 'cannot get image i'}"),
        "MCPServer b is Failed: cannot get image i; see `kubectl describe mcpserver b -n n`"
    );
    assert!(is(&mut world, "{phase: Stopped}").starts_with("MCPServer b is Stopped; see"));
    assert_eq!(
        is(&mut world, "{phase: Ready}"),
        "connection refused",
        "it runs, and that is all there is to say"
    );
    // Before any pod of ours could try.
    world.pods.clear();
    world.references.servers[1] =
        Arc::new(yaml("metadata: {name: b}\nspec: {image: i}\nstatus: {phase: Pending}"));
    let backend = world.status().discovered_backends.swap_remove(1);
    assert!(backend.message.is_some_and(|message| message.contains("is Pending")));
}

#[test]
fn refused_credentials_have_a_state_of_their_own() {
    let report =
        json!({"backends": [{"name": "a", "state": "failed", "lastError": "HTTP 401 Unauthorized"}]});
    let status = World::new("{}").pod(report).status();
    assert_eq!(status.discovered_backends[0].status, BackendState::Unauthenticated);
    assert_eq!(status.discovered_backends[1].status, BackendState::Unknown, "it did not tell about b yet");
}

#[test]
fn until_the_new_text_is_in_force_it_is_looked_again() {
    let behind = json!({"configuration": {"digest": "old"}, "backends": [backend("a", "connected"), backend("b", "connected")]});
    assert!(World::new("{}").pod(behind).computed().in_flux);
}

#[test]
fn a_pod_that_cannot_be_asked_is_named_with_the_remedy() {
    let mut world = World::new("{}").pod(all_well()).later();
    let failure =
        PollFailure { reason: "ConnectionTimedOut", message: "no answer; allow ingress".to_owned() };
    world.pods[0].failure = Some(failure);
    world.pods[0].report = None;
    let ComputedStatus { status, .. } = world.computed();
    let reachable = condition(&status, "PodsReachable");
    assert_eq!((reachable.status.as_str(), reachable.reason.as_str()), ("False", "ConnectionTimedOut"));
    assert!(reachable.message.contains("pod p ") && reachable.message.ends_with("allow ingress"));
    assert_eq!(condition(&status, "Ready").status, "True");
    assert_eq!(status.phase, Some(Phase::Degraded));
    let world = world.later();
    assert_eq!(Some(world.status()), world.server.status, "nothing is rewritten at rest");
}

#[test]
fn an_anonymous_endpoint_is_not_exposed_without_a_word() {
    let route = "httpRoute: {parentRefs: [{name: gw}]}, serviceType: LoadBalancer";
    let status = World::new(&format!("{{{route}}}")).pod(all_well()).status();
    let allowed = condition(&status, "ExposureAllowed");
    assert_eq!((allowed.status.as_str(), allowed.reason.as_str()), ("False", "AnonymousExposure"));
    assert!(allowed.message.starts_with("spec.serviceType and spec.httpRoute would"), "{}", allowed.message);
    assert_eq!((status.phase, condition(&status, "Ready").status.as_str()), (Some(Phase::Degraded), "True"));
    let status = World::new(&format!("{{{route}, allowAnonymousExposure: true}}")).pod(all_well()).status();
    assert_eq!(
        (status.phase, condition(&status, "ExposureAllowed").status.as_str()),
        (Some(Phase::Ready), "True")
    );
}

#[test]
fn a_rollout_that_fails_is_no_success() {
    let mut world = World::new("{}").pod(all_well());
    assert_eq!(condition(&world.status(), "Stalled").status, "False");
    let new: k8s_openapi::api::core::v1::Pod = yaml(
        "metadata: {name: q, namespace: n, creationTimestamp: '2026-01-01T00:00:00Z', labels: {pod-template-hash: new}}
status:
  containerStatuses:
  - {name: vmcp, image: 'vmcp:typo', imageID: '', ready: false, restartCount: 0,
     state: {waiting: {reason: ImagePullBackOff, message: 'Back-off pulling image'}}}",
    );
    world.pods.push(ObservedPod {
        pod: Arc::new(new),
        ready: false,
        report: None,
        reported_at: None,
        trusted: None,
        trust_unread: None,
        failure: None,
    });
    let status = world.status();
    assert_eq!(condition(&status, "Ready").status, "True", "the old pod serves");
    assert_eq!(condition(&status, "Stalled").reason, "ImagePullFailed");
    assert_eq!(condition(&status, "Reconciling").status, "False");
    assert_eq!(
        (status.phase, condition(&status, "Degraded").reason.as_str()),
        (Some(Phase::Degraded), "SomePodsFail")
    );
    assert!(status.message.is_some_and(|message| message.contains("vmcp:typo")));
}

#[test]
fn a_change_under_way_is_reconciling() {
    let behind = json!({"configuration": {"digest": "old"}, "backends": [backend("a", "connected"), backend("b", "connected")]});
    let status = World::new("{}").pod(behind).status();
    assert_eq!(condition(&status, "Reconciling").status, "True");
    let refused = World::new("{optimizer: {enabled: true, search: {maxTools: 1000}}}").status();
    assert_eq!(condition(&refused, "Stalled").reason, "InvalidConfiguration");
}

#[test]
fn a_server_that_asks_for_no_credentials_says_so_in_the_reason_of_ready() {
    let anonymous = World::new("{}").pod(all_well()).status();
    let ready = condition(&anonymous, "Ready");
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("True", "Unauthenticated"));
    assert!(ready.message.starts_with("1 of 1 pods are ready; clients need no"), "{}", ready.message);
    assert_eq!((anonymous.phase, anonymous.message), (Some(Phase::Ready), None));

    let keys = "{incomingAuth: {type: apiKeys, apiKeys: [{subject: ci, secretKeyRef: {name: s, key: k}}]}}";
    let mut world = World::new(keys);
    let key = "a-key-of-more-than-thirty-two-characters";
    world.references.secrets = ReferencedSecrets::from_values(&[("s", "k", key)]);
    let status = world.pod(all_well()).status();
    assert_eq!(condition(&status, "Ready").reason, "PodsReady", "{:?}", status.conditions);
}

#[test]
fn a_guard_that_nothing_follows_is_never_ready() {
    let before = World::new("{}").pod(all_well()).later();
    let mut after = World::new("{config: {incomingAuth: {type: oidc}}}");
    (after.pods, after.server.status) = (before.pods, before.server.status);
    let status = after.status();
    let ready = condition(&status, "Ready");
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "InvalidSpec"));
    assert!(ready.message.starts_with("spec.config.incomingAuth: nothing follows"), "{}", ready.message);
    assert_eq!(status.phase, Some(Phase::Degraded), "pods of an earlier version serve on");
}

#[test]
fn backends_beyond_the_budget_of_the_status_are_counted() {
    let mut world = World::new("{}");
    for number in 0..2000 {
        world.references = with_server(world.references, &format!("server-with-a-long-name-{number:04}"));
    }
    let status = world.status();
    let kept = status.discovered_backends.len();
    assert!(kept > 500, "{kept}");
    assert_eq!(status.omitted_backends, Some(i32::try_from(2002 - kept).unwrap()));
    assert_eq!(World::new("{}").status().omitted_backends, None);

    let mut refused = world.later();
    refused.server.spec = server("{optimizer: {enabled: true, search: {maxTools: 1000}}}").spec;
    refused.server.status.as_mut().expect("a status").backend_count = Some(1990);
    let after = refused.status();
    assert_eq!((after.backend_count, after.omitted_backends), (Some(1990), status.omitted_backends));
    assert_eq!(after.discovered_backends.len(), kept);
}
