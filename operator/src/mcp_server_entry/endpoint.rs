//! SSRF guard: refuses URLs that lead into the cluster or the cloud's own network.
//!
//! Anyone who may create an entry chooses a URL that the server's pod calls from its network position:
//! without this check an entry would be a way to the cloud's metadata service or to a neighbor's API. The
//! check resolves no names, because their addresses can change afterwards (DNS rebinding); a NetworkPolicy
//! guards against that.

use std::net::IpAddr;

use url::{Host, Url};
use vmcp_config::addresses::AddressClass;

/// Domains that only resolve inside: those of the cluster, of the cloud provider, of the local network.
const INSIDE_DOMAINS: [&str; 6] = ["localhost", "svc", "cluster.local", "local", "internal", "home.arpa"];

/// Returns which part of the inside the URL leads to; `None` if it leads out.
pub(super) fn inside(url: &Url) -> Option<&'static str> {
    match url.host()? {
        Host::Ipv4(address) => inside_address(address.into()),
        Host::Ipv6(address) => inside_address(address.into()),
        Host::Domain(name) => inside_name(name),
    }
}

fn inside_name(name: &str) -> Option<&'static str> {
    let name = name.trim_end_matches('.');
    if !name.contains('.') {
        return Some("a name without a domain, which only the cluster's DNS knows");
    }
    let ends = |ending: &str| name.strip_suffix(ending).is_some_and(|front| front.ends_with('.'));
    INSIDE_DOMAINS
        .iter()
        .any(|ending| ends(ending))
        .then_some("a name of the cluster or of the local network")
}

fn inside_address(address: IpAddr) -> Option<&'static str> {
    let class = AddressClass::of(address);
    (class != AddressClass::Public).then(|| class.words())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leads_in(url: &str) -> bool {
        inside(&Url::parse(url).unwrap()).is_some()
    }

    #[test]
    fn public_hosts_lead_out() {
        for url in [
            "https://api.githubcopilot.com/mcp/",
            "https://mcp.example.com.:8443/x",
            "http://8.8.8.8/",
            "https://[2606:4700:4700::1111]/mcp",
            "https://notlocal.example/",
            "https://svc.example.com/",
            "https://172.32.0.1/",
            "https://100.128.0.1/",
        ] {
            assert!(!leads_in(url), "{url}");
        }
    }

    #[test]
    fn every_spelling_of_an_inner_address_is_seen() {
        for url in [
            "http://169.254.169.254/latest/meta-data",
            "http://0xa9fea9fe/",
            "http://2130706433/",
            "http://127.1/",
            "http://0/",
            "http://10.0.0.1/",
            "http://172.16.0.1/",
            "http://192.168.1.1:8080/",
            "http://100.64.0.1/",
            "http://[::1]/",
            "http://[::]/",
            "http://[fe80::1]/",
            "http://[fd00:ec2::254]/",
            "http://[::ffff:10.0.0.1]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://[2002:a9fe:a9fe::1]/",
            "http://[64:ff9b:1::a9fe:a9fe]/",
            "http://[::169.254.169.254]/",
            "http://[2001:0:a9fe:a9fe::1]/",
            "http://168.63.129.16/",
            "http://240.0.0.1/",
            "http://198.18.0.1/",
        ] {
            assert!(leads_in(url), "{url}");
        }
    }

    #[test]
    fn names_of_the_inside_are_seen() {
        for url in [
            "http://localhost:3000/",
            "http://app.localhost/",
            "http://kubernetes/",
            "http://api.prod.svc/",
            "http://api.prod.svc.cluster.local./",
            "http://metadata.google.internal/",
            "http://printer.local/",
        ] {
            assert!(leads_in(url), "{url}");
        }
    }
}
