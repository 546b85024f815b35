//! Objects that exist only if the resource asks for them: autoscaler, disruption budget, network policy,
//! monitor, route.

use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, MetricIdentifier,
    MetricSpec, MetricTarget, PodsMetricSource, ResourceMetricSource,
};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicySpec,
};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};
use vmcp_crds::lower::{ADMIN_PORT, CLIENT_PORT, EVENTS_PORT, METRICS_TOKEN};
use vmcp_crds::virtual_mcp_server::{
    Autoscaling, Disruption, HttpRoute, HttpRouteFilter, Scale, ServiceMonitor, Validated,
};

use super::meta;
use super::stored_metadata::record_added_keys;
use crate::runtime::{BuildSettings, Child, ChildKind};
use crate::virtual_mcp_server::names;
use crate::virtual_mcp_server::objects::workload_form::WorkloadForm;
use crate::workload::network::{TUNNEL_PORT, operator_pods, port};

/// The metric of the requests that a pod is answering.
const REQUESTS_IN_FLIGHT: &str = "vmcp_client_requests_in_flight";

/// Returns the NetworkPolicy that the resource asks for.
pub(in crate::virtual_mcp_server) fn network_policy(
    server: &Validated,
    settings: &BuildSettings,
) -> Option<Child> {
    server.ingress_from.as_ref().map(|peers| Child::from_object(&policy(server, peers, settings)))
}

/// Returns the optional objects that the resource asks for, besides the NetworkPolicy.
pub(in crate::virtual_mcp_server) fn optional(server: &Validated) -> impl Iterator<Item = Child> {
    let autoscaler = match &server.scale {
        Scale::Automatic(autoscaling) => Some(Child::from_object(&autoscaler(server, autoscaling))),
        Scale::Fixed(_) | Scale::Free => None,
    };
    [
        autoscaler,
        server.disruption.as_ref().map(|disruption| Child::from_object(&budget(server, disruption))),
        server.service_monitor.as_ref().map(|monitor| service_monitor(server, monitor)),
        route(server),
    ]
    .into_iter()
    .flatten()
}

/// Returns the HTTPRoute that the resource asks for.
pub(in crate::virtual_mcp_server) fn route(server: &Validated) -> Option<Child> {
    server.http_route.as_ref().map(|route| http_route(server, route))
}

fn pods(server: &Validated) -> LabelSelector {
    LabelSelector { match_labels: Some(names::selector(&server.name)), ..LabelSelector::default() }
}

/// Returns the metric of one resource (`cpu` or `memory`), in percent of the pods' requests.
fn utilization(resource: &str, percent: i32) -> MetricSpec {
    MetricSpec {
        type_: "Resource".to_owned(),
        resource: Some(ResourceMetricSource {
            name: resource.to_owned(),
            target: MetricTarget {
                type_: "Utilization".to_owned(),
                average_utilization: Some(percent),
                ..MetricTarget::default()
            },
        }),
        ..MetricSpec::default()
    }
}

/// Returns the metric of the requests under way in a pod, on average.
fn requests_in_flight(count: i32) -> MetricSpec {
    MetricSpec {
        type_: "Pods".to_owned(),
        pods: Some(PodsMetricSource {
            metric: MetricIdentifier { name: REQUESTS_IN_FLIGHT.to_owned(), selector: None },
            target: MetricTarget {
                type_: "AverageValue".to_owned(),
                average_value: Some(Quantity(count.to_string())),
                ..MetricTarget::default()
            },
        }),
        ..MetricSpec::default()
    }
}

fn autoscaler(server: &Validated, autoscaling: &Autoscaling) -> HorizontalPodAutoscaler {
    let cpu = utilization("cpu", autoscaling.target_cpu_utilization_percentage);
    let memory = autoscaling.target_memory_utilization_percentage;
    let memory = memory.map(|percent| utilization("memory", percent));
    let requests = autoscaling.target_requests_in_flight.map(requests_in_flight);
    HorizontalPodAutoscaler {
        metadata: meta(server, names::auxiliary(&server.name)),
        spec: Some(HorizontalPodAutoscalerSpec {
            scale_target_ref: CrossVersionObjectReference {
                api_version: Some("apps/v1".to_owned()),
                kind: WorkloadForm::wanted(server).kind().as_str().to_owned(),
                name: server.name.clone(),
            },
            min_replicas: Some(autoscaling.min_replicas),
            max_replicas: autoscaling.max_replicas,
            metrics: Some(std::iter::once(cpu).chain(memory).chain(requests).collect()),
            behavior: autoscaling.behavior.clone(),
        }),
        ..HorizontalPodAutoscaler::default()
    }
}

fn budget(server: &Validated, disruption: &Disruption) -> PodDisruptionBudget {
    let (min_available, max_unavailable) = match disruption {
        Disruption::MinAvailable(least) => (Some(least.clone()), None),
        Disruption::MaxUnavailable(most) => (None, Some(most.clone())),
    };
    PodDisruptionBudget {
        metadata: meta(server, names::auxiliary(&server.name)),
        spec: Some(PodDisruptionBudgetSpec {
            min_available,
            max_unavailable,
            selector: Some(pods(server)),
            // A broken pod serves no client, and would block the drain of its node for ever.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
        }),
        ..PodDisruptionBudget::default()
    }
}

