//! The URL of a service that is asked about calls: a decision point, a webhook; or told of events.

use url::Url;

use crate::problems::Report;
use crate::values::http_url;

/// Checks the URL at `path`. `example`: a URL for the remedy; `answers`: the word for what the service says,
/// which anybody on the way could forge over plain HTTP.
pub(crate) fn validate(
    url: Option<&str>,
    path: &str,
    (example, answers): (&str, &str),
    insecure_allow_http: bool,
    report: &mut Report,
) -> Option<Url> {
    let Some(url) = url else {
        report.problem(path, "missing", format!("add the URL of the service, such as `{example}`"));
        return None;
    };
    let url = http_url::validate(url, path, report)?;
    if url.scheme() == "http" && !insecure_allow_http {
        let remedy = "use an https:// URL; for a sidecar on loopback, set `insecureAllowHttp: true`";
        report.problem(path, format!("{answers} that come over plain HTTP can be forged"), remedy);
    }
    Some(url)
}
