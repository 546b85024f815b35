//! SSRF guard: refuses URLs that lead into the cluster or the cloud's own network.
//!
//! Anyone who may create an entry chooses a URL that the server's pod calls from its network position:
//! without this check an entry would be a way to the cloud's metadata service or to a neighbor's API. The
//! check resolves no names, because their addresses can change afterwards (DNS rebinding); a NetworkPolicy
//! guards against that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Domains that only resolve inside: those of the cluster, of the cloud provider, of the local network.
const INSIDE_DOMAINS: [&str; 6] = ["localhost", "svc", "cluster.local", "local", "internal", "home.arpa"];

/// Returns which part of the inside the URL leads to; `None` if it leads out.
pub(super) fn inside(url: &Url) -> Option<&'static str> {
    match url.host()? {
        Host::Ipv4(address) => inside_v4(address),
        Host::Ipv6(address) => inside_v6(address),
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

fn inside_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, ..] = address.octets();
    match (a, b) {
        (169, 254) => Some("a link-local address, such as that of the cloud's metadata service"),
        (127, _) => Some("a loopback address"),
        (10, _) | (172, 16..=31) | (192, 168) | (100, 64..=127) => Some("a private address"),
        (0 | 224.., _) | (198, 18 | 19) => Some("an address that no public host has"),
        _ => None,
    }
}

fn inside_v6(address: Ipv6Addr) -> Option<&'static str> {
    if let Some(address) = embedded_v4(address) {
        return inside_v4(address);
    }
    let [first, ..] = address.segments();
    match first {
        _ if address.is_loopback() => Some("a loopback address"),
        0xfe80..=0xfebf => Some("a link-local address, such as that of the cloud's metadata service"),
        0xfc00..=0xfdff => Some("a private address"),
        // 2000::/3 is all that is assigned to public hosts.
        0x2000..=0x3fff => None,
        _ => Some("an address that no public host has"),
    }
}

/// Returns the IPv4 address that a translator on the way would call: IPv4-mapped, NAT64 and 6to4 addresses.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    if let IpAddr::V4(mapped) = IpAddr::V6(address).to_canonical() {
        return Some(mapped);
    }
    let octets = address.octets();
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => octets.last_chunk().copied().map(Ipv4Addr::from_octets),
        [0x2002, ..] => octets.get(2..6)?.first_chunk().copied().map(Ipv4Addr::from_octets),
        _ => None,
    }
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
