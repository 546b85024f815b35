//! The condition `ExposureAllowed`: the exposure that runs, and the part of the wanted exposure that waits.

use super::Degradations;
use crate::runtime::Conditions;
use crate::virtual_mcp_server::exposure_order::{ExposureOrder, Uptake, is_exposed};
use crate::virtual_mcp_server::status::ObservedVirtualMCPServer;

/// Sets `ExposureAllowed` if the resource asks for an exposure outside of the cluster, or if its exposure and
/// its identity wait for each other.
pub(super) fn exposure(
    observed: &ObservedVirtualMCPServer<'_>,
    conditions: &mut Conditions,
    degradations: &mut Degradations,
) {
    const KIND: &str = "ExposureAllowed";
    let Some(order) = observed.order else { return conditions.keep(KIND) };
    let withheld = order.server.withheld.join(" and ");
    if !withheld.is_empty() {
        let asks_nobody = observed.plan.server.as_ref().is_ok_and(|server| !server.withheld.is_empty());
        let message = match &order.uptake {
            Uptake::Refused(why) if !asks_nobody => format!(
                "{withheld} would expose a server that asks nobody for credentials: the configuration that does is not \
                 in force: {why}"
            ),
            _ => format!(
                "{withheld} would offer all backends, with their credentials, to anybody outside of the cluster who \
                 reaches it; put a proxy that authenticates before it and set spec.allowAnonymousExposure: true, or keep \
                 it inside"
            ),
        };
        conditions.set(KIND, false, "AnonymousExposure", message.clone());
        degradations.push(("AnonymousExposure", message));
    } else if let Some(message) = waiting(order) {
        conditions.set(KIND, false, "WaitsForConfiguration", message.clone());
        if !order.is_under_way() {
            degradations.push(("WaitsForConfiguration", message));
        }
    } else if is_exposed(&order.server) {
        let message = if order.authenticates {
            "the pods ask clients for credentials"
        } else {
            "spec.allowAnonymousExposure allows it"
        };
        conditions.set(KIND, true, "ExposureAllowed", message);
    }
}

/// Returns the parts that wait, with their reasons.
fn waiting(order: &ExposureOrder) -> Option<String> {
    if order.holds_configuration {
        let message = "the new configuration takes effect once the narrower exposure of the same edit is stored, and \
                       the old load balancer and route are gone";
        return Some(message.to_owned());
    }
    let why = match &order.uptake {
        Uptake::InForce => return None,
        Uptake::Unmounted => "it is about to be mounted",
        Uptake::Pending(why) | Uptake::Refused(why) => why.as_str(),
    };
    let held = order.held.join(", ");
    let message = || format!("{held} takes effect once every pod has the new configuration in force: {why}");
    order.waits().then(message)
}
