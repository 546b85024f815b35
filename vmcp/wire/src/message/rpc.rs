//! Writes JSON-RPC messages, each with one allocation of the exact size, and the errors that vmcp authors
//! itself.

use serde_json::value::RawValue;
use vmcp_json::byte_rope::ByteRope;
use vmcp_json::decimal::Decimal;
use vmcp_json::json_rope::JsonRope;
use vmcp_json::text;

use crate::message::codes;
use crate::message::era::Era;

/// An error that vmcp authors; one of a backend is relayed as raw JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// The JSON-RPC code, see [`crate::message::codes`].
    pub code: i64,
    /// The text for people.
    pub message: String,
    /// `data` for programs, as JSON.
    pub data: Option<String>,
}

impl RpcError {
    /// Creates an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Creates "resource not found" by the rules of the client's era: -32002 (legacy) or -32602 (modern).
    pub fn resource_not_found(uri: &str, era: Era) -> Self {
        let code = match era {
            Era::Legacy => codes::RESOURCE_NOT_FOUND,
            Era::Modern => codes::INVALID_PARAMS,
        };
        Self::new(code, "resource not found").with_data(format!("{{\"uri\":{}}}", text::quoted(uri)))
    }

    /// Creates "method not found". The name is the sender's own text, so at most 128 characters of it are
    /// repeated.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        let shown: String = method.chars().take(128).collect();
        Self::new(codes::METHOD_NOT_FOUND, format!("method not found: {shown}"))
    }

    /// Creates the error for a modern request that needs capabilities which its client did not declare.
    /// `required` is a `ClientCapabilities` with just those, as JSON.
    pub fn missing_client_capability(required: &str) -> Self {
        Self::new(
            codes::MISSING_CLIENT_CAPABILITY,
            "the request needs a capability that the client did not declare",
        )
        .with_data(format!("{{\"requiredCapabilities\":{required}}}"))
    }

    /// Adds `data`; `json` must be one JSON value.
    #[must_use]
    pub fn with_data(mut self, json: String) -> Self {
        self.data = Some(json);
        self
    }

    /// Writes the `error` object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let data = self.data.as_ref().map_or(String::new(), |data| format!(",\"data\":{data}"));
        format!("{{\"code\":{},\"message\":{}{data}}}", self.code, text::quoted(&self.message))
    }
}

/// The answer to a malformed request: an HTTP status and the error in its body. On stdio the status is
/// dropped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct Refusal {
    /// The HTTP status: 404 for a method that does not exist, else 400.
    pub status: u16,
    /// The error.
    pub error: RpcError,
}

impl Refusal {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { status: 400, error: RpcError::new(code, message) }
    }

    /// Refuses a modern request for a method that its revision does not have.
    pub(crate) fn method_not_found(method: &str) -> Self {
        Self { status: 404, error: RpcError::method_not_found(method) }
    }

    pub(crate) fn with_data(mut self, json: String) -> Self {
        self.error = self.error.with_data(json);
        self
    }
}

/// Writes a request with a numeric id.
#[must_use]
pub fn request(id: u64, method: &str, params: Option<JsonRope<'_>>) -> Vec<u8> {
    let id = Decimal::new(id);
    message(&[",\"id\":", id.as_str(), ",\"method\":", &text::quoted(method)], "params", params)
}

/// Writes the beginning of a request, up to its method.
pub(crate) fn begin_request(out: &mut Vec<u8>, id: u64, method: &str) {
    for part in [HEAD, ",\"id\":", Decimal::new(id).as_str(), ",\"method\":"] {
        out.extend_from_slice(part.as_bytes());
    }
    text::push_quoted(out, method);
}

/// Writes a question to a client: a request whose id is text.
#[must_use]
pub fn question(id: &str, method: &str, params: Option<JsonRope<'_>>) -> Vec<u8> {
    message(&[",\"id\":", &text::quoted(id), ",\"method\":", &text::quoted(method)], "params", params)
}

/// Writes a notification.
#[must_use]
pub fn notification(method: &str, params: Option<JsonRope<'_>>) -> Vec<u8> {
    message(&[",\"method\":", &text::quoted(method)], "params", params)
}

