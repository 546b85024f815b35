//! The address of a client behind proxies: the last address of `Forwarded` (RFC 7239) or `X-Forwarded-For`
//! outside of the trusted proxies.
//!
//! Both headers grow at their end, and only trusted proxies write the truth: the list is read from right to
//! left, and ends at the first address outside of their networks. A client may write anything before that.
//! Most proxies write one of the headers and pass on the other as the client wrote it, so that two headers
//! which differ tell no address. A request that came through a proxy on this machine tells none either,
//! unless the proxy is trusted and writes one of the two.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

use crate::transport::request_headers::came_through_proxy;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The address of a client whose address is unknown. Clients on the server's machine have more rights than
/// others, so the address of a proxy there is no substitute.
const UNKNOWN: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Returns the address of the client whose request arrived from `peer`.
pub(super) fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let is_trusted = |address: &IpAddr| {
        let address = address.to_canonical();
        trusted.iter().any(|network| network.contains(&address))
    };
    // A proxy or a tunnel on this machine, whose clients are anywhere.
    let is_local_proxy = || peer.to_canonical().is_loopback() && came_through_proxy(headers);
    let nearest = || if is_local_proxy() { UNKNOWN } else { peer };
    if trusted.is_empty() || !is_trusted(&peer) {
        return nearest();
    }
    let of_forwarded = hops(headers, &FORWARDED, of_element);
    let of_other = hops(headers, &X_FORWARDED_FOR, parse);
    let client = match [of_forwarded, of_other].map(|hops| Some(first_stranger(peer, &hops?, is_trusted))) {
        [None, None] => nearest(),
        [Some(client), None] | [None, Some(client)] => client,
        [Some(client), Some(other)] if client == other => client,
        [Some(_), Some(_)] => UNKNOWN,
    };
    client.to_canonical()
}

/// Returns the last hop outside of the trusted proxies.
fn first_stranger(peer: IpAddr, hops: &[Option<IpAddr>], is_trusted: impl Fn(&IpAddr) -> bool) -> IpAddr {
    let mut client = peer.to_canonical();
    for hop in hops.iter().rev() {
        // A loopback address that a proxy elsewhere names is one of that proxy's machine.
        let is_known = |address: &IpAddr| client.is_loopback() || !address.is_loopback();
        // Beyond a hop that hides its address, or writes none, nothing is known.
        let Some(address) = hop.as_ref().map(IpAddr::to_canonical).filter(is_known) else {
            return if client.is_loopback() { UNKNOWN } else { client };
        };
        client = address;
        if !is_trusted(&client) {
            break;
        }
    }
    client
}

/// Returns the hops of a header in the order in which they were written, `None` for one without an address;
/// `None` without the header.
fn hops(
    headers: &HeaderMap,
    name: &HeaderName,
    read: fn(&str) -> Option<IpAddr>,
) -> Option<Vec<Option<IpAddr>>> {
    let values = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default());
    let hops: Vec<_> = values.flat_map(|text| text.split(',')).map(read).collect();
    (!hops.is_empty()).then_some(hops)
}

/// Returns the address of `for=` in an element such as `for="[2001:db8::1]:4711";proto=https`.
fn of_element(element: &str) -> Option<IpAddr> {
    let pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let mut values =
        pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("for")).map(|(_, value)| value);
    parse(values.next()?.trim().trim_matches('"'))
}

