//! URLs of the servers that vmcp calls.

use url::Url;

use crate::problems::Report;
use crate::values::masked;

/// Validates an absolute `http` or `https` URL without credentials and fragment; `None` if it cannot be
/// parsed.
pub(crate) fn validate(text: &str, path: &str, report: &mut Report) -> Option<Url> {
    validate_scheme(text, &["http", "https"], "use an http:// or https:// URL", path, report)
}

/// Like [`validate`], for an MCP server, which a websocket may lead to: `ws` and `wss` are valid too.
pub(crate) fn validate_server(text: &str, path: &str, report: &mut Report) -> Option<Url> {
    let remedy = "use an http:// or https:// URL, or ws:// or wss:// for a websocket";
    validate_scheme(text, &["http", "https", "ws", "wss"], remedy, path, report)
}

fn validate_scheme(
    text: &str,
    schemes: &[&str],
    remedy: &str,
    path: &str,
    report: &mut Report,
) -> Option<Url> {
    let shown = report.shown(path, &masked::without_query_values(text));
    let url = match Url::parse(text.trim()) {
        Ok(url) if schemes.contains(&url.scheme()) => url,
        Ok(url) if text.contains("://") => {
            let message = format!("the scheme `{}` is not supported", url.scheme());
            report.problem(path, message, remedy);
            return None;
        }
        _ => {
            let message = format!("{shown} is not an absolute URL");
            report.problem(path, message, "write it with scheme and host, such as `https://example.com/mcp`");
            return None;
        }
    };
    if !url.username().is_empty() || url.password().is_some() {
        report.problem(
            path,
            "a URL must not carry credentials",
            "remove `user:password@` and set `headers: { Authorization: … }` instead",
        );
    }
    if url.fragment().is_some() {
        report.problem(path, "a URL with a `#fragment` cannot be called", "remove the fragment");
    }
    Some(url)
}
