//! The Services: one for clients, a headless one by which Prometheus finds each pod, and one for the console.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use vmcp_crds::lower::{ADMIN_PORT, CLIENT_PORT, EVENTS_PORT};
use vmcp_crds::virtual_mcp_server::{ServiceType, Validated};

use super::meta;
use super::stored_metadata::record_added_keys;
use crate::virtual_mcp_server::names;

/// Returns the Service for clients. It has no admin port: it may lead out of the cluster.
///
/// Settings that its type gives no meaning are left out, since the API server refuses them: the type is
/// `ClusterIP` where the exposure is withheld.
pub(in crate::virtual_mcp_server) fn client_service(server: &Validated) -> Service {
    let settings = &server.service;
    let balanced = server.service_type == ServiceType::LoadBalancer;
    let ranges = &settings.load_balancer_source_ranges;
    let policy = settings.external_traffic_policy.filter(|_| server.service_type != ServiceType::ClusterIP);
    let mut metadata = server.overrides.service.on(meta(server, names::service(&server.name)));
    record_added_keys(&server.overrides.service, &mut metadata);
    Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: Some(server.service_type.as_str().to_owned()),
            session_affinity: Some(server.session_affinity.as_str().to_owned()),
            selector: Some(names::selector(&server.name)),
            // Addresses of both families where the cluster has both. The headless Service keeps one family:
            // it has to name each pod once.
            ip_family_policy: Some("PreferDualStack".to_owned()),
            load_balancer_source_ranges: (balanced && !ranges.is_empty()).then(|| ranges.clone()),
            load_balancer_class: settings.load_balancer_class.clone().filter(|_| balanced),
            external_traffic_policy: policy.map(|policy| policy.as_str().to_owned()),
            ports: Some(vec![port("mcp", CLIENT_PORT)]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// Returns the headless Service, which resolves to one address a pod and has the admin port. It has the port
/// of events too: each pod tells its own.
pub(in crate::virtual_mcp_server) fn peers_service(server: &Validated) -> Service {
    let mut metadata = meta(server, names::peers(&server.name));
    metadata.labels.get_or_insert_default().insert(names::COMPONENT.into(), names::PEERS.into());
    let events = server.events.enabled.then(|| port("events", EVENTS_PORT));
    Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: Some(ServiceType::ClusterIP.as_str().to_owned()),
            cluster_ip: Some("None".to_owned()),
            selector: Some(names::selector(&server.name)),
            ports: Some(
                [port("mcp", CLIENT_PORT), port("admin", ADMIN_PORT)].into_iter().chain(events).collect(),
            ),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// Returns the Service that leads to the web console, if the resource asks for one. It stays inside of the
/// cluster whatever the type of the Service for clients: behind the same port is the admin API.
pub(in crate::virtual_mcp_server) fn console_service(server: &Validated) -> Option<Service> {
    server.console.as_ref().filter(|console| console.has_service())?;
    let mut metadata = meta(server, names::console(&server.name));
    metadata.labels.get_or_insert_default().insert(names::COMPONENT.into(), names::CONSOLE.into());
    Some(Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: Some(ServiceType::ClusterIP.as_str().to_owned()),
            // A tried tool whose server asks something waits in one pod.
            session_affinity: Some("ClientIP".to_owned()),
            selector: Some(names::selector(&server.name)),
            ip_family_policy: Some("PreferDualStack".to_owned()),
            ports: Some(vec![port("admin", ADMIN_PORT)]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    })
}

fn port(name: &str, port: u16) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: port.into(),
        target_port: Some(IntOrString::String(name.to_owned())),
        ..ServicePort::default()
    }
}
