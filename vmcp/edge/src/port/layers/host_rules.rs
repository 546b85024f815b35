//! [`HostRules`]: refuses hosts and origins that are not served, against DNS rebinding.
//!
//! A page in a browser can make its visitor's machine connect to a server on loopback (DNS rebinding). On
//! loopback vmcp therefore answers only to loopback names, and only to pages served from them. On any other
//! address the names that a cluster gives to vmcp are not knowable, so `Host` is free unless
//! `server.allowedHosts` is set, while a page must still come from the host it talks to or from
//! `server.allowedOrigins`. Where clients need no credentials, a name of the public DNS is no such host:
//! its owner can bind it to any address.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, StatusCode, Uri, Version};
use vmcp_wire::codes;

use super::read_body::refuse_unread;
use crate::registry_api::RegistryApi;
use crate::transport::http::exchange::{Arrival, PlainApi as _, Response, Service};
use crate::transport::http::refuse::error_response;
use vmcp_engine::telemetry::metrics::{Metrics, RefusalLabels};

/// The rules of one listening address.
#[derive(Debug, Clone)]
pub(crate) struct HostGuard {
    loopback: bool,
    allowed_hosts: Vec<String>,
    allowed_origins: Vec<String>,
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GuardRefusal {
    /// A `Host` header is missing from HTTP/1.1, given twice, or no text; answered with HTTP 400.
    #[error("send exactly one Host header, of ASCII characters")]
    Malformed,
    /// The request names a host that is not served; answered with HTTP 403.
    #[error("host `{0}` is not served here; add it to server.allowedHosts")]
    Host(String),
    /// The page that sent the request has a foreign origin; answered with HTTP 403.
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

    /// Returns these rules with one more host and one more origin.
    pub(crate) fn with(&self, host: &str, origin: &str) -> HostGuard {
        let mut rules = self.clone();
        rules.allowed_hosts.push(host.to_ascii_lowercase());
        rules.allowed_origins.push(origin.to_ascii_lowercase());
        rules
    }

    /// Checks the host and the origin of a request. The host is in the `Host` header, in `:authority` of
    /// HTTP/2 or in an absolute URI; where several name one, all must be served. A request without `Origin`
    /// passes: browsers send it with everything but plain GETs.
    pub(crate) fn check(&self, version: Version, uri: &Uri, headers: &HeaderMap) -> Result<(), GuardRefusal> {
        let named = single(headers, &HOST).map_err(|()| GuardRefusal::Malformed)?;
        let authority = uri.authority().map(Authority::as_str);
        if version == Version::HTTP_11 && named.is_none() {
            return Err(GuardRefusal::Malformed);
        }
        for host in named.into_iter().chain(authority) {
            if !self.host_is_ours(without_port(host)) {
                return Err(GuardRefusal::Host(host.to_ascii_lowercase()));
            }
        }
        let unreadable = |()| GuardRefusal::Origin("(several, or not ASCII)".to_owned());
        match single(headers, &ORIGIN).map_err(unreadable)?.map(str::to_ascii_lowercase) {
            Some(origin) if !self.origin_is_ours(&origin, authority.or(named)) => {
                Err(GuardRefusal::Origin(origin))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a page whose origin equals the host only because its owner has bound the name to this server
    /// (DNS rebinding). A page of `https` had to prove its name.
    pub(crate) fn check_rebinding(&self, headers: &HeaderMap) -> Result<(), GuardRefusal> {
        let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
        let origin = origin.map(str::to_ascii_lowercase).unwrap_or_default();
        let is_listed = !self.allowed_hosts.is_empty()
            || self.allowed_origins.iter().any(|allowed| *allowed == origin || allowed == "*");
        let is_named = origin.strip_prefix("http://").is_some_and(|host| may_be_rebound(without_port(host)));
        if is_named && !is_listed { Err(GuardRefusal::Origin(origin)) } else { Ok(()) }
    }

    /// Returns true if the registry is open to `origin`, in lower case. IDEs read it from origins of their
    /// own, such as `vscode-file://vscode-app`, which no page of the web has. On a network, pages of the web
    /// read it too; on loopback they would read their visitor's machine.
    fn may_read_registry(&self, origin: &str) -> bool {
        match origin.split_once("://") {
            Some(("http" | "https", _)) | None => !self.loopback,
            Some(_) => true,
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

    /// Returns true if pages of `origin` may call this server, which they reach as `host`. TLS may end at a
    /// proxy, so both schemes of pages fit.
    fn origin_is_ours(&self, origin: &str, host: Option<&str>) -> bool {
        if self.allowed_origins.iter().any(|allowed| allowed == origin || allowed == "*") {
            return true;
        }
        let Some(("http" | "https", authority)) = origin.split_once("://") else { return false };
        if self.loopback {
            is_loopback_name(without_port(authority))
        } else {
            host.is_some_and(|host| host.eq_ignore_ascii_case(authority))
        }
    }
}

/// Returns the value of a header; an error if it is given twice or no ASCII.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        _ => Err(()),
    }
}

/// Returns true for `localhost` and loopback addresses.
fn is_loopback_name(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host == "[::1]"
        || host.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
}

/// Ends of names that the public DNS never has (RFC 6761, RFC 6762, ICANN's `internal`); those of a cluster
/// end with `cluster.local` or `svc`.
const PRIVATE_ENDS: [&str; 4] = [".localhost", ".local", ".internal", ".svc"];

/// Returns true for a host, in lower case, whose address its owner chooses in the public DNS: neither an
/// address, nor a name of one label, nor a name of private networks.
fn may_be_rebound(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    let is_address = host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok();
    !is_address && host.contains('.') && !PRIVATE_ENDS.iter().any(|end| host.ends_with(end))
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

/// The layer that applies a [`HostGuard`].
pub(crate) struct HostRules<S> {
    guard: HostGuard,
    metrics: Arc<Metrics>,
    inner: S,
}

impl<S> HostRules<S> {
    /// Passes requests that `guard` admits to `inner`.
    pub(crate) fn new(guard: HostGuard, metrics: Arc<Metrics>, inner: S) -> Self {
        Self { guard, metrics, inner }
    }
}

impl<S: Service<Arrival>> Service<Arrival> for HostRules<S> {
    async fn call(&self, arrival: Arrival) -> Response {
        let Parts { version, uri, headers, .. } = &*arrival.head;
        let mut checked = self.guard.check(*version, uri, headers);
        if arrival.snapshot.authentication.is_anonymous() {
            checked = checked.and_then(|()| self.guard.check_rebinding(headers));
        }
        let refusal = match checked {
            Ok(()) => return self.inner.call(arrival).await,
            Err(GuardRefusal::Origin(origin))
                if RegistryApi::serves(&arrival.snapshot.config, uri.path())
                    && self.guard.may_read_registry(&origin) =>
            {
                return self.inner.call(arrival).await;
            }
            Err(refusal) => refusal,
        };
        let reason = match refusal {
            GuardRefusal::Malformed | GuardRefusal::Host(_) => "host",
            GuardRefusal::Origin(_) => "origin",
        };
        self.metrics.client_requests_refused.get_or_create(&RefusalLabels { reason }).inc();
        let status = match refusal {
            GuardRefusal::Malformed => StatusCode::BAD_REQUEST,
            GuardRefusal::Host(_) | GuardRefusal::Origin(_) => StatusCode::FORBIDDEN,
        };
        let response = error_response(status, None, codes::INVALID_REQUEST, &refusal.to_string());
        refuse_unread(arrival, response)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(guard: &HostGuard, host: &str, origin: Option<&str>) -> Result<(), GuardRefusal> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_bytes(host.as_bytes()).unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_bytes(origin.as_bytes()).unwrap());
        }
        guard.check(Version::HTTP_11, &Uri::from_static("/mcp"), &headers)
    }

    #[test]
    fn on_loopback_only_loopback_names_and_pages_are_served() {
        let guard = HostGuard::new("127.0.0.1:8080".parse().unwrap(), &[], &[]);
        for host in ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:8080"] {
            assert_eq!(check(&guard, host, None), Ok(()), "{host}");
        }
        assert_eq!(check(&guard, "localhost", Some("http://localhost:6274")), Ok(()));
        assert_eq!(check(&guard, "evil.example", None), Err(GuardRefusal::Host("evil.example".into())));
        for origin in ["http://evil.example", "null", "chrome-extension://localhost", "://localhost"] {
            assert!(matches!(check(&guard, "localhost", Some(origin)), Err(GuardRefusal::Origin(_))));
        }
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

    #[test]
    fn a_page_whose_name_was_bound_to_this_server_is_no_page_of_it() {
        let rebound = |guard: &HostGuard, host: &'static str, origin: &'static str| {
            let headers = [(HOST, host), (ORIGIN, origin)];
            let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
            let (uri, headers) = (Uri::from_static("/mcp"), HeaderMap::from_iter(headers));
            assert_eq!(guard.check(Version::HTTP_11, &uri, &headers), Ok(()), "{origin}");
            guard.check_rebinding(&headers).is_err()
        };
        let open = HostGuard::new("0.0.0.0:8080".parse().unwrap(), &[], &[]);
        for (host, origin) in [
            ("evil.example:8080", "http://evil.example:8080"),
            ("EVIL.example", "http://Evil.EXAMPLE"),
            ("evil.example.", "http://evil.example."),
            ("127.0.0.1.evil.example", "http://127.0.0.1.evil.example"),
        ] {
            assert!(rebound(&open, host, origin), "{origin}");
        }
        for (host, origin) in [
            ("vmcp:8080", "http://vmcp:8080"),
            ("192.168.1.5:8080", "http://192.168.1.5:8080"),
            ("[fd00::1]:8080", "http://[fd00::1]:8080"),
            ("vmcp.team.svc.cluster.local", "http://vmcp.team.svc.cluster.local"),
            ("vmcp.team.svc", "http://vmcp.team.svc"),
            ("tools.example", "https://tools.example"),
        ] {
            assert!(!rebound(&open, host, origin), "{origin}");
        }
        let named = HostGuard::new("0.0.0.0:8080".parse().unwrap(), &["tools.example".into()], &[]);
        assert!(!rebound(&named, "tools.example", "http://tools.example"));
        let listed = HostGuard::new("0.0.0.0:8080".parse().unwrap(), &[], &["http://tools.example".into()]);
        assert!(!rebound(&listed, "tools.example", "http://tools.example"));
        assert_eq!(open.check_rebinding(&HeaderMap::new()), Ok(()));
    }

    #[test]
    fn an_ide_reads_the_registry_and_a_page_not_on_its_visitors_machine() {
        let loopback = HostGuard::new("127.0.0.1:8080".parse().unwrap(), &[], &[]);
        let network = HostGuard::new("0.0.0.0:8080".parse().unwrap(), &[], &[]);
        for (origin, on_loopback) in
            [("vscode-file://vscode-app", true), ("https://evil.example", false), ("null", false)]
        {
            assert_eq!(loopback.may_read_registry(origin), on_loopback, "{origin}");
            assert!(network.may_read_registry(origin), "{origin}");
        }
    }

    #[test]
    fn every_place_that_names_the_host_is_looked_at() {
        let guard = HostGuard::new("127.0.0.1:8080".parse().unwrap(), &[], &[]);
        let ours = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost"))]);
        let evil = Uri::from_static("http://evil.example/mcp");
        let refused = Err(GuardRefusal::Host("evil.example".into()));
        assert_eq!(guard.check(Version::HTTP_2, &evil, &HeaderMap::new()), refused, ":authority");
        assert_eq!(guard.check(Version::HTTP_11, &evil, &ours), refused, "an absolute URI");
        let here = Uri::from_static("http://localhost:8080/mcp");
        assert_eq!(guard.check(Version::HTTP_2, &here, &HeaderMap::new()), Ok(()));
        let elsewhere = HostGuard::new("0.0.0.0:8080".parse().unwrap(), &[], &[]);
        let page = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static("http://vmcp:8080"))]);
        let vmcp = Uri::from_static("http://vmcp:8080/mcp");
        assert_eq!(elsewhere.check(Version::HTTP_2, &vmcp, &page), Ok(()), "a page's own origin over HTTP/2");
    }

    #[test]
    fn a_host_that_is_missing_doubled_or_no_text_is_malformed() {
        let guard = HostGuard::new("0.0.0.0:8080".parse().unwrap(), &[], &[]);
        let uri = Uri::from_static("/mcp");
        let two = HeaderMap::from_iter(["a", "b"].map(|host| (HOST, HeaderValue::from_static(host))));
        for headers in [HeaderMap::new(), two.clone()] {
            assert_eq!(guard.check(Version::HTTP_11, &uri, &headers), Err(GuardRefusal::Malformed));
        }
        assert_eq!(guard.check(Version::HTTP_10, &uri, &HeaderMap::new()), Ok(()));
        assert_eq!(check(&guard, "caf\u{e9}", None), Err(GuardRefusal::Malformed));
        assert!(matches!(check(&guard, "vmcp", Some("http://caf\u{e9}")), Err(GuardRefusal::Origin(_))));
    }
}
