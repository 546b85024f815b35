//! Redirect URIs of clients: which may be registered, and which fit a registered one.

use url::{Host, Url};

/// Longest redirect URI, in bytes.
const MAX_BYTES: usize = 512;
/// Schemes of MCP clients that are registered with their programs, and that their makers did not spell as RFC
/// 8252 asks.
const KNOWN_APPS: [&str; 3] = ["cursor", "vscode", "vscode-insiders"];

/// Returns true if a client may register this URI: https, http on loopback (RFC 8252, 7.3), or the scheme of
/// an app, which is a domain name in reverse (7.1); without fragment and credentials. Other schemes lead a
/// browser to run or open something.
pub(super) fn may_register(text: &str) -> bool {
    let is_plain = text.len() <= MAX_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic());
    let Some(url) = Url::parse(text).ok().filter(|_| is_plain) else { return false };
    if url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
        return false;
    }
    match url.scheme() {
        "https" => url.host().is_some(),
        "http" => is_loopback(&url),
        scheme => KNOWN_APPS.contains(&scheme) || is_reverse_domain(scheme),
    }
}

/// Returns true for a domain name in reverse, such as `com.example.app`.
fn is_reverse_domain(scheme: &str) -> bool {
    let mut labels = scheme.split('.');
    let top = labels.next().unwrap_or_default();
    let is_label = |label: &str| {
        !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && !label.contains('+')
    };
    let rest: Vec<&str> = labels.collect();
    top.len() >= 2
        && top.bytes().all(|byte| byte.is_ascii_lowercase())
        && !rest.is_empty()
        && rest.iter().all(|label| is_label(label))
}

/// Returns true if `asked` is the registered URI: equal as text, but for the port of a loopback address,
/// which changes each time an app listens (RFC 8252, 7.3).
pub(super) fn fits(registered: &str, asked: &str) -> bool {
    if registered == asked {
        return true;
    }
    let (Ok(mut known), Ok(mut url)) = (Url::parse(registered), Url::parse(asked)) else { return false };
    let both_loopback = [&known, &url].iter().all(|url| url.scheme() == "http" && is_loopback(url));
    // The parser normalizes paths: only a URI that is written as it is parsed is compared by its parts.
    let is_normal = url.as_str().trim_end_matches('/') == asked.trim_end_matches('/');
    both_loopback
        && is_normal
        && url.fragment().is_none()
        && known.set_port(None).is_ok()
        && url.set_port(None).is_ok()
        && known == url
}

/// Returns the place that a person is told: the host, or the scheme of an app.
pub(in crate::auth_server) fn place(text: &str) -> String {
    let Ok(url) = Url::parse(text) else { return String::new() };
    match url.host_str().filter(|_| matches!(url.scheme(), "http" | "https")) {
        Some(_) if is_loopback(&url) => "a program on this machine".to_owned(),
        Some(host) => host.to_owned(),
        None => format!("the app of {}:", url.scheme()),
    }
}

/// Returns true for a program on the person's own machine.
pub(in crate::auth_server) fn is_local(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| url.scheme() == "http" && is_loopback(&url))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(host)) => host == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apps_loopback_and_https_may_be_registered_and_nothing_else() {
        for good in [
            "https://chat.example/callback",
            "http://127.0.0.1:3000/callback",
            "http://localhost/callback",
            "http://[::1]:9/",
            "cursor://anysphere.cursor-retrieval/oauth/callback",
            "com.example.app:/oauth",
        ] {
            assert!(may_register(good), "{good}");
        }
        for bad in [
            "http://chat.example/callback",
            "https://chat.example/#part",
            "https://user@chat.example/",
            "javascript:alert(1)",
            "chrome://settings",
            "jar:https://x!/",
            "ms-settings:x",
            "ms-msdt:/id",
            "search-ms:query",
            "steam://run/1",
            "feed:javascript:alert(1)",
            "livescript:x",
            "intent://x#Intent;end",
            "view-source:https://chat.example/",
            "web+app:x",
            "com.:x",
            "x.y.:/a",
            "data:text/html,x",
            "/callback",
            "https://chat.example/a b",
            &format!("https://chat.example/{}", "a".repeat(MAX_BYTES)),
        ] {
            assert!(!may_register(bad), "{bad}");
        }
    }

    #[test]
    fn a_redirect_fits_exactly_but_for_the_port_of_loopback() {
        let loopback = "http://127.0.0.1:1/callback";
        for asked in [loopback, "http://127.0.0.1:2/callback", "http://127.0.0.1/callback"] {
            assert!(fits(loopback, asked), "{asked}");
        }
        for asked in [
            "http://127.0.0.1:1/callback/",
            "http://127.0.0.1:1/callback?x=1",
            "http://127.0.0.1:1/a/../callback",
            "http://localhost:1/callback",
            "https://127.0.0.1:1/callback",
            "http://127.0.0.1:1@evil.example/callback",
            "http://evil.example/callback",
        ] {
            assert!(!fits(loopback, asked), "{asked}");
        }
        let web = "https://chat.example/callback";
        assert!(fits(web, web));
        for asked in
            ["https://chat.example:444/callback", "https://chat.example/callback/", "https://evil.example"]
        {
            assert!(!fits(web, asked), "{asked}");
        }
    }
}
