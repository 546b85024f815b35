//! The address of a client behind proxies: the last address of `Forwarded` (RFC 7239) or `X-Forwarded-For`
//! outside of the trusted proxies.
//!
//! Both headers grow at their end, and only trusted proxies write the truth: the list is read from right to
//! left, and ends at the first address outside of their networks. A client may write anything before that.

use std::net::{IpAddr, SocketAddr};

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Returns the address of the client whose request arrived from `peer`.
pub(super) fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let is_trusted = |address: &IpAddr| {
        let address = address.to_canonical();
        trusted.iter().any(|network| network.contains(&address))
    };
    if trusted.is_empty() || !is_trusted(&peer) {
        return peer;
    }
    let mut client = peer;
    for hop in hops(headers).into_iter().rev() {
        // Beyond a hop that hides its address, or writes none, nothing is known.
        let Some(address) = hop else { break };
        client = address;
        if !is_trusted(&client) {
            break;
        }
    }
    client.to_canonical()
}

/// Returns the hops in the order in which they were written; `None` for one without an address. `Forwarded`
/// wins: a proxy that writes it may pass the other header on as the client wrote it.
fn hops(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let listed = |name: &HeaderName| {
        let values = headers.get_all(name).iter();
        let text = values.map(|value| value.to_str().unwrap_or_default());
        text.flat_map(|text| text.split(',')).map(str::to_owned).collect::<Vec<_>>()
    };
    let forwarded = listed(&FORWARDED);
    if !forwarded.is_empty() {
        return forwarded.iter().map(|element| of_element(element)).collect();
    }
    listed(&X_FORWARDED_FOR).iter().map(|address| parse(address)).collect()
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
    fn a_client_that_is_no_proxy_cannot_choose_its_address() {
        let headers = HeaderMap::from_iter([(X_FORWARDED_FOR, "127.0.0.1".parse().unwrap())]);
        let peer: IpAddr = "198.51.100.7".parse().unwrap();
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        assert_eq!(client_address(peer, &headers, &trusted), peer);
        assert_eq!(client_address("10.0.0.1".parse().unwrap(), &headers, &[]).to_string(), "10.0.0.1");
    }
}
