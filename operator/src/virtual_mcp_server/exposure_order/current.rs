//! The exposure of a server as its objects are stored, and its comparison with a wanted one.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyPeer};
use serde_json::Value;
use vmcp_crds::fields::resource_overrides::MetadataOverrides;
use vmcp_crds::virtual_mcp_server::{ServiceType, Validated};

use crate::runtime::{Child, ChildKind, Context};
use crate::virtual_mcp_server::names;
use crate::virtual_mcp_server::objects::StoredMetadata;
use crate::workload::network::sources::is_within;

/// The exposure of a server as its objects are stored.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::virtual_mcp_server) struct CurrentExposure {
    /// Type of the Service; `ClusterIP` without a Service.
    pub service_type: ServiceType,
    /// Labels and annotations of the Service; `None` without a Service.
    pub metadata: Option<StoredMetadata>,
    /// Addresses that the load balancer lets in; empty: all.
    pub source_ranges: Vec<String>,
    /// True if a load balancer has an address.
    pub is_balanced: bool,
    /// Peers of the NetworkPolicy; empty: all; `None` without a NetworkPolicy.
    pub ingress_from: Option<Vec<NetworkPolicyPeer>>,
    /// The `spec` of the HTTPRoute.
    pub route: Option<Value>,
    /// Labels and annotations of the HTTPRoute.
    pub route_metadata: Option<StoredMetadata>,
    /// The `metadata.generation` of the HTTPRoute: answers to an earlier one are about another route.
    pub route_generation: Option<i64>,
    /// The entries of the HTTPRoute's `status.parents`: the answers of its Gateways.
    pub route_parents: Vec<Value>,
    /// True if the cluster or the installation has no HTTPRoutes.
    pub lacks_routes: bool,
}

impl CurrentExposure {
    /// Reads the stored objects of a server.
    pub(in crate::virtual_mcp_server) fn read(context: &Context, uid: &str, name: &str) -> Self {
        let children = &context.children;
        let auxiliary = names::auxiliary(name);
        let route = children.get(uid, ChildKind::HTTPRoute, &auxiliary);
        let parents = route.as_ref().and_then(|route| route.data.pointer("/status/parents")?.as_array());
        Self {
            route_parents: parents.cloned().unwrap_or_default(),
            route_metadata: route.as_ref().map(|route| StoredMetadata::from_stored(route.metadata.clone())),
            route_generation: route.as_ref().and_then(|route| route.metadata.generation),
            ingress_from: children
                .typed::<NetworkPolicy>(uid, &auxiliary)
                .map(|policy| peers(policy, &names::selector(name))),
            route: route.map(|mut route| route.data.get_mut("spec").map(Value::take).unwrap_or_default()),
            lacks_routes: children.is_missing(ChildKind::HTTPRoute),
            ..children.typed::<Service>(uid, &names::service(name)).map(of_service).unwrap_or_default()
        }
    }

    /// Returns true if the stored Service and NetworkPolicy admit nothing that the server does not want.
    /// Other labels or annotations of the Service may admit more.
    pub(super) fn is_within(&self, wanted: &Validated) -> bool {
        let balanced = wanted.service_type == ServiceType::LoadBalancer;
        let service = self.service_type <= wanted.service_type
            && (balanced || !self.is_balanced)
            && (self.service_type != ServiceType::LoadBalancer
                || is_within(&self.source_ranges, &wanted.service.load_balancer_source_ranges));
        let policy = match (&self.ingress_from, &wanted.ingress_from) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(current), Some(wanted)) => is_within(current, wanted),
        };
        let overrides = &wanted.overrides.service;
        let metadata = self.metadata.as_ref().is_none_or(|stored| stored.stored(overrides) == *overrides);
        service && policy && metadata
    }

    /// Returns true if the stored route is the wanted one, with these labels and annotations of the resource,
    /// besides defaults of the API server.
    pub(super) fn has_route(&self, wanted: &Child, added: &MetadataOverrides) -> bool {
        let wanted = wanted.object().data.get("spec").unwrap_or(&Value::Null);
        self.has_route_metadata(added) && self.route.as_ref().is_some_and(|route| has(route, wanted))
    }

    /// Returns true if the wanted route is the stored one with fewer hosts or gateways.
    pub(super) fn covers_route(&self, wanted: &Child, added: &MetadataOverrides) -> bool {
        let wanted = wanted.object().data.get("spec").unwrap_or(&Value::Null);
        self.has_route_metadata(added)
            && self.route.as_ref().is_some_and(|route| has(&narrowed(route, wanted), wanted))
    }

    fn has_route_metadata(&self, added: &MetadataOverrides) -> bool {
        self.route_metadata.as_ref().is_none_or(|stored| stored.stored(added) == *added)
    }
}

fn of_service(service: Service) -> CurrentExposure {
    let spec = service.spec.unwrap_or_default();
    let service_type = match spec.type_.as_deref() {
        Some("LoadBalancer") => ServiceType::LoadBalancer,
        Some("NodePort") => ServiceType::NodePort,
        _ => ServiceType::ClusterIP,
    };
    let balancer = service.status.and_then(|status| status.load_balancer?.ingress).unwrap_or_default();
    CurrentExposure {
        service_type,
        metadata: Some(StoredMetadata::from_stored(service.metadata)),
        source_ranges: spec.load_balancer_source_ranges.unwrap_or_default(),
        is_balanced: !balancer.is_empty(),
        ..CurrentExposure::default()
    }
}

