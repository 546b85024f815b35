//! URLs that secrets and tokens are sent to.

use url::{Host, Url};

use crate::problems::{self, Report, required};
use crate::values::http_url;

/// Validates the required URL of a token endpoint.
pub(super) fn token_url(
    text: Option<&String>,
    path: &str,
    key: &str,
    allow_http: bool,
    report: &mut Report,
) -> Option<Url> {
    let at = problems::key(path, key);
    let url = http_url::validate(required(text, path, key, report)?, &at, report)?;
    check_scheme(&url, &at, allow_http, report);
    Some(url)
}

/// SSRF guard and guard of secrets: what goes to a token endpoint must not be readable on its way.
pub(super) fn check_scheme(url: &Url, path: &str, allow_http: bool, report: &mut Report) {
    let is_loopback = match url.host() {
        Some(Host::Domain(host)) => host == "localhost" || host.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    if url.scheme() != "https" && !is_loopback && !allow_http {
        report.problem(
            path,
            "secrets and tokens would travel unencrypted",
            "use https, or allow it by `insecureAllowHttp: true` (`insecureTargetTokenUrl: true` for xaa)",
        );
    }
}
