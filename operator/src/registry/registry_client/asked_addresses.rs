//! [`AskedAddresses`]: the addresses at which registries are asked (SSRF guard).
//!
//! Tenants name registries, and a registry names the place of its tokens (`realm`) and of its blobs
//! (redirects). A registry may be in a private network; it is neither a metadata service of a cloud nor this
//! pod.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};
use vmcp_config::addresses::AddressClass;
use vmcp_egress::{Proxies, is_metadata_name};

/// Rules about the addresses of registries. Judges the addresses of names at the moment of connecting; behind
/// a proxy, which resolves names by itself, literal addresses and names of metadata services.
#[derive(Clone)]
pub(super) struct AskedAddresses {
    /// Hosts, with their ports, that are asked over plain HTTP: the administrator's own, on any machine.
    plain_http: Arc<[String]>,
    proxies: Proxies,
}

impl AskedAddresses {
    /// Makes the rules; `plain_http` lists hosts that the administrator allows.
    pub(super) fn new(plain_http: &[String], proxies: Proxies) -> Self {
        Self { plain_http: plain_http.into(), proxies }
    }

    /// True if a URL may be asked, as far as it shows an address.
    pub(super) fn admit(&self, url: &Url) -> bool {
        match url.host() {
            Some(Host::Domain(name)) => !is_metadata_name(name),
            Some(Host::Ipv4(address)) => self.admit_address(url.host_str(), address.into()),
            Some(Host::Ipv6(address)) => self.admit_address(url.host_str(), address.into()),
            None => false,
        }
    }

    /// True if a host may have the address. Loopback addresses are for hosts that the administrator lists.
    fn admit_address(&self, host: Option<&str>, address: IpAddr) -> bool {
        match AddressClass::of(address) {
            AddressClass::Public | AddressClass::Private => true,
            AddressClass::Loopback => host.is_some_and(|host| self.is_listed(host)),
            AddressClass::Reserved | AddressClass::LinkLocal => false,
        }
    }

    /// True for the host of a listed registry, at any port.
    fn is_listed(&self, host: &str) -> bool {
        self.plain_http.iter().any(|listed| {
            let port = listed.strip_prefix(host).and_then(|rest| rest.strip_prefix(':'));
            listed == host || port.is_some_and(|port| port.parse::<u16>().is_ok())
        })
    }
}

impl Resolve for AskedAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        let rules = self.clone();
        Box::pin(async move {
            let host = name.as_str();
            // The proxy's own address is the administrator's choice.
            let is_proxy = rules.proxies.hosts().any(|proxy| proxy.eq_ignore_ascii_case(host));
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await?.collect();
            let is_admitted =
                |address: &SocketAddr| is_proxy || rules.admit_address(Some(host), address.ip());
            let admitted: Vec<SocketAddr> = found.iter().copied().filter(is_admitted).collect();
            if let (true, Some(refused)) = (admitted.is_empty(), found.first()) {
                let class = AddressClass::of(refused.ip()).words();
                let reason = format!("{host} leads to {class}, where no registry is asked");
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason).into());
            }
            Ok(Box::new(admitted.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr as _;

    use super::*;

    fn rules() -> AskedAddresses {
        AskedAddresses::new(&["127.0.0.1:5000".to_owned(), "localhost:5000".to_owned()], Proxies::none())
    }

    #[test]
    fn no_registry_is_a_metadata_service_or_this_pod() {
        let admits = |url: &str| rules().admit(&Url::parse(url).unwrap());
        for url in [
            "https://169.254.169.254/latest",
            "https://[fe80::1]/v2/",
            "https://[::ffff:169.254.169.254]/",
            "https://2852039166/",
            "https://metadata.google.internal/",
            "https://0.0.0.0/v2/",
            "https://127.0.0.2/v2/",
            "https://[::1]:5000/v2/",
        ] {
            assert!(!admits(url), "{url}");
        }
        for url in
            ["https://ghcr.io/v2/", "https://10.0.0.1/v2/", "https://[fd00::1]/", "http://127.0.0.1:5000/v2/"]
        {
            assert!(admits(url), "{url}");
        }
    }

    #[tokio::test]
    async fn a_name_leads_to_no_loopback_address_unless_it_is_listed() {
        let name = || Name::from_str("localhost").unwrap();
        assert!(rules().resolve(name()).await.unwrap().next().is_some());
        let others = AskedAddresses::new(&["localhosts:5000".to_owned()], Proxies::none());
        let refused = others.resolve(name()).await.err().unwrap();
        assert!(refused.to_string().contains("leads to a loopback address"), "{refused}");
    }
}
