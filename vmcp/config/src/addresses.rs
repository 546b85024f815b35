//! [`AddressClass`]: the part of the network that an address leads to, for SSRF guards.
//!
//! An IPv6 address can hold an IPv4 address that a translator or a tunnel on the way calls: IPv4-mapped and
//! IPv4-compatible addresses, NAT64, 6to4, Teredo, ISATAP. Such an address belongs to the class of the inner
//! address.
//!
//! [`inside`] judges a whole URL: a URL from a stranger must lead neither into the cluster nor into the
//! cloud's own network. It resolves no names, because their addresses can change afterwards (DNS rebinding):
//! [`ReachableAddresses`] judges those at each connection.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

/// Domains that only resolve inside: those of the cluster, of the cloud provider, of the local network.
const INSIDE_DOMAINS: [&str; 6] = ["localhost", "svc", "cluster.local", "local", "internal", "home.arpa"];
/// Public top-level domains in ASCII, as of the Public Suffix List of 2026; later ones read as namespaces.
static TOP_LEVEL_DOMAINS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| include_str!("addresses/top_level_domains.txt").split_ascii_whitespace().collect());
/// Public domains whose names have any address that their reader writes into them, or the loopback address.
const ADDRESS_DOMAINS: [&str; 9] = [
    "nip.io",
    "sslip.io",
    "xip.io",
    "localtest.me",
    "lvh.me",
    "vcap.me",
    "traefik.me",
    "localho.st",
    "rbndr.us",
];
/// Domain of examples (RFC 2606), which leads nowhere.
const EXAMPLE_DOMAIN: &str = "example";

/// Classes of addresses, the most public first: of two classes the greater one is the more dangerous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressClass {
    /// A host of the internet.
    Public,
    /// A host of a private network, of a provider's network (RFC 6598), of a cluster's Services, or of a test
    /// bed (RFC 2544).
    Private,
    /// This machine.
    Loopback,
    /// An address that no host has: reserved, multicast, documentation, unspecified.
    Reserved,
    /// The link itself, where the metadata services of clouds are, and their addresses elsewhere.
    LinkLocal,
}

impl AddressClass {
    /// Returns the class of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> AddressClass {
        match address.to_canonical() {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }

    /// Names the class, as the end of "leads to …".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            AddressClass::Public => "a public address",
            AddressClass::Private => "a private address",
            AddressClass::Loopback => "a loopback address",
            AddressClass::Reserved => "an address that no public host has",
            AddressClass::LinkLocal => "a link-local address, such as that of the cloud's metadata service",
        }
    }
}

/// Addresses that the host of a server may have, judged at each connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReachableAddresses {
    /// Every address.
    #[default]
    Any,
    /// Public, private and loopback addresses; no link-local one, such as those of metadata services of
    /// clouds, and no reserved one.
    Local,
    /// Public addresses.
    Public,
}

impl ReachableAddresses {
    /// Returns true if a host may have the address.
    pub fn admit(self, address: IpAddr) -> bool {
        match AddressClass::of(address) {
            AddressClass::Public => true,
            AddressClass::Private | AddressClass::Loopback => self != ReachableAddresses::Public,
            AddressClass::Reserved | AddressClass::LinkLocal => self == ReachableAddresses::Any,
        }
    }

    /// Returns the word of the setting.
    pub fn word(self) -> &'static str {
        match self {
            ReachableAddresses::Any => "any",
            ReachableAddresses::Local => "local",
            ReachableAddresses::Public => "public",
        }
    }
}

fn of_v4(address: Ipv4Addr) -> AddressClass {
    match address.octets() {
        // 168.63.129.16 is Azure's wire server, 192.0.0.192 Oracle's metadata service, 100.100.100.200
        // Alibaba's.
        [169, 254, ..] | [168, 63, 129, 16] | [192, 0, 0, 192] | [100, 100, 100, 200] => {
            AddressClass::LinkLocal
        }
        [127, ..] => AddressClass::Loopback,
        // 34.118.224.0/20 are Services of GKE.
        [10, ..]
        | [172, 16..=31, ..]
        | [192, 168, ..]
        | [100, 64..=127, ..]
        | [198, 18 | 19, ..]
        | [34, 118, 224..=239, _] => AddressClass::Private,
        // This network, protocol assignments, documentation, 6to4 relays, multicast and above.
        [0 | 224.., ..] | [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 51, 100, _] | [203, 0, 113, _] => {
            AddressClass::Reserved
        }
        _ => AddressClass::Public,
    }
}

