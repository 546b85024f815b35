//! [`JudgedResolver`]: names for the first request of a login, judged as the backend's connections are.

use std::io;
use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use vmcp_config::addresses::ReachableAddresses;
use vmcp_egress::Proxies;

/// Resolves names by the system, and leaves out addresses that the backend's host may not have. Proxies have
/// any address.
pub(super) struct JudgedResolver {
    pub(super) addresses: ReachableAddresses,
    pub(super) proxies: Proxies,
}

impl Resolve for JudgedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let addresses = self.addresses;
        let is_proxy = self.proxies.hosts().any(|host| host.eq_ignore_ascii_case(name.as_str()));
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let (admitted, refused): (Vec<SocketAddr>, Vec<SocketAddr>) =
                found.partition(|address| is_proxy || addresses.admit(address.ip()));
            if let (true, Some(first)) = (admitted.is_empty(), refused.first()) {
                let reason = format!(
                    "{} has the address {}, which `addresses: {}` of the backend excludes",
                    name.as_str(),
                    first.ip(),
                    addresses.word()
                );
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason).into());
            }
            Ok(Box::new(admitted.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_of_this_machine_is_no_public_server() {
        let resolver = |addresses| JudgedResolver { addresses, proxies: Proxies::none() };
        let localhost = || "localhost".parse::<Name>().unwrap();
        let refused = resolver(ReachableAddresses::Public).resolve(localhost()).await.err().unwrap();
        assert!(refused.to_string().contains("`addresses: public`"), "{refused}");
        assert!(resolver(ReachableAddresses::Local).resolve(localhost()).await.unwrap().next().is_some());
    }
}
