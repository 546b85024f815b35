//! [`guard_of`]: the SSRF guard of connections to a backend, by the setting `addresses`.

use std::net::IpAddr;
use std::sync::LazyLock;

use vmcp_config::addresses::{AddressClass, ReachableAddresses};
use vmcp_egress::AddressGuard;

/// Address of the API server, in a pod: Services of a cluster may have public addresses, too.
static API_SERVER: LazyLock<Option<IpAddr>> = LazyLock::new(|| {
    let address = std::env::var("KUBERNETES_SERVICE_HOST").ok()?;
    address.parse().ok()
});

/// Returns the guard of connections; `None` if every address may be reached.
pub(super) fn guard_of(addresses: ReachableAddresses) -> Option<AddressGuard> {
    match addresses {
        ReachableAddresses::Any => None,
        ReachableAddresses::Local => Some(admit_local),
        ReachableAddresses::Public => Some(admit_public),
    }
}

fn admit_local(address: IpAddr) -> Result<(), String> {
    judge(ReachableAddresses::Local, address)
}

fn admit_public(address: IpAddr) -> Result<(), String> {
    judge(ReachableAddresses::Public, address)
}

fn judge(wanted: ReachableAddresses, address: IpAddr) -> Result<(), String> {
    let is_api_server = Some(address.to_canonical()) == *API_SERVER;
    if wanted.admit(address) && !(is_api_server && wanted == ReachableAddresses::Public) {
        return Ok(());
    }
    let class = if is_api_server { "the API server's" } else { AddressClass::of(address).words() };
    let word = wanted.word();
    Err(format!(
        "{class}, which `addresses: {word}` of the backend excludes; if it is meant, name the host in a rule of \
         `optimizer.admin.allow`, or change the setting"
    ))
}
