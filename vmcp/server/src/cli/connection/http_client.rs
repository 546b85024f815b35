//! HTTP clients of commands: the proxies of the environment serve addresses elsewhere, and none stands
//! between a command and its own machine or private network.

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, StatusCode};
use url::{Host, Url};

/// Redirects that are followed; a further one is the answer.
const MAX_REDIRECTS: usize = 5;

/// Returns the builder of a client for `url`.
pub(in crate::cli) fn builder(url: &Url) -> ClientBuilder {
    let builder = Client::builder();
    if is_near(url) { builder.no_proxy() } else { builder }
}

/// Makes a client for the MCP endpoint `url`. As rmcp's own client, it keeps no idle connections, whose reuse
/// stalls on Linux, and follows redirects of the same origin that keep the body.
pub(super) fn for_mcp(url: &Url) -> reqwest::Result<Client> {
    let redirects = Policy::custom(|attempt| {
        let keeps_body =
            matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let is_same =
            attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        if keeps_body && is_same && attempt.previous().len() <= MAX_REDIRECTS {
            attempt.follow()
        } else {
            attempt.stop()
        }
    });
    builder(url).pool_max_idle_per_host(0).redirect(redirects).build()
}

/// True for an address of this machine or of a private network.
fn is_near(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(host)) => host == "localhost" || host.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        Some(Host::Ipv6(ip)) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_and_its_network_are_reached_without_a_proxy() {
        let near = |url: &str| is_near(&url.parse().unwrap());
        for url in [
            "http://127.0.0.1:8080/mcp",
            "http://localhost:8080/mcp",
            "http://hub.localhost/mcp",
            "http://[::1]:8080/mcp",
            "http://10.0.0.7:8080/mcp",
            "http://192.168.1.2/mcp",
            "http://[fd00::1]/mcp",
        ] {
            assert!(near(url), "{url}");
        }
        for url in ["https://mcp.example.com/mcp", "https://203.0.113.7/mcp", "https://[2001:db8::1]/mcp"] {
            assert!(!near(url), "{url}");
        }
    }
}
