//! [`Message`]: reads the JSON-RPC envelope into the four kinds of message, their parts slices of the
//! received bytes.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::value::RawValue;
use vmcp_json::nesting;
use vmcp_json::text::{self, MAX_ID_BYTES};

use crate::message::codes;
use crate::message::params::ParamsError;

/// The deepest nesting of arrays and objects in `params`, counted from the envelope; a deeper message is
/// refused with -32600. Handlers and backends may recurse, and `serde_json` itself stops at this depth.
///
/// Results are not measured: they are relayed without a walk, which would cost a large one its speed.
pub const MAX_DEPTH: usize = 128;

/// One message. The caller bounds the number of bytes.
///
/// ```
/// use vmcp_wire::envelope::Message;
///
/// let bytes = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo"}}"#;
/// let Message::Request(request) = Message::parse(bytes)? else { unreachable!() };
/// assert_eq!((request.id.get(), request.method.as_ref()), ("7", "tools/call"));
/// assert_eq!(request.params.map(|params| params.get()), Some(r#"{"name":"echo"}"#));
/// # Ok::<(), vmcp_wire::envelope::EnvelopeError>(())
/// ```
#[derive(Debug, Clone)]
pub enum Message<'a> {
    /// A request, which wants an answer.
    Request(Request<'a>),
    /// A notification, which wants none.
    Notification(Notification<'a>),
    /// The result of a request.
    Response(Response<'a>),
    /// The error that answers a request.
    Error(ErrorResponse<'a>),
}

/// A request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// A string or an integer, as written; echo it as it is.
    pub id: &'a RawValue,
    /// The method.
    pub method: Cow<'a, str>,
    /// An object, if given.
    pub params: Option<&'a RawValue>,
}

/// A notification.
#[derive(Debug, Clone)]
pub struct Notification<'a> {
    /// The method.
    pub method: Cow<'a, str>,
    /// An object, if given.
    pub params: Option<&'a RawValue>,
}

/// The result of a request.
#[derive(Debug, Clone)]
pub struct Response<'a> {
    /// The id of the request.
    pub id: &'a RawValue,
    /// An object.
    pub result: &'a RawValue,
}

/// The error that answers a request.
#[derive(Debug, Clone)]
pub struct ErrorResponse<'a> {
    /// The id of the request; `None` if its receiver could not read one.
    pub id: Option<&'a RawValue>,
    /// An object with `code`, `message` and perhaps `data`.
    pub error: &'a RawValue,
}

/// A message that cannot be read; answer it with [`EnvelopeError::code`] and [`EnvelopeError::id`].
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub struct EnvelopeError {
    /// The fault.
    pub reason: Reason,
    /// The id, if the message was read far enough to find a valid one.
    pub id: Option<Box<RawValue>>,
}

/// The fault of an envelope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Not UTF-8.
    #[error("the body is not UTF-8: invalid byte at offset {0}")]
    Encoding(usize),
    /// Not JSON.
    #[error("the body is not JSON: {0}")]
    Syntax(String),
    /// `params` nest deeper than [`MAX_DEPTH`].
    #[error("`params` nest more than {MAX_DEPTH} levels deep")]
    Depth,
    /// A JSON-RPC batch.
    #[error("JSON-RPC batches are not supported (removed in MCP 2025-06-18); send one message a request")]
    Batch,
    /// JSON, but no JSON-RPC message.
    #[error("the body is not a JSON-RPC message: {0}")]
    Shape(String),
    /// Not JSON-RPC 2.0.
    #[error("`jsonrpc` must be \"2.0\"")]
    Version,
    /// An id that is neither a string nor an integer, or longer than [`MAX_ID_BYTES`].
    #[error("`id` must be a string or an integer, of at most {MAX_ID_BYTES} bytes")]
    Id,
    /// Parameters that are not an object.
    #[error("`params` must be an object")]
    Params,
    /// A reserved key of the parameters in another letter case, which some servers take for that key.
    #[error("`params`: the letter case of keys counts: write `{key}` for `{written}`")]
    LetterCase {
        /// The key as the client wrote it.
        written: String,
        /// The reserved key.
        key: &'static str,
    },
    /// Parameters with a repeated or unreadable key.
    #[error("{0}")]
    ParamKeys(ParamsError),
}