/// Returns the peers of the first rule, that of the client port, without the pods of the server itself.
fn peers(policy: NetworkPolicy, own: &BTreeMap<String, String>) -> Vec<NetworkPolicyPeer> {
    let is_own = |peer: &NetworkPolicyPeer| {
        let labels = peer.pod_selector.as_ref().and_then(|selector| selector.match_labels.as_ref());
        labels == Some(own) && peer.namespace_selector.is_none()
    };
    let rules = policy.spec.and_then(|spec| spec.ingress).unwrap_or_default();
    let mut peers = rules.into_iter().next().and_then(|rule| rule.from).unwrap_or_default();
    peers.retain(|peer| !is_own(peer));
    peers
}

/// Keys that the API server adds to references of an HTTPRoute.
const DEFAULTED: [&str; 3] = ["group", "kind", "weight"];

/// Returns true if a stored value equals a wanted one, besides defaults of the API server. Any other key that
/// only the stored value has, such as a listener or a filter, limits the route: its removal is a change.
fn has(stored: &Value, wanted: &Value) -> bool {
    match (stored, wanted) {
        (Value::Object(stored), Value::Object(wanted)) => {
            let is_known = |key: &String| wanted.contains_key(key) || DEFAULTED.contains(&key.as_str());
            stored.keys().all(is_known)
                && wanted
                    .iter()
                    .all(|(key, wanted)| stored.get(key).is_some_and(|stored| has(stored, wanted)))
        }
        (Value::Array(stored), Value::Array(wanted)) => {
            stored.len() == wanted.len()
                && stored.iter().zip(wanted).all(|(stored, wanted)| has(stored, wanted))
        }
        _ => stored == wanted,
    }
}

/// Key of the hosts of an HTTPRoute; without any, it serves all of its listeners.
const HOSTNAMES: &str = "hostnames";

/// Returns a stored route with the wanted hosts and gateways, where these are a part of its own.
fn narrowed(stored: &Value, wanted: &Value) -> Value {
    let mut route = stored.clone();
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    for key in [HOSTNAMES, "parentRefs"] {
        let (whole, part) = (list(stored.get(key)), list(wanted.get(key)));
        let is_open = key == HOSTNAMES && whole.is_empty();
        let is_part = part.iter().all(|part| whole.iter().any(|whole| covers_entry(whole, part)));
        if !part.is_empty()
            && (is_open || is_part)
            && let Some(fields) = route.as_object_mut()
        {
            fields.insert(key.to_owned(), part.into());
        }
    }
    route
}

/// Returns true for the same entry, and for a host below a wildcard.
fn covers_entry(whole: &Value, part: &Value) -> bool {
    let below = whole.as_str().and_then(|whole| whole.strip_prefix('*')).zip(part.as_str());
    has(whole, part) || below.is_some_and(|(suffix, host)| host.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_of_the_api_server_are_no_difference() {
        let wanted = json!({ "parentRefs": [{ "name": "gw" }], "hostnames": ["a.example"] });
        let stored =
            json!({ "parentRefs": [{ "name": "gw", "kind": "Gateway" }], "hostnames": ["a.example"] });
        assert!(has(&stored, &wanted));
        let other = json!({ "parentRefs": [{ "name": "gw" }], "hostnames": ["a.example", "b.example"] });
        assert!(!has(&stored, &other));
        let limited =
            json!({ "parentRefs": [{ "name": "gw", "sectionName": "inner" }], "hostnames": ["a.example"] });
        assert!(!has(&limited, &wanted), "the wanted route leads from every listener");
    }

    #[test]
    fn fewer_hosts_and_gateways_are_a_part_of_a_route() {
        let route = |hosts: &[&str], gateways: &[&str], path: &str| {
            let parents: Vec<_> = gateways.iter().map(|name| json!({ "name": name })).collect();
            json!({ "parentRefs": parents, "hostnames": hosts, "rules": [path] })
        };
        let stored = route(&["a.example", "*.b.example"], &["gw", "other"], "/mcp");
        let is_part = |wanted: Value| has(&narrowed(&stored, &wanted), &wanted);
        assert!(is_part(route(&["a.example"], &["gw"], "/mcp")));
        assert!(is_part(route(&["c.b.example"], &["other"], "/mcp")));
        for other in [
            route(&[], &["gw"], "/mcp"),
            route(&["c.example"], &["gw"], "/mcp"),
            route(&["xb.example"], &["gw"], "/mcp"),
            route(&["a.example"], &["third"], "/mcp"),
            route(&["a.example"], &["gw"], "/other"),
        ] {
            assert!(!is_part(other.clone()), "{other}");
        }
        let (open, one) = (route(&[], &["gw"], "/mcp"), route(&["a.example"], &["gw"], "/mcp"));
        assert!(has(&narrowed(&open, &one), &one), "from every host to one");
    }

    #[test]
    fn a_service_tells_whether_a_load_balancer_still_has_an_address() {
        let service: Service = serde_json::from_value(json!({
            "spec": { "type": "ClusterIP" }, "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } },
        }))
        .unwrap();
        let current = of_service(service);
        assert_eq!((current.service_type, current.is_balanced), (ServiceType::ClusterIP, true));
    }
}
