//! [`JudgedResolver`]: names for the first request of a login, judged as the backend's connections are.

use std::io;
use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};
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
                let reason = refusal(name.as_str(), first.ip(), addresses);
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason).into());
            }
            Ok(Box::new(admitted.into_iter()) as Addrs)
        })
    }
}

/// Judges an address that stands in the URL, which nothing resolves.
pub(super) fn judge_written_address(url: &Url, addresses: ReachableAddresses) -> Result<(), String> {
    let address = match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::from(address),
        Some(Host::Ipv6(address)) => IpAddr::from(address),
        Some(Host::Domain(_)) | None => return Ok(()),
    };
    if addresses.admit(address) { Ok(()) } else { Err(refusal(&address.to_string(), address, addresses)) }
}

fn refusal(host: &str, address: IpAddr, addresses: ReachableAddresses) -> String {
    let word = addresses.word();
    format!("{host} has the address {address}, which `addresses: {word}` of the backend excludes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_the_url_is_judged_as_that_of_a_name() {
        let judged = |url: &str| judge_written_address(&url.parse().unwrap(), ReachableAddresses::Public);
        for url in ["http://127.0.0.1:1/mcp", "https://[fd00::1]/mcp", "https://169.254.169.254/"] {
            assert!(judged(url).unwrap_err().contains("`addresses: public`"), "{url}");
        }
        for url in ["https://8.8.8.8/mcp", "https://localhost/mcp"] {
            assert_eq!(judged(url), Ok(()), "{url}: admitted, or for the resolver to judge");
        }
    }

    #[tokio::test]
    async fn a_name_of_this_machine_is_no_public_server() {
        let resolver = |addresses| JudgedResolver { addresses, proxies: Proxies::none() };
        let localhost = || "localhost".parse::<Name>().unwrap();
        let refused = resolver(ReachableAddresses::Public).resolve(localhost()).await.err().unwrap();
        assert!(refused.to_string().contains("`addresses: public`"), "{refused}");
        assert!(resolver(ReachableAddresses::Local).resolve(localhost()).await.unwrap().next().is_some());
    }
}
