//! HTTP headers that the configuration adds to vmcp's own requests, and the names that it must not set.

use std::collections::BTreeMap;

use crate::problems::{self, Report};
use crate::values::secret::Secret;

/// Headers by lower-case name; the values are secrets.
pub type Headers = BTreeMap<String, Secret>;

/// Most headers of one upstream; more are a mistake.
const MAX_HEADERS: usize = 64;
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
        let lower = name.to_ascii_lowercase();
        if name.is_empty() || !name.chars().all(is_token_char) {
            report.problem(&at, "not a header name", "use letters, digits and any of !#$%&'*+-.^_`|~");
        } else if is_reserved_header(&lower) {
            report.problem(&at, "this header is set by vmcp itself", "remove it");
        }
        if !is_value(value.expose()) {
            report.problem(
                &at,
                "not a header value",
                format!("use at most {MAX_VALUE_BYTES} printable ASCII characters, without line breaks"),
            );
        }
        if validated.insert(lower, value.clone()).is_some() {
            report.problem(&at, "given twice, with different capitals", "keep one of them");
        }
    }
    validated
}

/// Reports a key at `path` that cannot be sent as a bearer token.
pub(crate) fn check_key(key: Option<&Secret>, path: &str, report: &mut Report) {
    if key.is_some_and(|key| !is_value(key.expose())) {
        let remedy = format!("use at most {MAX_VALUE_BYTES} printable ASCII characters, without line breaks");
        report.problem(path, "cannot be sent as a bearer token", remedy);
    }
}

fn is_value(value: &str) -> bool {
    value.len() <= MAX_VALUE_BYTES && value.chars().all(|c| c == '\t' || (' '..='~').contains(&c))
}

/// True for a character of an HTTP token (RFC 9110, 5.6.2), of which header names are made.
pub fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

/// Returns true if vmcp sets the header with this lower-case name itself.
pub fn is_reserved_header(lower: &str) -> bool {
    RESERVED.contains(&lower) || lower.starts_with("mcp-") || lower.starts_with("proxy-")
}
