//! [`Direct`]: hosts that are reached without a proxy.

use std::net::IpAddr;

use ipnet::IpNet;

/// Hosts that are reached without a proxy: those of this machine and of the cluster, and those of `NO_PROXY`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Direct {
    entries: Vec<Entry>,
    /// True in a pod, where a name without a dot is a Service of the same namespace.
    in_pod: bool,
}

/// One entry of `NO_PROXY`, with the port that it is limited to.
#[derive(Debug, Clone)]
struct Entry {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Debug, Clone)]
enum Hosts {
    All,
    Address(IpAddr),
    Network(IpNet),
    /// A name without a leading dot, and all names below it.
    Domain(String),
}

impl Direct {
    /// Reads `NO_PROXY`: entries separated by commas or white space.
    pub(crate) fn new(no_proxy: &str, in_pod: bool) -> Self {
        let entries = no_proxy.split(|c: char| c == ',' || c.is_whitespace());
        Self { entries: entries.filter_map(Entry::parse).collect(), in_pod }
    }

    /// True if the host, as a URL writes it, is reached without a proxy.
    pub(crate) fn contains(&self, host: &str, port: u16) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let address = name.parse::<IpAddr>().ok().map(|address| address.to_canonical());
        let is_near = match address {
            Some(address) => is_near(address),
            None => self.is_near_name(&name),
        };
        is_near || self.entries.iter().any(|entry| entry.contains(&name, address, port))
    }

    fn is_near_name(&self, name: &str) -> bool {
        let below = |suffix: &str| {
            name.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        below("localhost") || below("svc") || below("cluster.local") || (self.in_pod && !name.contains('.'))
    }
}

/// True for an address that a proxy elsewhere cannot mean: of this machine, or of this very network link.
fn is_near(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    address.is_loopback() || address.is_unspecified() || is_link_local
}

impl Entry {
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        if text == "*" {
            return Some(Self { hosts: Hosts::All, port: None });
        }
        if let Ok(network) = text.parse() {
            return Some(Self { hosts: Hosts::Network(network), port: None });
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self { hosts: Hosts::Address(address.to_canonical()), port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().ok()?)),
            _ => (text, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = host.parse::<IpAddr>() {
            return Some(Self { hosts: Hosts::Address(address.to_canonical()), port });
        }
        // `.example.com` and `*.example.com` are `example.com` here, as for curl.
        let name = host.trim_start_matches('*').trim_start_matches('.').trim_end_matches('.');
        (!name.is_empty()).then(|| Self { hosts: Hosts::Domain(name.to_ascii_lowercase()), port })
    }

    fn contains(&self, name: &str, address: Option<IpAddr>, port: u16) -> bool {
        if self.port.is_some_and(|only| only != port) {
            return false;
        }
        match (&self.hosts, address) {
            (Hosts::All, _) => true,
            (Hosts::Address(entry), Some(address)) => *entry == address,
            (Hosts::Network(entry), Some(address)) => entry.contains(&address),
            (Hosts::Domain(domain), None) => {
                name.strip_suffix(domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_and_the_cluster_need_no_entry() {
        let (laptop, pod) = (Direct::new("", false), Direct::new("", true));
        for host in [
            "localhost",
            "LOCALHOST.",
            "app.localhost",
            "127.0.0.1",
            "127.9.9.9",
            "[::1]",
            "::ffff:127.0.0.1",
            "0.0.0.0",
            "169.254.169.254",
            "mcp.tools.svc",
            "mcp.tools.svc.cluster.local",
            "mcp.tools.svc.cluster.local.",
        ] {
            assert!(laptop.contains(host, 80), "{host}");
        }
        for host in ["example.com", "10.0.0.1", "[2001:db8::1]", "notlocalhost", "mysvc", "svc.example.com"] {
            assert!(!laptop.contains(host, 80), "{host}");
        }
        assert!(pod.contains("embeddings", 80) && !pod.contains("example.com", 80));
    }

    #[test]
    fn entries_are_hosts_suffixes_networks_and_ports() {
        let direct = Direct::new(
            "corp.example, .dot.example,*.star.example 10.0.0.0/8,192.168.1.7,fd00::/8,[2001:db8::1],port.example:8443,A.B",
            false,
        );
        for host in [
            "corp.example",
            "CORP.example.",
            "a.b.corp.example",
            "dot.example",
            "x.dot.example",
            "x.star.example",
            "10.1.2.3",
            "::ffff:10.1.2.3",
            "192.168.1.7",
            "[fd12::1]",
            "[2001:db8::1]",
            "x.a.b",
        ] {
            assert!(direct.contains(host, 443), "{host}");
        }
        for host in ["notcorp.example", "example", "11.0.0.1", "192.168.1.8", "[2001:db8::2]", "port.example"]
        {
            assert!(!direct.contains(host, 443), "{host}");
        }
        assert!(direct.contains("port.example", 8443));
        assert!(Direct::new("*", false).contains("example.com", 443));
        assert!(!Direct::new(" , ,", false).contains("example.com", 443));
    }
}
