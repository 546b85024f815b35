//! HTTP headers that the configuration adds to our requests.

use std::collections::BTreeMap;

use crate::problems::{self, Report};
use crate::values::secret::Secret;

/// Headers by lower-case name.
pub type Headers = BTreeMap<String, Secret>;

/// How many headers one upstream may be given.
const MAX_HEADERS: usize = 64;
/// Bytes in one header value.
const MAX_VALUE_BYTES: usize = 8192;

/// Headers that the transport or the protocol sets itself. `mcp-…` and `proxy-…` are refused as a family.
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

/// Checks the headers at `path`. No message repeats a value.
pub(crate) fn validate(headers: &BTreeMap<String, Secret>, path: &str, report: &mut Report) -> Headers {
    if headers.len() > MAX_HEADERS {
        report.problem(path, format!("{} headers", headers.len()), format!("give at most {MAX_HEADERS}"));
    }
    let mut validated = Headers::new();
    for (name, value) in headers {
        let at = problems::key(path, name);
        let lower = name.to_ascii_lowercase();
        if name.is_empty() || !name.chars().all(is_token) {
            report.problem(&at, "not a header name", "use letters, digits and any of !#$%&'*+-.^_`|~");
        } else if is_reserved(&lower) {
            report.problem(&at, "this header is set by vmcp itself", "remove it");
        }
        if value.expose().len() > MAX_VALUE_BYTES
            || !value.expose().chars().all(|c| c == '\t' || (' '..='~').contains(&c))
        {
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

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

pub(crate) fn is_reserved(lower: &str) -> bool {
    RESERVED.contains(&lower) || lower.starts_with("mcp-") || lower.starts_with("proxy-")
}
