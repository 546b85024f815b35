//! [`guard_of`]: the SSRF guard of connections to a backend, by the setting `addresses`.

use std::net::IpAddr;

use vmcp_config::addresses::{AddressClass, ReachableAddresses};
use vmcp_egress::AddressGuard;

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
    if wanted.admit(address) {
        return Ok(());
    }
    let (class, word) = (AddressClass::of(address).words(), wanted.word());
    Err(format!(
        "{class}, which `addresses: {word}` of the backend excludes; if it is meant, name the host in a rule of \
         `optimizer.admin.allow`, or change the setting"
    ))
}