#[expect(clippy::unnested_or_patterns, reason = "one line a prefix, as registries list them")]
fn of_v6(address: Ipv6Addr) -> AddressClass {
    let octets = address.octets();
    let v4 = |places: [usize; 4]| {
        of_v4(Ipv4Addr::from_octets(places.map(|place| octets.get(place).copied().unwrap_or_default())))
    };
    let last = [12, 13, 14, 15];
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressClass::Reserved,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressClass::Loopback,
        // IPv4-compatible (RFC 4291), IPv4-translated (RFC 2765), NAT64 (RFC 6052).
        [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => v4(last),
        // NAT64 of this network (RFC 8215): the address follows a prefix of 48, 56, 64 or 96 bits.
        [0x64, 0xff9b, 1, ..] => {
            let forms = [v4([6, 7, 9, 10]), v4([7, 9, 10, 11]), v4([9, 10, 11, 12]), v4(last)];
            forms.into_iter().fold(AddressClass::Private, |worst, class| {
                // Zero bits beside the address read as a reserved one.
                if class == AddressClass::Reserved { worst } else { worst.max(class) }
            })
        }
        // Teredo (RFC 4380): the server, and the client with its bits inverted.
        [0x2001, 0, ..] => {
            let client = Ipv4Addr::from_bits(!(address.to_bits() as u32));
            v4([4, 5, 6, 7]).max(of_v4(client))
        }
        // 6to4 (RFC 3056).
        [0x2002, ..] => v4([2, 3, 4, 5]),
        // Benchmarking, ORCHID, documentation.
        [0x2001, 2, 0, ..] | [0x2001, 0x10..=0x2f, ..] | [0x2001, 0x0db8, ..] | [0x3fff, 0..=0xfff, ..] => {
            AddressClass::Reserved
        }
        // Amazon's services of an instance, Google's metadata server.
        [0xfd00, 0x0ec2, ..] | [0xfd20, 0x00ce, ..] | [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => AddressClass::Private,
        // ISATAP (RFC 5214) of a public prefix.
        [0x2000..=0x3fff, _, _, _, interface, ..] => {
            let is_isatap =
                matches!((interface, address.segments()), (0 | 0x200, [_, _, _, _, _, 0x5efe, ..]));
            if is_isatap { v4(last) } else { AddressClass::Public }
        }
        _ => AddressClass::Reserved,
    }
}

/// Returns which part of the inside a URL leads to, as the end of "leads to …"; `None` if it leads out.
#[must_use]
pub fn inside(url: &Url) -> Option<&'static str> {
    match url.host()? {
        Host::Ipv4(address) => inside_address(address.into()),
        Host::Ipv6(address) => inside_address(address.into()),
        Host::Domain(name) => inside_name(name),
    }
}

/// Returns a description of the place if the name in the URL could lead inside, although it looks public: for
/// URLs of strangers, besides [`inside`].
///
/// A pod completes a name by the domains of its cluster: `kubernetes.default` is a Service, `NAME.NAMESPACE`.
/// A last label that is a top-level domain (`redis.tools`) cannot be told from a namespace, and passes; so
/// does a name with a dot at its end, which is complete. Some public domains answer with the address that
/// stands in the name.
#[must_use]
pub fn may_lead_inside(url: &Url) -> Option<&'static str> {
    let Host::Domain(name) = url.host()? else { return None };
    let complete = name.trim_end_matches('.');
    let is_below = |domain: &&str| {
        complete.strip_suffix(*domain).is_some_and(|front| front.is_empty() || front.ends_with('.'))
    };
    if ADDRESS_DOMAINS.iter().any(is_below) {
        return Some("an address that is written into a name");
    }
    lacks_public_domain(name).then_some("a name without a public domain, which the cluster's DNS completes")
}

/// Returns true if the host of a URL is visibly of the inside, to a person who reads the URL: an inner
/// address, a name of the local network, or one without a public domain, such as `mcp.corp`.
#[must_use]
pub fn is_visibly_inside(url: &Url) -> bool {
    inside(url).is_some() || matches!(url.host(), Some(Host::Domain(name)) if lacks_public_domain(name))
}

