//! Tests of the order, by the stored objects, the mounted configuration and the reports of pods.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use vmcp_config::status::StatusReport;

use super::*;
use crate::references::ReferencedSecrets;
use crate::virtual_mcp_server::dereference::References;
use crate::virtual_mcp_server::objects::StoredMetadata;
use crate::virtual_mcp_server::observe::ObservedPod;
use crate::virtual_mcp_server::testing::{plan, references, yaml};

/// Credentials that clients must present, from the Secret `s`.
const KEYS: &str = "incomingAuth: {type: apiKeys, apiKeys: [{subject: a, secretKeyRef: {name: s, key: k}}]}";

/// Returns references with the Secret of [`KEYS`].
fn with_key() -> References {
    References {
        secrets: ReferencedSecrets::from_values(&[("s", "k", "0123456789abcdefghij")]),
        ..references()
    }
}

/// Returns the configuration that a spec is lowered to.
fn configuration(spec: &str) -> MountedConfiguration {
    plan(spec, &with_key()).configuration.expect("valid").mounted
}

/// Returns a scheduled pod, with a report of this text in force.
fn pod(text: Option<&str>) -> ObservedPod {
    let report = text.map(|text| {
        let report = json!({ "configuration": { "digest": vmcp_config::status::digest(text) } });
        Arc::new(serde_json::from_value::<StatusReport>(report).expect("a report"))
    });
    let reported_at = report.is_some().then(Instant::now);
    let pod = Arc::new(yaml(
        "metadata: {name: p, namespace: n}\nstatus: {conditions: [{type: PodScheduled, status: 'True'}]}",
    ));
    ObservedPod { pod, ready: true, report, reported_at, failure: None, trusted: None, trust_unread: None }
}

/// Returns the order for a spec, what is mounted, what a pod has in force, and the stored objects.
fn ordered(
    spec: &str,
    references: &References,
    mounted: Option<&MountedConfiguration>,
    in_force: Option<&str>,
    current: &CurrentExposure,
) -> ExposureOrder {
    let plan = plan(spec, references);
    let uptake = uptake(&plan, mounted, &[pod(in_force)], None);
    order(plan.server.as_ref().expect("valid"), &plan, mounted, uptake, current)
}

fn balanced() -> CurrentExposure {
    CurrentExposure {
        service_type: ServiceType::LoadBalancer,
        is_balanced: true,
        ..CurrentExposure::default()
    }
}

fn with_route(spec: &str) -> CurrentExposure {
    let server = plan(spec, &with_key()).server.expect("valid");
    let route = objects::route(&server).expect("a route").object().data["spec"].clone();
    CurrentExposure { route: Some(route), ..CurrentExposure::default() }
}

#[test]
fn a_new_server_is_exposed_when_its_pods_have_the_configuration_in_force() {
    let spec = format!("{{serviceType: LoadBalancer, httpRoute: {{parentRefs: [{{name: gw}}]}}, {KEYS}}}");
    let mounted = configuration(&spec);
    let state = |mounted: Option<&MountedConfiguration>, in_force: Option<&str>| {
        let order = ordered(&spec, &with_key(), mounted, in_force, &CurrentExposure::default());
        (order.server.service_type, order.server.http_route.is_some(), order.is_under_way())
    };
    let inside = (ServiceType::ClusterIP, false, true);
    assert_eq!(state(None, None), inside, "nothing is mounted");
    assert_eq!(state(Some(&mounted), None), inside, "the pod has not reported");
    assert_eq!(state(Some(&mounted), Some("older")), inside, "the pod has an older one");
    assert_eq!(state(Some(&mounted), Some(&mounted.text)), (ServiceType::LoadBalancer, true, false));
}

#[test]
fn a_broken_reference_exposes_no_anonymous_server() {
    let anonymous = configuration("{}");
    let spec = format!("{{serviceType: LoadBalancer, httpRoute: {{parentRefs: [{{name: gw}}]}}, {KEYS}}}");
    // Also where it was exposed before, by `allowAnonymousExposure` that the same edit removed.
    for current in [CurrentExposure::default(), balanced()] {
        let order = ordered(&spec, &references(), Some(&anonymous), Some(&anonymous.text), &current);
        assert_eq!(order.server.service_type, ServiceType::ClusterIP);
        assert!(order.server.http_route.is_none() && order.keep.is_empty());
        assert_eq!(order.server.withheld, [SERVICE_TYPE, HTTP_ROUTE]);
    }
}

#[test]
fn a_reference_that_breaks_later_leaves_the_exposure_and_widens_nothing() {
    let spec = format!("{{serviceType: LoadBalancer, {KEYS}}}");
    let mounted = configuration(&spec);
    let order = ordered(&spec, &references(), Some(&mounted), Some(&mounted.text), &balanced());
    assert_eq!(order.server.service_type, ServiceType::LoadBalancer);
    assert!(order.server.withheld.is_empty() && !order.waits());

    let wider = format!(
        "{{serviceType: LoadBalancer, httpRoute: {{parentRefs: [{{name: gw}}]}}, networkPolicy: {{enabled: false}}, {KEYS}}}"
    );
    let peers: Vec<_> = vec![yaml("podSelector: {matchLabels: {a: b}}")];
    let current = CurrentExposure { ingress_from: Some(peers.clone()), ..balanced() };
    let order = ordered(&wider, &references(), Some(&mounted), Some(&mounted.text), &current);
    assert_eq!(order.held, [NETWORK_POLICY, HTTP_ROUTE]);
    assert_eq!(order.server.ingress_from, Some(peers));
    assert!(order.server.http_route.is_none() && !order.is_under_way(), "until a person acts");
}

