//! [`HostGuard`]: `Host` and `Origin` rules of the client port, against DNS rebinding.
//!
//! A page in a browser can make its visitor's machine connect to a server on loopback (DNS rebinding). On
//! loopback vmcp therefore answers only to loopback names, and only to pages served from them. On any other
//! address the names that a cluster gives to vmcp are not knowable, so `Host` is free unless
//! `server.allowedHosts` is set, while a page must still come from the host it talks to or from
//! `server.allowedOrigins`.

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};
use std::net::SocketAddr;

/// The rules of one listening address.
#[derive(Debug, Clone)]
pub(crate) struct HostGuard {
    loopback: bool,
    allowed_hosts: Vec<String>,
    allowed_origins: Vec<String>,
}

/// A refused request; answered with HTTP 403.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GuardRefusal {
    /// The `Host` header names a host that is not served.
    #[error("host `{0}` is not served here; add it to server.allowedHosts")]
    Host(String),
    /// The page that sent the request has a foreign origin.
    #[error("origin `{0}` is not allowed; add it to server.allowedOrigins")]
    Origin(String),
}

impl HostGuard {
    /// Creates the rules of a listener at `address`. Hosts are compared without their port, origins whole.
    pub(crate) fn new(address: SocketAddr, allowed_hosts: &[String], allowed_origins: &[String]) -> Self {
        let lower = |list: &[String]| list.iter().map(|entry| entry.to_ascii_lowercase()).collect();
        Self {
            loopback: address.ip().is_loopback(),
            allowed_hosts: lower(allowed_hosts),
            allowed_origins: lower(allowed_origins),
        }
    }

    /// Checks the `Host` and `Origin` headers of a request. A request without them passes: no browser sends
    /// one.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), GuardRefusal> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(HOST);
        if let Some(host) = host
            && !self.host_is_ours(without_port(host))
        {
            return Err(GuardRefusal::Host(host.to_ascii_lowercase()));
        }
        match text(ORIGIN).map(str::to_ascii_lowercase) {
            Some(origin) if !self.origin_is_ours(&origin, host) => Err(GuardRefusal::Origin(origin)),
            _ => Ok(()),
        }
    }

    /// Returns true if `host` (without its port) is allowed.
    fn host_is_ours(&self, host: &str) -> bool {
        let is_host = |allowed: &str| allowed.eq_ignore_ascii_case(host);
        if self.allowed_hosts.iter().any(|allowed| is_host(allowed) || is_host(without_port(allowed))) {
            return true;
        }
        if self.loopback { is_loopback_name(host) } else { self.allowed_hosts.is_empty() }
    }

    /// Returns true if pages of `origin` may call this server.
    fn origin_is_ours(&self, origin: &str, host: Option<&str>) -> bool {
        if self.allowed_origins.iter().any(|allowed| allowed == origin || allowed == "*") {
            return true;
        }
        let Some((_, authority)) = origin.split_once("://") else { return false };
        if self.loopback {
            is_loopback_name(without_port(authority))
        } else {
            host.is_some_and(|host| host.eq_ignore_ascii_case(authority))
        }
    }
}

/// Returns true for `localhost` and loopback addresses.
fn is_loopback_name(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host == "[::1]"
        || host.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
}

/// Cuts the port off: `example.com:80` → `example.com`, `[::1]:80` → `[::1]`.
fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(':') => {
            if host.contains(':') && !host.ends_with(']') {
                authority
            } else {
                host
            }
        }
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(guard: &HostGuard, host: &str, origin: Option<&str>) -> Result<(), GuardRefusal> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        guard.check(&headers)
    }

    #[test]
    fn on_loopback_only_loopback_names_and_pages_are_served() {
        let guard = HostGuard::new("127.0.0.1:8080".parse().unwrap(), &[], &[]);
        for host in ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:8080"] {
            assert_eq!(check(&guard, host, None), Ok(()), "{host}");
        }
        assert_eq!(check(&guard, "localhost", Some("http://localhost:6274")), Ok(()));
        assert_eq!(check(&guard, "evil.example", None), Err(GuardRefusal::Host("evil.example".into())));
        assert!(check(&guard, "localhost", Some("http://evil.example")).is_err());
        assert!(check(&guard, "localhost", Some("null")).is_err());
        assert!(check(&guard, "127.0.0.1.evil.example", None).is_err());
    }

    #[test]
    fn elsewhere_any_name_is_served_until_a_list_is_given_but_pages_must_be_our_own() {
        let open = HostGuard::new("0.0.0.0:8080".parse().unwrap(), &[], &["https://app.example".into()]);
        assert_eq!(check(&open, "vmcp.team.svc.cluster.local:8080", None), Ok(()));
        assert_eq!(check(&open, "vmcp:8080", Some("http://vmcp:8080")), Ok(()));
        assert_eq!(check(&open, "vmcp:8080", Some("https://app.example")), Ok(()));
        assert!(check(&open, "vmcp:8080", Some("http://other:8080")).is_err());
        let strict = HostGuard::new("0.0.0.0:8080".parse().unwrap(), &["vmcp.example".into()], &[]);
        assert_eq!(check(&strict, "vmcp.example:443", None), Ok(()));
        assert!(check(&strict, "other.example", None).is_err());
    }
}
