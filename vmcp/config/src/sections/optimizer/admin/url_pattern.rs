//! [`UrlPattern`]: addresses of servers, compared part by part.

use url::{Host, Url};

use crate::problems::Report;

/// Addresses: scheme and port as written; a host that begins with `*.` stands for its subdomains, a path that
/// ends with `*` for all that begin alike. A query fits only if it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlPattern(Url);

impl UrlPattern {
    /// Reads a pattern; `None`, with a problem, for any other text.
    pub(super) fn validate(text: &str, path: &str, report: &mut Report) -> Option<UrlPattern> {
        let remedy = "write scheme and host, such as `https://mcp.example.com/*`";
        let Ok(url) = Url::parse(text) else {
            report.problem(path, "not an absolute URL", remedy);
            return None;
        };
        let starred = |text: &str| text.contains('*');
        let host = url.host_str().unwrap_or_default();
        let message = if !matches!(url.scheme(), "http" | "https" | "ws" | "wss") {
            format!("the scheme `{}` is not supported", url.scheme())
        } else if starred(host.strip_prefix("*.").unwrap_or(host)) || host == "*." {
            "a `*` in the host that stands for no subdomain".to_owned()
        } else if starred(url.path().strip_suffix('*').unwrap_or(url.path())) {
            "a `*` within the path".to_owned()
        } else if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            "credentials or a fragment".to_owned()
        } else {
            return Some(UrlPattern(url));
        };
        report.problem(path, message, remedy);
        None
    }

    /// True if the address fits, and the pattern has its whole host, not `*` for a part of it.
    pub(super) fn names_host(&self, url: &Url) -> bool {
        let is_whole = |host: &str| !host.contains('*');
        self.0.host_str().is_some_and(is_whole) && self.matches(url)
    }

    /// True if the address fits. Both are in the normal form of the URL standard, without `..`.
    pub(super) fn matches(&self, url: &Url) -> bool {
        let Self(pattern) = self;
        let same_host = || match (pattern.host_str().and_then(|host| host.strip_prefix('*')), url.host()) {
            (Some(suffix), Some(Host::Domain(host))) => {
                host.strip_suffix(suffix).is_some_and(|subdomain| !subdomain.is_empty())
            }
            (Some(_), _) => false,
            (None, host) => pattern.host() == host,
        };
        let same_path = || match pattern.path().strip_suffix('*') {
            Some(begin) => url.path().starts_with(begin) && !may_leave_its_folder(url),
            None => url.path() == pattern.path(),
        };
        pattern.scheme() == url.scheme()
            && pattern.port_or_known_default() == url.port_or_known_default()
            && same_host()
            && same_path()
            && pattern.query() == url.query()
            && url.username().is_empty()
            && url.password().is_none()
    }
}

/// True for a path that some servers read as one of another folder: encoded separators, and dots with a
/// parameter (`..;`).
fn may_leave_its_folder(url: &Url) -> bool {
    let path = url.path().to_ascii_lowercase();
    ["%2f", "%5c", "%25", "%2e", ".."].iter().any(|part| path.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, url: &str) -> bool {
        let pattern = UrlPattern::validate(pattern, "url", &mut Report::default()).unwrap();
        pattern.matches(&Url::parse(url).unwrap())
    }

    #[test]
    fn addresses_are_compared_part_by_part() {
        assert!(fits("wss://a.example/*", "wss://a.example:443/mcp"));
        assert!(!fits("https://a.example/*", "wss://a.example/mcp"));
        assert!(fits("https://a.example/mcp", "https://A.example:443/mcp"));
        assert!(fits("https://*.example.com/*", "https://a.b.example.com/x/mcp"));
        for (pattern, url) in [
            ("https://a.example/mcp", "http://a.example/mcp"),
            ("https://a.example/mcp", "https://a.example:8443/mcp"),
            ("https://a.example/mcp", "https://a.example/mcp/more"),
            ("https://a.example/mcp", "https://a.example/mcp?to=b"),
            ("https://a.example/mcp", "https://a.example@evil.example/mcp"),
            ("https://a.example/mcp", "https://me:secret@a.example/mcp"),
            ("https://a.example/v1/*", "https://a.example/v1/../admin"),
            ("https://a.example/v1/*", "https://a.example/v1/%2e%2e/admin"),
            ("https://a.example/v1/*", "https://a.example/v1/..%2Fadmin"),
            ("https://a.example/v1/*", "https://a.example/v1/..;/admin"),
            ("https://*.example.com/*", "https://example.com/"),
            ("https://*.example.com/*", "https://evilexample.com/"),
            ("https://*.example.com/*", "https://example.com.evil.example/"),
        ] {
            assert!(!fits(pattern, url), "{pattern} {url}");
        }
    }

    #[test]
    fn a_star_in_the_host_names_none() {
        let names = |pattern: &str, url: &str| {
            let pattern = UrlPattern::validate(pattern, "url", &mut Report::default()).unwrap();
            pattern.names_host(&Url::parse(url).unwrap())
        };
        assert!(names("https://a.example/*", "https://a.example/mcp"));
        assert!(names("http://10.0.0.1:8080/mcp", "http://10.0.0.1:8080/mcp"));
        assert!(!names("https://a.example/*", "https://a.example:8443/mcp"));
        assert!(!names("https://*.example.com/*", "https://a.example.com/mcp"));
        assert!(!names("https://*.example.com/*", "https://*.example.com/mcp"));
    }

    #[test]
    fn a_pattern_without_an_address_is_a_mistake() {
        for text in
            ["example.com", "ftp://a/", "https://*/", "https://a.*.b/", "https://a/*/b", "https://u@a/"]
        {
            assert_eq!(UrlPattern::validate(text, "url", &mut Report::default()), None, "{text}");
        }
    }
}