#[test]
fn a_restarted_operator_changes_nothing_before_the_first_report() {
    let spec = format!("{{serviceType: LoadBalancer, {KEYS}}}");
    let order = ordered(&spec, &with_key(), Some(&configuration(&spec)), None, &balanced());
    assert_eq!(order.server.service_type, ServiceType::LoadBalancer);
    assert!(!order.waits());
}

#[test]
fn an_identity_opens_after_the_exposure_has_closed() {
    let before = configuration(&format!("{{serviceType: LoadBalancer, {KEYS}}}"));
    let state = |current: &CurrentExposure| {
        let order = ordered("{}", &with_key(), Some(&before), Some(&before.text), current);
        (order.server.service_type, order.holds_configuration)
    };
    assert_eq!(state(&balanced()), (ServiceType::ClusterIP, true));
    let leaving = CurrentExposure { is_balanced: true, ..CurrentExposure::default() };
    assert_eq!(state(&leaving), (ServiceType::ClusterIP, true), "the load balancer has its address still");
    assert_eq!(state(&CurrentExposure::default()), (ServiceType::ClusterIP, false));
    assert!(state(&with_route(&format!("{{httpRoute: {{parentRefs: [{{name: gw}}]}}, {KEYS}}}"))).1);
}

#[test]
fn a_changed_route_waits_and_goes_first_where_a_guard_is_dropped() {
    let route = |name: &str| format!("httpRoute: {{parentRefs: [{{name: {name}}}]}}");
    let current = with_route(&format!("{{{}, {KEYS}}}", route("gw")));
    let before = configuration(&format!("{{{}, {KEYS}}}", route("gw")));
    let kept = format!("{{{}, config: {{server: {{drainTimeout: 20s}}}}, {KEYS}}}", route("other"));
    let order = ordered(&kept, &with_key(), Some(&before), Some(&before.text), &current);
    assert_eq!(order.keep, [(ChildKind::HTTPRoute, "x-vmcp".to_owned())]);
    assert!(!order.holds_configuration, "the same clients are let in");

    let dropped = format!("{{allowAnonymousExposure: true, {}}}", route("other"));
    let order = ordered(&dropped, &with_key(), Some(&before), Some(&before.text), &current);
    assert!(order.keep.is_empty() && order.server.http_route.is_none() && order.holds_configuration);
    let gone = CurrentExposure::default();
    let order = ordered(&dropped, &with_key(), Some(&before), Some(&before.text), &gone);
    assert!(order.server.http_route.is_none() && !order.holds_configuration, "then the configuration");
    let after = configuration(&dropped);
    let order = ordered(&dropped, &with_key(), Some(&after), Some(&after.text), &gone);
    assert!(order.server.http_route.is_some() && !order.waits(), "then the other route");
}

/// An annotation may keep a load balancer inside of the cloud.
#[test]
fn annotations_of_the_service_wait_and_go_first_where_a_guard_is_dropped() {
    let internal = "resourceOverrides: {service: {annotations: {scheme: internal}}}";
    let anonymous = format!("{{allowAnonymousExposure: true, serviceType: LoadBalancer, {internal}}}");
    let public = format!("{{serviceType: LoadBalancer, {KEYS}}}");
    let stored = |spec: &str| {
        let server = plan(spec, &with_key()).server.expect("valid");
        let metadata = StoredMetadata::from_stored(objects::client_service(&server).metadata);
        CurrentExposure { metadata: Some(metadata), ..balanced() }
    };
    let annotations = |order: &ExposureOrder| order.server.overrides.service.annotations.len();
    let (before, after) = (configuration(&anonymous), configuration(&public));
    for mounted in [&before, &after] {
        let order = ordered(&public, &with_key(), Some(mounted), Some(&before.text), &stored(&anonymous));
        assert_eq!(order.held, [SERVICE_METADATA], "the pods may refuse the keys");
        assert_eq!((annotations(&order), order.holds_configuration), (1, false));
    }
    let order = ordered(&public, &with_key(), Some(&after), Some(&after.text), &stored(&anonymous));
    assert_eq!((annotations(&order), order.waits()), (0, false));

    let back = |current: CurrentExposure| {
        ordered(&anonymous, &with_key(), Some(&after), Some(&after.text), &current)
    };
    let order = back(stored(&public));
    assert_eq!((annotations(&order), order.holds_configuration), (1, true), "first inside");
    assert!(!back(stored(&anonymous)).holds_configuration);
}