/// Writes the response to the request that came with `id`.
#[must_use]
pub fn response<'a>(id: &RawValue, result: impl Into<JsonRope<'a>>) -> Vec<u8> {
    message(&[",\"id\":", id.get()], "result", Some(result.into()))
}

/// Writes the response around a result in pieces, which are shared and not copied.
#[must_use]
pub fn response_around(id: &RawValue, result: impl Into<ByteRope>) -> ByteRope {
    let mut message = ByteRope::from(response_head(id.get()));
    message.append(result.into());
    message.push("}");
    message
}

/// Writes the beginning of a response, up to its result. `id` is JSON.
#[must_use]
pub fn response_head(id: &str) -> String {
    [HEAD, ",\"id\":", id, ",\"result\":"].concat()
}

/// Writes the error that answers the request that came with `id`; without an id if none could be read.
/// `error` is the raw object of a relayed error, or [`RpcError::to_json`].
#[must_use]
pub fn error<'a>(id: Option<&RawValue>, error: impl Into<JsonRope<'a>>) -> Vec<u8> {
    match id {
        Some(id) => message(&[",\"id\":", id.get()], "error", Some(error.into())),
        None => message(&[], "error", Some(error.into())),
    }
}

/// Replaces line breaks by spaces, for transports that end a message with a line feed. In JSON, raw line
/// breaks stand between tokens only, where a space means the same.
#[must_use]
pub fn single_line(mut message: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while let Some(found) = message.get(at..).and_then(|rest| memchr::memchr2(b'\n', b'\r', rest)) {
        at += found;
        if let Some(byte) = message.get_mut(at) {
            *byte = b' ';
        }
    }
    message
}

const HEAD: &str = r#"{"jsonrpc":"2.0""#;

fn message(parts: &[&str], key: &str, body: Option<JsonRope<'_>>) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let body_length = body.as_ref().map_or(0, |body| key.len() + 4 + body.len());
    let mut out = Vec::with_capacity(HEAD.len() + length + body_length + 1);
    out.extend_from_slice(HEAD.as_bytes());
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
    if let Some(body) = body {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(b"\":");
        body.write_to(&mut out);
    }
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::envelope::Message;

    #[test]
    fn writes_what_the_envelope_reads() {
        let request = request(7, "tools/\"call", Some(r#"{ "a":1e400 }"#.into()));
        assert_eq!(request, br#"{"jsonrpc":"2.0","id":7,"method":"tools/\"call","params":{ "a":1e400 }}"#);
        assert_eq!(request.capacity(), request.len(), "one allocation");
        assert_eq!(notification("n", None), br#"{"jsonrpc":"2.0","method":"n"}"#);
        let Ok(Message::Request(parsed)) = Message::parse(&request) else { panic!("a request") };
        assert_eq!(response(parsed.id, "{}"), br#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
        assert_eq!(response_around(parsed.id, "{}").into_bytes(), response(parsed.id, "{}"));
        let problem = RpcError::new(codes::INVALID_PARAMS, "no \"such\" thing").with_data("[1]".into());
        let expected =
            r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"no \"such\" thing","data":[1]}}"#;
        assert_eq!(error(None, problem.to_json()), expected.as_bytes());
    }

    #[test]
    fn known_errors_carry_their_data() {
        let uri = |era| RpcError::resource_not_found("u:\"1\"", era).to_json();
        let expected = r#"{"code":-32002,"message":"resource not found","data":{"uri":"u:\"1\""}}"#;
        assert_eq!(uri(Era::Legacy), expected);
        assert_eq!(uri(Era::Modern), expected.replace("-32002", "-32602"));
        let data = RpcError::missing_client_capability(r#"{"sampling":{}}"#).data;
        assert_eq!(data.as_deref(), Some(r#"{"requiredCapabilities":{"sampling":{}}}"#));
    }

    #[test]
    fn a_single_line_means_the_same() {
        let line = single_line(b"{\r\n \"a\":\n\"x\\n\"}".to_vec());
        assert_eq!(line, b"{   \"a\": \"x\\n\"}");
    }
}
