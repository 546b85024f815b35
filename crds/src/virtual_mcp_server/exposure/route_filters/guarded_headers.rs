//! Headers that a filter of a gateway must leave as they were sent.
//!
//! A constant `Authorization` makes every client the same one, and the endpoint anonymous without
//! `allowAnonymousExposure`; a constant `Origin` takes the guard against DNS rebinding away; a constant
//! `Mcp-Session-Id` puts all clients into one session. The rule stops mistakes, not attackers: the author of
//! a VirtualMCPServer decides about its pods, too.

use serde_json::{Value, json};

/// Headers that a filter must not change, beside the [`FAMILIES`].
const NAMES: [&str; 12] = [
    "accept",
    "authorization",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "last-event-id",
    "origin",
    "set-cookie",
    "transfer-encoding",
    "www-authenticate",
    "x-api-key",
];
/// First words of names of such headers, before a `-`.
const FAMILIES: [&str; 3] = ["access-control", "mcp", "vmcp"];

/// Message of the API server; in a condition, the remedy after the semicolon stands by itself.
pub(super) const HEADER_IS_GUARDED: &str = "credentials, cookies, Host, Origin, media types and headers of \
    MCP and CORS are what clients and vmcp tell each other; leave them as they were sent";

/// Returns the rule by which the API server refuses changes of guarded headers.
pub(super) fn rule() -> Value {
    let guarded = format!("matches('(?i)^({}|({})-.*)$')", NAMES.join("|"), FAMILIES.join("|"));
    let free =
        |list: &str, name: &str| format!("(!has(self.{list}) || self.{list}.all(each, !{name}.{guarded}))");
    let rule = [free("set", "each.name"), free("add", "each.name"), free("remove", "each")].join(" && ");
    json!([{ "rule": rule, "message": HEADER_IS_GUARDED }])
}

/// Returns true for a header that must arrive as it was sent; case does not matter.
pub(super) fn is_guarded(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_of = |family: &&str| name.strip_prefix(*family).is_some_and(|rest| rest.starts_with('-'));
    NAMES.contains(&name.as_str()) || FAMILIES.iter().any(is_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_tell_who_and_where_a_client_is_are_guarded() {
        for name in ["Authorization", "ORIGIN", "x-api-key", "Mcp-Session-Id", "vmcp-forwarded", "Host"] {
            assert!(is_guarded(name), "{name}");
        }
        for name in ["X-Forwarded-Proto", "Strict-Transport-Security", "X-Tenant", "mcpx", "Hosts"] {
            assert!(!is_guarded(name), "{name}");
        }
    }
}