/// A label may be the one by which a policy of the gateway selects the route.
#[test]
fn labels_of_a_route_wait_with_the_route() {
    let spec = |more: &str| format!("{{httpRoute: {{parentRefs: [{{name: gw}}]{more}}}, {KEYS}}}");
    let (labeled, plain) = (spec(", labels: {guard: waf}"), spec(""));
    let route = |spec: &str| {
        let server = plan(spec, &with_key()).server.expect("valid");
        objects::route(&server).expect("a route").object().metadata.clone()
    };
    let current = CurrentExposure {
        route_metadata: Some(StoredMetadata::from_stored(route(&labeled))),
        ..with_route(&labeled)
    };
    let mounted = configuration(&plain);
    let state = |spec: &str, in_force: &str| {
        let order = ordered(spec, &with_key(), Some(&mounted), Some(in_force), &current);
        (order.server.http_route.is_some(), order.held, order.keep.len())
    };
    assert_eq!(state(&labeled, "older"), (true, vec![], 0), "it is stored");
    assert_eq!(state(&plain, "older"), (false, vec![HTTP_ROUTE], 1), "the old one stays");
    assert_eq!(state(&plain, &mounted.text), (true, vec![], 0));
}

/// Also while the configuration is refused, which may last.
#[test]
fn a_part_of_the_admitted_sources_waits_for_nothing() {
    let spec = |range: &str| {
        format!(
            "{{serviceType: LoadBalancer, service: {{loadBalancerSourceRanges: [{range}]}}, networkPolicy: {{ingressFrom: \
             [{{ipBlock: {{cidr: {range}}}}}]}}, {KEYS}}}"
        )
    };
    let mounted = configuration(&spec("10.0.0.0/8"));
    let current = CurrentExposure {
        source_ranges: vec!["10.0.0.0/8".to_owned()],
        ingress_from: Some(vec![yaml("ipBlock: {cidr: 10.0.0.0/8}")]),
        ..balanced()
    };
    let state = |range: &str| {
        let order = ordered(&spec(range), &references(), Some(&mounted), Some(&mounted.text), &current);
        (order.server.service.load_balancer_source_ranges, order.held)
    };
    assert_eq!(state("10.1.0.0/16"), (vec!["10.1.0.0/16".to_owned()], vec![]));
    let held = vec![SOURCE_RANGES, NETWORK_POLICY];
    assert_eq!(state("0.0.0.0/0"), (vec!["10.0.0.0/8".to_owned()], held));

    let route =
        |hosts: &str| format!("{{httpRoute: {{parentRefs: [{{name: gw}}], hostnames: [{hosts}]}}, {KEYS}}}");
    let (mounted, current) =
        (configuration(&route("a.example, b.example")), with_route(&route("a.example, b.example")));
    let state = |hosts: &str| {
        let order = ordered(&route(hosts), &references(), Some(&mounted), Some(&mounted.text), &current);
        (order.server.http_route.is_some(), order.held, order.keep.len())
    };
    assert_eq!(state("b.example"), (true, vec![], 0));
    assert_eq!(state("b.example, c.example"), (false, vec![HTTP_ROUTE], 1));
}

#[test]
fn a_report_counts_if_it_is_newer_than_the_write_and_the_process_needs_no_restart() {
    let mounted = configuration("{}");
    let plan = plan("{}", &with_key());
    let state = |pods: &[ObservedPod], written| uptake(&plan, Some(&mounted), pods, written);
    let reported = pod(Some(&mounted.text));
    assert_eq!(state(std::slice::from_ref(&reported), reported.reported_at), Uptake::InForce);
    let later = Instant::now().checked_add(std::time::Duration::from_secs(1));
    assert!(
        matches!(state(std::slice::from_ref(&reported), later), Uptake::Pending(_)),
        "from before the write"
    );
    let changed = |change: fn(&mut StatusReport)| {
        let mut report = reported.report.as_deref().expect("a report").clone();
        change(&mut report);
        ObservedPod { report: Some(Arc::new(report)), ..reported.clone() }
    };
    let old = changed(|report| report.configuration.needs_restart.push("server.listen".to_owned()));
    assert!(matches!(state(&[old], None), Uptake::Pending(_)));
    let refusing = changed(|report| {
        let digest = std::mem::take(&mut report.configuration.digest);
        let message = "unknown key".to_owned();
        report.configuration.refused =
            Some(vmcp_config::status::RefusedConfiguration { digest, message, ..Default::default() });
    });
    assert_eq!(state(&[refusing], None), Uptake::Refused("pod p refuses it: unknown key".to_owned()));
    for (status, has_read) in [
        ("{phase: Pending}", false),
        ("{phase: Pending, conditions: [{type: PodScheduled, status: 'False'}]}", false),
        ("{phase: Failed, conditions: [{type: PodScheduled, status: 'True'}]}", false),
        ("{phase: Pending, conditions: [{type: PodScheduled, status: 'True'}]}", true),
        ("{phase: Running}", true),
    ] {
        let starting = Arc::new(yaml(&format!("metadata: {{name: q, namespace: n}}\nstatus: {status}")));
        let silent = ObservedPod { pod: starting, ready: false, ..pod(None) };
        assert_eq!(matches!(state(&[silent], None), Uptake::Pending(_)), has_read, "{status}");
    }
}