/// Returns the NetworkPolicy. The admin port stays open to all namespaces: the operator and Prometheus call
/// it, and it asks for a token, as the port of events does. In Istio's ambient mode both ports are reached by
/// the port of tunnels, which is open to the clients and the operator alone.
fn policy(server: &Validated, from: &[NetworkPolicyPeer], settings: &BuildSettings) -> NetworkPolicy {
    let all_namespaces = NetworkPolicyPeer {
        namespace_selector: Some(LabelSelector::default()),
        ..NetworkPolicyPeer::default()
    };
    let events = server.events.enabled.then(|| port("TCP", EVENTS_PORT));
    // Replicas forward requests that only one of them can answer.
    let replicas = NetworkPolicyPeer { pod_selector: Some(pods(server)), ..NetworkPolicyPeer::default() };
    NetworkPolicy {
        metadata: meta(server, names::auxiliary(&server.name)),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(pods(server)),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(vec![
                NetworkPolicyIngressRule {
                    from: (!from.is_empty()).then(|| from.iter().cloned().chain([replicas]).collect()),
                    ports: Some(vec![port("TCP", CLIENT_PORT), port("TCP", TUNNEL_PORT)]),
                },
                NetworkPolicyIngressRule {
                    from: Some(vec![all_namespaces]),
                    ports: Some(std::iter::once(port("TCP", ADMIN_PORT)).chain(events).collect()),
                },
                NetworkPolicyIngressRule {
                    from: Some(vec![operator_pods(settings)]),
                    ports: Some(vec![port("TCP", TUNNEL_PORT)]),
                },
            ]),
            ..NetworkPolicySpec::default()
        }),
    }
}

fn service_monitor(server: &Validated, monitor: &ServiceMonitor) -> Child {
    let mut metadata = meta(server, names::auxiliary(&server.name));
    metadata.labels.get_or_insert_default().extend(monitor.labels.clone());
    let mut endpoint = json!({ "port": "admin", "path": "/metrics" });
    if let Some(endpoint) = endpoint.as_object_mut() {
        for (field, duration) in [("interval", &monitor.interval), ("scrapeTimeout", &monitor.scrape_timeout)]
        {
            if let Some(duration) = duration {
                endpoint.insert(field.to_owned(), duration.as_str().into());
            }
        }
        for (field, rules) in
            [("relabelings", &monitor.relabelings), ("metricRelabelings", &monitor.metric_relabelings)]
        {
            if !rules.is_empty() {
                endpoint.insert(field.to_owned(), json!(rules));
            }
        }
        if server.metrics_token {
            let credentials = json!({ "name": names::secret(&server.name), "key": METRICS_TOKEN });
            endpoint
                .insert("authorization".to_owned(), json!({ "type": "Bearer", "credentials": credentials }));
        }
    }
    let mut labels = names::selector(&server.name);
    labels.insert(names::COMPONENT.to_owned(), names::PEERS.to_owned());
    let spec = json!({ "spec": { "selector": { "matchLabels": labels }, "endpoints": [endpoint] } });
    Child::json(ChildKind::ServiceMonitor, metadata, spec)
}

/// Paths of the embedded authorization server: metadata, keys, and the sign-in itself.
const AUTH_SERVER_PATHS: [&str; 3] =
    ["/.well-known/oauth-authorization-server", "/.well-known/jwks.json", "/oauth"];

fn http_route(server: &Validated, route: &HttpRoute) -> Child {
    let has_auth_server = server.auth_server.is_some();
    let asks_for_tokens =
        has_auth_server || server.settings.incoming_auth.get("type").is_some_and(|kind| kind == "oidc");
    // Clients without a token read there where to get one (RFC 9728).
    let metadata = asks_for_tokens.then_some("/.well-known/oauth-protected-resource");
    let sign_in: &[&str] = if has_auth_server { &AUTH_SERVER_PATHS } else { &[] };
    let others: Vec<&str> = metadata.into_iter().chain(sign_in.iter().copied()).collect();
    let backend = json!({ "name": names::service(&server.name), "port": CLIENT_PORT });
    let path = route.path.as_str();
    let all: Vec<&HttpRouteFilter> = route.filters.iter().collect();
    let rest: Vec<_> = all.iter().copied().filter(|filter| filter.url_rewrite.is_none()).collect();
    let parts = if rest.len() < all.len() {
        // The new path is that of MCP, and the Gateway API lets a rule replace one prefix only.
        vec![(vec![path], all), (others, rest)]
    } else {
        vec![(std::iter::once(path).chain(others).collect(), all)]
    };
    let parts = parts.iter().filter(|(paths, _)| !paths.is_empty());
    let rules: Vec<_> = parts.map(|(paths, filters)| rule(route, &backend, paths, filters)).collect();
    let spec = json!({ "spec": {
        "parentRefs": route.parent_refs,
        "hostnames": route.hostnames,
        "rules": rules,
    } });
    let mut metadata = route.metadata.on(meta(server, names::auxiliary(&server.name)));
    record_added_keys(&route.metadata, &mut metadata);
    Child::json(ChildKind::HTTPRoute, metadata, spec)
}

fn rule(route: &HttpRoute, backend: &Value, paths: &[&str], filters: &[&HttpRouteFilter]) -> Value {
    let matches: Vec<_> =
        paths.iter().map(|path| json!({ "path": { "type": "PathPrefix", "value": path } })).collect();
    let mut rule = json!({ "matches": matches, "backendRefs": [backend] });
    if let Some(rule) = rule.as_object_mut() {
        if !filters.is_empty() {
            rule.insert("filters".to_owned(), json!(filters));
        }
        if let Some(timeouts) = &route.timeouts {
            rule.insert("timeouts".to_owned(), json!(timeouts));
        }
    }
    rule
}
