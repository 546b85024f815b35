//! JSON-RPC and MCP error codes by name, and the HTTP status that carries each.
//!
//! Source: MCP 2026-07-28, basic, "Error Codes"; the last two codes belong to earlier revisions.

use crate::message::era::Era;

/// The body is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The JSON is not a request.
pub const INVALID_REQUEST: i64 = -32600;
/// The method does not exist in this revision or on this server.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are wrong; since 2026-07-28 also: no such resource.
pub const INVALID_PARAMS: i64 = -32602;
/// An internal error of the server.
pub const INTERNAL_ERROR: i64 = -32603;
/// The HTTP headers contradict the body, or a required one is missing or malformed.
pub const HEADER_MISMATCH: i64 = -32020;
/// The request needs a capability that its client did not declare (`data.requiredCapabilities`).
pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
/// The revision is not served here (`data.supported`, `data.requested`).
pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
/// The resource does not exist; revisions up to 2025-11-25 only.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// The user must visit a URL first (`data.elicitations`); revision 2025-11-25 only.
pub const URL_ELICITATION_REQUIRED: i64 = -32042;

/// Returns a code as text if JSON-RPC or MCP defines it; other codes are a server's own.
#[must_use]
pub fn defined(code: i64) -> Option<&'static str> {
    Some(match code {
        PARSE_ERROR => "-32700",
        INVALID_REQUEST => "-32600",
        METHOD_NOT_FOUND => "-32601",
        INVALID_PARAMS => "-32602",
        INTERNAL_ERROR => "-32603",
        HEADER_MISMATCH => "-32020",
        MISSING_CLIENT_CAPABILITY => "-32021",
        UNSUPPORTED_PROTOCOL_VERSION => "-32022",
        RESOURCE_NOT_FOUND => "-32002",
        URL_ELICITATION_REQUIRED => "-32042",
        _ => return None,
    })
}

/// Returns the HTTP status that carries an error: the modern revision maps three codes to 400 and an unknown
/// method to 404; every other error, and every error of a legacy session, travels on 200.
///
/// A malformed request is answered earlier, with the status of its [`Refusal`](crate::rpc::Refusal).
#[must_use]
pub fn http_status(code: i64, era: Era) -> u16 {
    match (era, code) {
        (Era::Modern, METHOD_NOT_FOUND) => 404,
        (Era::Modern, HEADER_MISMATCH | MISSING_CLIENT_CAPABILITY | UNSUPPORTED_PROTOCOL_VERSION) => 400,
        _ => 200,
    }
}