/// Returns true for a name with a dot whose last label is an inner one, not a public top-level domain. A dot
/// at the end makes a name complete.
fn lacks_public_domain(name: &str) -> bool {
    let Some((_, last)) = name.rsplit_once('.') else { return false };
    !(last.is_empty()
        || last.starts_with("xn--")
        || TOP_LEVEL_DOMAINS.contains(last)
        || last == EXAMPLE_DOMAIN)
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

    #[test]
    fn addresses_of_the_link_are_for_servers_that_may_have_every_address() {
        use ReachableAddresses::{Any, Local, Public};
        for (address, narrowest) in [
            ("8.8.8.8", Public),
            ("2001:4860:4860::8888", Public),
            ("10.0.0.1", Local),
            ("34.118.224.1", Local),
            ("34.118.223.255", Public),
            ("34.118.240.0", Public),
            ("127.0.0.1", Local),
            ("::1", Local),
            ("fd00::1", Local),
            ("::ffff:192.168.0.1", Local),
            ("169.254.169.254", Any),
            ("64:ff9b::a9fe:a9fe", Any),
            ("fd00:ec2::254", Any),
            ("0.0.0.0", Any),
            ("224.0.0.1", Any),
        ] {
            let parsed: IpAddr = address.parse().unwrap();
            let found = [Any, Local, Public].into_iter().rfind(|setting| setting.admit(parsed));
            assert_eq!(found, Some(narrowest), "{address}");
        }
    }

    #[test]
    fn every_spelling_of_an_inner_address_has_the_class_of_that_address() {
        use AddressClass::{LinkLocal, Loopback, Private, Public, Reserved};
        for (class, addresses) in [
            (
                LinkLocal,
                &[
                    "169.254.169.254",
                    "168.63.129.16",
                    "192.0.0.192",
                    "100.100.100.200",
                    "fe80::1",
                    "fd00:ec2::254",
                    "fd00:ec2::23",
                    "fd20:ce::254",
                    "::ffff:169.254.169.254",
                    "::169.254.169.254",
                    "::ffff:0:169.254.169.254",
                    "64:ff9b::a9fe:a9fe",
                    "64:ff9b:1:a9fe:a9:fe00::",
                    "64:ff9b:1::a9fe:a9fe",
                    "64:ff9b:1:ff:a9:fea9:fe00::",
                    "2002:a9fe:a9fe::1",
                    "2001:0:a9fe:a9fe::1",
                    "2001:0:808:808:0:0:5601:5601",
                    "2600::5efe:a9fe:a9fe",
                ][..],
            ),
            (Loopback, &["127.0.0.1", "127.9.9.9", "::1", "::7f00:1", "2002:7f00:1::1", "64:ff9b::7f00:1"]),
            (
                Private,
                &[
                    "10.0.0.1",
                    "172.16.0.1",
                    "172.31.0.1",
                    "192.168.1.1",
                    "100.64.0.1",
                    "198.18.0.1",
                    "198.19.255.255",
                    "fd00::1",
                    "fec0::1",
                    "64:ff9b:1::808:808",
                    "::10.0.0.1",
                    "2002:a00:1::",
                ],
            ),
            (
                Reserved,
                &[
                    "0.0.0.0",
                    "0.1.2.3",
                    "192.0.0.1",
                    "192.0.2.1",
                    "198.51.100.1",
                    "203.0.113.1",
                    "224.0.0.1",
                    "240.0.0.1",
                    "255.255.255.255",
                    "::",
                    "2001:db8::1",
                    "2001:2::1",
                    "3fff::1",
                    "ff02::1",
                    "4000::1",
                    "100::1",
                ],
            ),
            (
                Public,
                &[
                    "8.8.8.8",
                    "172.32.0.1",
                    "100.128.0.1",
                    "2606:4700:4700::1111",
                    "64:ff9b::808:808",
                    "2002:808:808::1",
                ],
            ),
        ] {
            for address in addresses {
                assert_eq!(AddressClass::of(address.parse().unwrap()), class, "{address}");
            }
        }
    }

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

    #[test]
    fn names_that_may_lead_inside_are_told_from_public_ones() {
        let leads = |url: &str| may_lead_inside(&Url::parse(url).unwrap()).is_some();
        for url in [
            "https://kubernetes.default/",
            "https://KUBERNETES.Default:443/",
            "http://redis.payments:6379/",
            "http://redis-0.redis.payments/",
            "http://metrics-server.kube-system/",
            "http://10-0-0-1.team.pod/",
            "http://a.team1/",
            "http://nas.lan/",
            "http://169.254.169.254.nip.io/latest",
            "http://a9fea9fe.nip.io/",
            "https://10-0-0-1.sslip.io./mcp",
            "http://LocalTest.me:8080/",
        ] {
            assert!(leads(url), "{url}");
        }
        for url in [
            "https://mcp.example.com/",
            "https://mcp.example/",
            "https://api.example.co.uk/",
            "https://tool.dev/",
            "https://notnip.io/",
            "https://nip.io.example.com/",
            "https://xn--bcher-kva.example/",
            "https://a.xn--p1ai/",
            "https://kubernetes.default./",
            "http://10.0.0.1/",
            "http://kubernetes/",
        ] {
            assert!(!leads(url), "{url}");
        }
        assert!(TOP_LEVEL_DOMAINS.len() > 1_000);
    }
}
