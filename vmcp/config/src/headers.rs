//! HTTP headers that the configuration adds to our requests.

use std::collections::BTreeMap;

use super::problems::{self, Report};
use super::secret::Secret;

/// Headers by lower-case name.
pub type Headers = BTreeMap<String, Secret>;

/// How many headers one upstream may be given.
const MOST: usize = 64;
/// Bytes in one header value.
const LONGEST: usize = 8192;

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
pub(crate) fn lower(headers: &BTreeMap<String, Secret>, path: &str, report: &mut Report) -> Headers {
    if headers.len() > MOST {
        report.problem(path, format!("{} headers", headers.len()), format!("give at most {MOST}"));
    }
    let mut lowered = Headers::new();
    for (name, value) in headers {
        let at = problems::key(path, name);
        let lower = name.to_ascii_lowercase();
        if name.is_empty() || !name.chars().all(is_token) {
            report.problem(&at, "not a header name", "use letters, digits and any of !#$%&'*+-.^_`|~");
        } else if is_reserved(&lower) {
            report.problem(&at, "this header is set by vmcp itself", "remove it");
        }
        if value.expose().len() > LONGEST
            || !value.expose().chars().all(|c| c == '\t' || (' '..='~').contains(&c))
        {
            report.problem(
                &at,
                "not a header value",
                format!("use at most {LONGEST} printable ASCII characters, without line breaks"),
            );
        }
        if lowered.insert(lower, value.clone()).is_some() {
            report.problem(&at, "given twice, with different capitals", "keep one of them");
        }
    }
    lowered
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

pub(crate) fn is_reserved(lower: &str) -> bool {
    RESERVED.contains(&lower) || lower.starts_with("mcp-") || lower.starts_with("proxy-")
}
