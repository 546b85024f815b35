//! Order of exposure and identity, where an edit changes both. Pure.
//!
//! The exposure (Service, HTTPRoute, NetworkPolicy) is written in one call of the API server; the identity
//! (`incomingAuth`, `authServer` in `vmcp.yaml`) takes effect when each pod has the file in force. In
//! between, a server could be reachable from outside and not yet ask clients who they are. Therefore:
//!
//! 1. A wider exposure waits until every pod has the wanted configuration in force. A refused configuration
//!    is never in force.
//! 2. A changed identity waits until a narrower exposure of the same edit is stored.
//! 3. A narrower exposure waits for nothing.
//!
//! Everything is decided from stored objects and reports of pods, so that a restart of the operator changes
//! nothing: before the first report of a pod, the exposure stays as it is.

mod current;
mod uptake;

use vmcp_crds::lower::Identity;
use vmcp_crds::virtual_mcp_server::{HTTP_ROUTE, SERVICE_TYPE, ServiceType, Validated};

pub(super) use self::current::CurrentExposure;
pub(super) use self::uptake::{ConfigurationWrites, Uptake, uptake};
use super::last_good::MountedConfiguration;
use super::names;
use super::objects;
use super::validate::Plan;
use crate::runtime::ChildKind;
use crate::workload::network::sources::narrow;

/// Path of the field with the addresses that a load balancer lets in.
const SOURCE_RANGES: &str = "spec.service.loadBalancerSourceRanges";
/// Path of the field with labels and annotations of the Service.
const SERVICE_METADATA: &str = "spec.resourceOverrides.service";
/// Path of the field that limits who may connect to the pods.
const NETWORK_POLICY: &str = "spec.networkPolicy";

/// The exposure and the configuration that may take effect now.
#[derive(Debug)]
pub(super) struct ExposureOrder {
    /// The server with the exposure that may be made now.
    pub server: Validated,
    /// Objects that stay as they are for now.
    pub keep: Vec<(ChildKind, String)>,
    /// True if the mounted configuration stays until the exposure is narrower.
    pub holds_configuration: bool,
    /// Fields that take effect later.
    pub held: Vec<&'static str>,
    /// State of the wanted configuration in the pods.
    pub uptake: Uptake,
    /// True if the configuration that is mounted asks clients for credentials.
    pub authenticates: bool,
}

/// Returns the exposure and the configuration that may take effect now. `mounted` is the stored
/// configuration.
pub(super) fn order(
    server: &Validated,
    plan: &Plan,
    mounted: Option<&MountedConfiguration>,
    uptake: Uptake,
    current: &CurrentExposure,
) -> ExposureOrder {
    let before = mounted.map(|mounted| Identity::from_text(&mounted.text));
    let after = plan.configuration.as_ref().ok();
    let after = after.map(|configuration| {
        let text = &configuration.lowered.text;
        // Usually nothing has changed: the text is parsed once.
        let same = before.as_ref().filter(|_| mounted.is_some_and(|mounted| mounted.text == *text));
        same.cloned().unwrap_or_else(|| Identity::from_text(text))
    });
    let mut order = ExposureOrder {
        server: server.clone(),
        keep: Vec::new(),
        holds_configuration: false,
        held: Vec::new(),
        authenticates: before.as_ref().or(after.as_ref()).is_some_and(Identity::authenticates),
        uptake,
    };
    // The resource asks for credentials, but what serves until it is corrected does not.
    if after.is_none() && !server.allow_anonymous_exposure && !order.authenticates {
        order.server.withhold();
    }
    if order.uptake == Uptake::InForce {
        return order;
    }
    let changes = matches!((&before, &after), (Some(before), Some(after)) if before != after);
    let drops = matches!((&before, &after), (Some(before), Some(after)) if after.drops_a_guard_of(before));
    order.narrow_service(current, drops);
    order.keep_service_metadata(current, drops);
    order.narrow_policy(current, drops);
    // Identities are compared by their guards alone: behind another identity, an old route must not stay.
    let keeps_route = order.narrow_route(current, changes);
    let removes_route = current.route.is_some() && order.server.http_route.is_none() && !keeps_route;
    order.holds_configuration = changes && (removes_route || !current.is_within(&order.server));
    order
}

impl ExposureOrder {
    /// Returns true if a part of the resource waits for another.
    pub(super) fn waits(&self) -> bool {
        self.holds_configuration || !self.held.is_empty()
    }

    /// Returns true if the wait ends by itself.
    pub(super) fn is_under_way(&self) -> bool {
        self.waits() && !matches!(self.uptake, Uptake::Refused(_))
    }

    fn narrow_service(&mut self, current: &CurrentExposure, drops_a_guard: bool) {
        if self.server.service_type > current.service_type {
            self.server.service_type = current.service_type;
            self.held.push(SERVICE_TYPE);
        } else if current.service_type == ServiceType::LoadBalancer {
            let wanted = &mut self.server.service.load_balancer_source_ranges;
            if narrow(wanted, &current.source_ranges, drops_a_guard) {
                self.held.push(SOURCE_RANGES);
            }
        }
    }

    /// Keeps labels and annotations of the Service, for they may widen the exposure. While a guard is dropped
    /// they go first: they may narrow it.
    fn keep_service_metadata(&mut self, current: &CurrentExposure, drops_a_guard: bool) {
        let Some(metadata) = current.metadata.as_ref().filter(|_| !drops_a_guard) else { return };
        let wanted = &mut self.server.overrides.service;
        let stored = metadata.stored(wanted);
        if stored != *wanted {
            *wanted = stored;
            self.held.push(SERVICE_METADATA);
        }
    }

    fn narrow_policy(&mut self, current: &CurrentExposure, drops_a_guard: bool) {
        let Some(current) = &current.ingress_from else { return };
        let wanted = match &mut self.server.ingress_from {
            // A policy that admits all goes.
            None if current.is_empty() => return,
            wanted => wanted.get_or_insert_default(),
        };
        if narrow(wanted, current, drops_a_guard) {
            self.held.push(NETWORK_POLICY);
        }
    }

    /// Keeps another route than the wanted one, and removes it while a guard is dropped: an old route must
    /// not lead to a server that asks for less, and a new one not to a server that does not ask yet. A part
    /// of the stored route takes effect at once. Returns true if the stored route stays.
    fn narrow_route(&mut self, current: &CurrentExposure, drops_a_guard: bool) -> bool {
        let wanted = objects::route(&self.server).zip(self.server.http_route.as_ref());
        let Some((wanted, route)) = wanted else { return false };
        let is_part = !drops_a_guard && current.covers_route(&wanted, &route.metadata);
        if current.lacks_routes || is_part || current.has_route(&wanted, &route.metadata) {
            return false;
        }
        self.server.http_route = None;
        self.held.push(HTTP_ROUTE);
        let keeps = current.route.is_some() && !drops_a_guard;
        if keeps {
            self.keep.push((ChildKind::HTTPRoute, names::auxiliary(&self.server.name)));
        }
        keeps
    }
}

/// Returns true for a Service that leads out of the cluster, or a route.
pub(super) fn is_exposed(server: &Validated) -> bool {
    server.http_route.is_some() || server.service_type != ServiceType::ClusterIP
}

#[cfg(test)]
mod tests;