/// Reads an address with or without brackets and a port.
fn parse(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(header: &str, values: &[&str]) -> String {
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().unwrap());
        let name = HeaderName::try_from(header).unwrap();
        let headers = values.iter().map(|value| (name.clone(), value.parse().unwrap())).collect();
        client_address("10.0.0.1".parse().unwrap(), &headers, &trusted).to_string()
    }

    #[test]
    fn the_list_is_read_from_the_right_up_to_the_first_stranger() {
        for (values, client) in [
            (&["198.51.100.7"][..], "198.51.100.7"),
            (&["198.51.100.7, 10.0.0.9"], "198.51.100.7"),
            (&["1.1.1.1, 198.51.100.7, 10.0.0.9"], "198.51.100.7"),
            (&["1.1.1.1", "198.51.100.7"], "198.51.100.7"),
            (&["10.0.0.9"], "10.0.0.9"),
            (&["1.1.1.1, unknown"], "10.0.0.1"),
            (&["198.51.100.7:4711"], "198.51.100.7"),
            (&["[2001:db8::1]:4711"], "2001:db8::1"),
            (&["::ffff:198.51.100.7"], "198.51.100.7"),
            (&[], "10.0.0.1"),
        ] {
            assert_eq!(seen("x-forwarded-for", values), client, "{values:?}");
        }
        let element = r#"for=1.1.1.1, For="[2001:db8::1]:4711";proto=https, for=10.2.3.4"#;
        assert_eq!(seen("forwarded", &[element]), "2001:db8::1");
        assert_eq!(seen("forwarded", &["for=1.1.1.1, for=_hidden"]), "10.0.0.1");
    }

    #[test]
    fn a_client_of_a_proxy_on_this_machine_is_no_client_on_this_machine() {
        let seen = |peer: &str, header: &str, trusted: &[IpNet]| {
            let name = HeaderName::try_from(header).unwrap();
            let headers = HeaderMap::from_iter([(name, "1.1 tunnel".parse().unwrap())]);
            client_address(peer.parse().unwrap(), &headers, trusted).to_string()
        };
        let others = ["10.0.0.0/8".parse().unwrap()];
        for header in ["forwarded", "via", "x-forwarded-for", "x-forwarded-prefix", "x-real-ip"] {
            for trusted in [&[][..], &others] {
                assert_eq!(seen("127.0.0.1", header, trusted), "0.0.0.0", "{header}");
                assert_eq!(seen("::1", header, trusted), "0.0.0.0", "{header}");
                assert_eq!(seen("198.51.100.7", header, trusted), "198.51.100.7", "{header}");
            }
        }
        assert_eq!(seen("127.0.0.1", "accept", &[]), "127.0.0.1");
        // A trusted proxy that tells its client in neither of the two headers.
        let local: [IpNet; 1] = ["127.0.0.0/8".parse().unwrap()];
        for header in ["via", "x-real-ip"] {
            assert_eq!(seen("127.0.0.1", header, &local), "0.0.0.0", "{header}");
        }
        assert_eq!(seen("127.0.0.1", "accept", &local), "127.0.0.1");
    }

    #[test]
    fn a_loopback_address_of_another_machine_is_no_address_of_this_one() {
        let client = |peer: &str, hops: &'static str| {
            let trusted = ["10.0.0.0/8", "127.0.0.0/8"].map(|network| network.parse().unwrap());
            let headers = HeaderMap::from_iter([(X_FORWARDED_FOR, hops.parse().unwrap())]);
            client_address(peer.parse().unwrap(), &headers, &trusted).to_string()
        };
        for (peer, hops, seen) in [
            ("10.0.0.1", "127.0.0.1", "10.0.0.1"),
            ("10.0.0.1", "198.51.100.7, ::ffff:127.0.0.1", "10.0.0.1"),
            ("127.0.0.1", "127.0.0.1, 10.0.0.9", "10.0.0.9"),
            ("127.0.0.1", "198.51.100.7, 127.0.0.1", "198.51.100.7"),
            ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ] {
            assert_eq!(client(peer, hops), seen, "{peer}: {hops}");
        }
    }

    #[test]
    fn a_client_chooses_no_address_by_the_header_that_its_proxy_passes_on() {
        let seen = |peer: &str, forwarded: &'static str, other: &'static str| {
            let trusted = ["10.0.0.0/8", "127.0.0.0/8"].map(|network| network.parse().unwrap());
            let headers = [(FORWARDED, forwarded), (X_FORWARDED_FOR, other)];
            let headers = headers.map(|(name, value)| (name, value.parse().unwrap()));
            client_address(peer.parse().unwrap(), &HeaderMap::from_iter(headers), &trusted).to_string()
        };
        for peer in ["10.0.0.1", "127.0.0.1"] {
            // The proxy has written one header, and the client the other.
            for chosen in ["for=127.0.0.1", "for=203.0.113.9", "for=unknown", "", "for=", "for=1.1.1.1, x"] {
                assert_eq!(seen(peer, chosen, "198.51.100.7"), "0.0.0.0", "{peer}: {chosen}");
            }
            for chosen in ["127.0.0.1", "203.0.113.9", "unknown", "", ",", "203.0.113.9,,"] {
                assert_eq!(seen(peer, "for=198.51.100.7", chosen), "0.0.0.0", "{peer}: {chosen}");
            }
            assert_eq!(seen(peer, "for=1.1.1.1, for=198.51.100.7", "2.2.2.2, 198.51.100.7"), "198.51.100.7");
        }
        assert_eq!(seen("127.0.0.1", "for=_hidden", "unknown"), "0.0.0.0", "a hidden client is no local one");
    }

    #[test]
    fn a_client_that_is_no_proxy_cannot_choose_its_address() {
        let headers = HeaderMap::from_iter([(X_FORWARDED_FOR, "127.0.0.1".parse().unwrap())]);
        let peer: IpAddr = "198.51.100.7".parse().unwrap();
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        assert_eq!(client_address(peer, &headers, &trusted), peer);
        assert_eq!(client_address("10.0.0.1".parse().unwrap(), &headers, &[]).to_string(), "10.0.0.1");
    }
}