impl EnvelopeError {
    /// Returns the JSON-RPC error code.
    #[must_use]
    pub fn code(&self) -> i64 {
        match self.reason {
            Reason::Encoding(_) | Reason::Syntax(_) => codes::PARSE_ERROR,
            Reason::Params | Reason::LetterCase { .. } | Reason::ParamKeys(_) => codes::INVALID_PARAMS,
            _ => codes::INVALID_REQUEST,
        }
    }
}

impl From<Reason> for EnvelopeError {
    fn from(reason: Reason) -> Self {
        Self { reason, id: None }
    }
}

/// The keys of an envelope. Any other key is ignored; a repeated one is an error.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    // `null` counts as absent: several clients write it.
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Keeps a `null` apart from an absent key: serde alone reads both as `None`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl<'a> Message<'a> {
    /// Reads one message.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, EnvelopeError> {
        let text = std::str::from_utf8(bytes).map_err(|e| Reason::Encoding(e.valid_up_to()))?;
        let text = text.trim_start_matches([' ', '\t', '\n', '\r']);
        if !text.starts_with('{') {
            return Err(not_an_object(text).into());
        }
        let parts: Parts<'_> = serde_json::from_str(text).map_err(|e| match e.classify() {
            Category::Data => Reason::Shape(e.to_string()),
            _ => Reason::Syntax(e.to_string()),
        })?;
        let id = parts.id.filter(|id| text::is_id(id.get()));
        parts.message().map_err(|reason| EnvelopeError { reason, id: id.map(ToOwned::to_owned) })
    }

    /// Returns the method of a request or notification.
    #[must_use]
    pub fn method(&self) -> Option<&str> {
        match self {
            Self::Request(Request { method, .. }) | Self::Notification(Notification { method, .. }) => {
                Some(method)
            }
            Self::Response(_) | Self::Error(_) => None,
        }
    }

    /// Returns the id, if there is one.
    #[must_use]
    pub fn id(&self) -> Option<&'a RawValue> {
        match self {
            Self::Request(Request { id, .. }) | Self::Response(Response { id, .. }) => Some(id),
            Self::Error(ErrorResponse { id, .. }) => *id,
            Self::Notification(_) => None,
        }
    }
}

impl<'a> Parts<'a> {
    fn message(self) -> Result<Message<'a>, Reason> {
        if self.jsonrpc.and_then(|version| text::unquoted(version.get())).as_deref() != Some("2.0") {
            return Err(Reason::Version);
        }
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => {
                let method = text::unquoted(method.get())
                    .ok_or_else(|| Reason::Shape("`method` must be a string".into()))?;
                let params = self.params;
                if params.is_some_and(|params| !text::is_object(params.get())) {
                    return Err(Reason::Params);
                }
                // The envelope itself is the first level.
                if params.is_some_and(|params| nesting::nests_deeper(params.get().as_bytes(), MAX_DEPTH - 1))
                {
                    return Err(Reason::Depth);
                }
                Ok(match self.id {
                    Some(_) => Message::Request(Request { id: required_id(self.id)?, method, params }),
                    None => Message::Notification(Notification { method, params }),
                })
            }
            (None, Some(result), None) if text::is_object(result.get()) => {
                Ok(Message::Response(Response { id: required_id(self.id)?, result }))
            }
            (None, Some(_), None) => Err(Reason::Shape("`result` must be an object".into())),
            (None, None, Some(error)) if text::is_object(error.get()) => {
                let id = self.id.filter(|id| id.get() != "null");
                Ok(Message::Error(ErrorResponse {
                    id: id.map(|id| required_id(Some(id))).transpose()?,
                    error,
                }))
            }
            (None, None, Some(_)) => Err(Reason::Shape("`error` must be an object".into())),
            _ => Err(Reason::Shape("exactly one of `method`, `result` and `error` must be present".into())),
        }
    }
}

fn required_id(id: Option<&RawValue>) -> Result<&RawValue, Reason> {
    id.filter(|id| text::is_id(id.get())).ok_or(Reason::Id)
}

fn not_an_object(text: &str) -> Reason {
    match serde_json::from_str::<&RawValue>(text) {
        Err(error) => Reason::Syntax(error.to_string()),
        Ok(value) if value.get().starts_with('[') => Reason::Batch,
        Ok(_) => Reason::Shape("expected a JSON object".into()),
    }
}

#[cfg(test)]
mod tests;
