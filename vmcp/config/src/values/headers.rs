//! HTTP headers that the configuration adds to vmcp's own requests, and the names that it must not set.

use std::collections::BTreeMap;

use crate::problems::{self, Report};
use crate::values::secret::Secret;

/// Headers by lower-case name; the values are secrets.
pub type Headers = BTreeMap<String, Secret>;

/// Most headers of one upstream; more are a mistake.
pub(crate) const MAX_HEADERS: usize = 64;
/// Most bytes in one header's value; a longer one is a mistake.
const MAX_VALUE_BYTES: usize = 8192;

/// Headers that the transport or the protocol sets; the families `mcp-…` and `proxy-…` are reserved too.
const RESERVED: [&str; 17] = [
    "accept",
    "accept-encoding",
    "baggage",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Validates the headers at `path` (names, reserved names, values, duplicates). No message repeats a value,
/// which may be a secret.
pub(crate) fn validate(headers: &BTreeMap<String, Secret>, path: &str, report: &mut Report) -> Headers {
    if headers.len() > MAX_HEADERS {
        report.problem(path, format!("{} headers", headers.len()), format!("give at most {MAX_HEADERS}"));
    }
    let mut validated = Headers::new();
    for (name, value) in headers {
        let at = problems::key(path, name);
        let (lower, value) = header(name, value, [&at, &at], report);
        if validated.insert(lower, value).is_some() {
            report.mistake(&at, "given twice, with different capitals", "keep one of them");
        }
    }
    validated
}

/// Validates one header, given by a name and a value at two paths; returns it with its name in lower case.
pub(crate) fn header(
    name: &str,
    value: &Secret,
    [name_at, value_at]: [&str; 2],
    report: &mut Report,
) -> (String, Secret) {
    let lower = name.to_ascii_lowercase();
    if name.is_empty() || !name.chars().all(is_token_char) {
        report.mistake(name_at, "not a header name", "use letters, digits and any of !#$%&'*+-.^_`|~");
    } else if is_reserved_header(&lower) {
        report.mistake(name_at, "this header is set by vmcp itself", "remove it");
    }
    let value = without_line_break(value);
    if let Some(fault) = value_fault(value.expose()) {
        report.problem(value_at, format!("not a header value: {fault}"), VALUE_REMEDY);
    } else if let Some(doubt) = doubt(value.expose()) {
        report.warn(value_at, doubt, "write the scheme once, in the header or in the value, and no quotes");
    }
    (lower, value)
}

/// Remedy for a value that cannot be sent.
const VALUE_REMEDY: &str = "use at most 8192 printable ASCII characters, without line breaks";

/// Reports a key at `path` that cannot be sent as a bearer token.
pub(crate) fn check_key(key: Option<&Secret>, path: &str, report: &mut Report) {
    if let Some(fault) = key.and_then(|key| value_fault(key.expose())) {
        report.problem(path, format!("cannot be sent as a bearer token: {fault}"), VALUE_REMEDY);
    }
}

/// Returns a value without the line breaks at its end, which a block of YAML has.
fn without_line_break(value: &Secret) -> Secret {
    value.expose().trim_end_matches(['\r', '\n']).into()
}

/// Returns why a value cannot be sent, in words that show nothing of it.
pub(crate) fn value_fault(value: &str) -> Option<&'static str> {
    if value.len() > MAX_VALUE_BYTES {
        return Some("it is too long");
    }
    let wrong = value.chars().find(|c| *c != '\t' && !(' '..='~').contains(c))?;
    Some(match wrong {
        '\r' | '\n' => "it has a line break",
        wrong if wrong.is_ascii() => "it has a control character",
        _ => "it has a character that is not ASCII",
    })
}

/// Returns the doubt about a value that can be sent and is probably not meant.
fn doubt(value: &str) -> Option<&'static str> {
    let (scheme, token) = value.trim().split_once(' ').unwrap_or((value.trim(), ""));
    if !["bearer", "basic", "token"].contains(&scheme.to_ascii_lowercase().as_str()) {
        return None;
    }
    let token = token.trim();
    let again = token.split(' ').next().unwrap_or_default();
    if again.eq_ignore_ascii_case(scheme) && token.contains(' ') {
        return Some("the scheme stands there twice, as in `Bearer Bearer …`");
    }
    if token.is_empty() {
        return Some("there is a scheme, and no token behind it");
    }
    let quoted = |quote| token.len() > 1 && token.starts_with(quote) && token.ends_with(quote);
    (quoted('"') || quoted('\'')).then_some("the token is in quotes, which are sent too")
}

/// True for a character of an HTTP token (RFC 9110, 5.6.2), of which header names are made.
pub fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

/// Returns true if vmcp sets the header with this lower-case name itself.
pub fn is_reserved_header(lower: &str) -> bool {
    let prefixes = ["mcp-", "proxy-", "sec-websocket-"];
    RESERVED.contains(&lower) || prefixes.iter().any(|prefix| lower.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_and_doubts_are_told_without_the_value() {
        for (value, fault) in [
            ("Bearer x", None),
            ("a\tb", None),
            ("a\nb", Some("it has a line break")),
            ("é", Some("it has a character that is not ASCII")),
            ("a\u{7f}", Some("it has a control character")),
        ] {
            assert_eq!(value_fault(value), fault, "{value:?}");
        }
        for (value, is_doubtful) in [
            ("Bearer Bearer x", true),
            ("bearer  Bearer x", true),
            ("Basic basic x", true),
            ("Bearer ", true),
            ("Bearer", true),
            ("Bearer \"x\"", true),
            ("Bearer x", false),
            ("Bearer bearer", false),
            ("x", false),
            ("", false),
        ] {
            assert_eq!(doubt(value).is_some(), is_doubtful, "{value:?}");
        }
    }
}
