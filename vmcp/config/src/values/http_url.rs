//! URLs of the servers that vmcp calls.

use url::Url;

use crate::problems::Report;
use crate::values::masked;

/// Validates an absolute `http` or `https` URL without credentials and fragment; `None` if it cannot be
/// parsed.
pub(crate) fn validate(text: &str, path: &str, report: &mut Report) -> Option<Url> {
    let shown = report.shown(path, &masked::without_query_values(text));
    let url = match Url::parse(text.trim()) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => url,
        Ok(url) if text.contains("://") => {
            let message = format!("the scheme `{}` is not supported", url.scheme());
            report.problem(path, message, "use an http:// or https:// URL");
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
