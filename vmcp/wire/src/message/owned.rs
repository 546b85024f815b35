//! [`OwnedMessage`]: a client's message, read once from the received bytes and kept as those bytes and the
//! offsets of its parts. `Send + 'static`, and cheap to clone; every part is a slice of the one text.
//!
//! [`OwnedMessage::parse`] accepts what [`Message::parse`] and [`Params`](crate::params::Params) accept
//! together, in one pass instead of five. A message that it does not accept is read again by those two, for
//! the words of the refusal. Beyond that it refuses reserved keys in another letter case, in requests that
//! backends answer.

mod meta;
mod params;
mod read;
mod splice;
mod subject;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;
use serde_json::value::RawValue;
use vmcp_json::text;

use crate::message::envelope::{EnvelopeError, MAX_DEPTH, Message, Reason};
pub use meta::OwnedMeta;
pub use params::OwnedParams;
use read::{Envelope, Span};
pub(crate) use splice::Splice;

/// One message. The caller bounds the number of bytes.
///
/// ```
/// use vmcp_wire::owned::OwnedMessage;
///
/// let body = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":1}}}"#;
/// let OwnedMessage::Request(request) = OwnedMessage::parse(body.into())? else { unreachable!() };
/// assert_eq!((request.id().get(), request.method()), ("7", "tools/call"));
/// assert_eq!(request.subject().as_deref(), Some("echo"));
/// assert_eq!(request.params().meta().progress_token(), Some("1"));
/// # Ok::<(), vmcp_wire::envelope::EnvelopeError>(())
/// ```
#[derive(Debug, Clone)]
pub enum OwnedMessage {
    /// A request, which wants an answer.
    Request(OwnedRequest),
    /// A notification, which wants none.
    Notification(OwnedNotification),
    /// The result of a request.
    Response(OwnedResponse),
    /// The error that answers a request.
    Error(OwnedErrorResponse),
}

/// A request.
#[derive(Debug, Clone)]
pub struct OwnedRequest {
    id: Arc<RawValue>,
    method: Method,
    params: OwnedParams,
}

/// A notification.
#[derive(Debug, Clone)]
pub struct OwnedNotification {
    method: Method,
    params: OwnedParams,
}

/// The result of a request.
#[derive(Debug, Clone)]
pub struct OwnedResponse {
    id: Box<RawValue>,
    result: Box<RawValue>,
}

/// The error that answers a request.
#[derive(Debug, Clone)]
pub struct OwnedErrorResponse {
    id: Option<Box<RawValue>>,
    error: Box<RawValue>,
}

/// A method's name: a slice of the message, unless it was written with escapes.
#[derive(Debug, Clone)]
enum Method {
    Plain(Span),
    Escaped(Box<str>),
}

impl OwnedMessage {
    /// Reads one message.
    pub fn parse(bytes: Bytes) -> Result<Self, EnvelopeError> {
        let text = ByteString::try_from(bytes).map_err(|error| Reason::Encoding(error.valid_up_to()))?;
        match Envelope::read(&text) {
            Ok(envelope) => envelope.message(text),
            Err(unexpected) => Err(worded(&text, &unexpected.to_string())),
        }
    }

    /// Returns the method of a request or notification.
    #[must_use]
    pub fn method(&self) -> Option<&str> {
        match self {
            Self::Request(request) => Some(request.method()),
            Self::Notification(notification) => Some(notification.method()),
            Self::Response(_) | Self::Error(_) => None,
        }
    }

    /// Returns the id, if there is one.
    #[must_use]
    pub fn id(&self) -> Option<&RawValue> {
        match self {
            Self::Request(request) => Some(request.id()),
            Self::Notification(_) => None,
            Self::Response(response) => Some(response.id()),
            Self::Error(error) => error.id(),
        }
    }
}

impl OwnedRequest {
    /// Returns the id: a string or an integer, as written; echo it as it is.
    #[must_use]
    pub fn id(&self) -> &RawValue {
        &self.id
    }

    /// Returns the method.
    #[must_use]
    pub fn method(&self) -> &str {
        self.method.of(&self.params.message)
    }

    /// Returns the parameters.
    #[must_use]
    pub fn params(&self) -> &OwnedParams {
        &self.params
    }

    /// Returns the tool, prompt, resource or task that the request names, see [`fn@crate::subject::get`].
    #[must_use]
    pub fn subject(&self) -> Option<Cow<'_, str>> {
        self.params.subject(self.method())
    }
}

impl OwnedNotification {
    /// Returns the method.
    #[must_use]
    pub fn method(&self) -> &str {
        self.method.of(&self.params.message)
    }

    /// Returns the parameters.
    #[must_use]
    pub fn params(&self) -> &OwnedParams {
        &self.params
    }
}

impl OwnedResponse {
    /// Returns the id of the request.
    #[must_use]
    pub fn id(&self) -> &RawValue {
        &self.id
    }

    /// Returns the result, an object.
    #[must_use]
    pub fn result(&self) -> &RawValue {
        &self.result
    }
}

impl OwnedErrorResponse {
    /// Returns the id of the request; `None` if its receiver could not read one.
    #[must_use]
    pub fn id(&self) -> Option<&RawValue> {
        self.id.as_deref()
    }

    /// Returns the error, an object.
    #[must_use]
    pub fn error(&self) -> &RawValue {
        &self.error
    }
}

impl Method {
    fn of<'a>(&'a self, text: &'a str) -> &'a str {
        match self {
            Self::Plain(span) => span.of(text),
            Self::Escaped(name) => name,
        }
    }
}

impl Envelope {
    /// Sorts the parts into one of the four kinds of message.
    fn message(self, text: ByteString) -> Result<OwnedMessage, EnvelopeError> {
        let id = self.id.filter(|id| text::is_id(id.of(&text))).map(|id| id.raw(&text));
        let refuse = |reason| Err(EnvelopeError { reason, id: id.clone() });
        let shape = |problem: &str| refuse(Reason::Shape(problem.to_owned()));
        let is_object = |span: &Span| text::is_object(span.of(&text));
        let version = self.version.and_then(|version| text::unquoted(version.of(&text)));
        if version.as_deref() != Some("2.0") {
            return refuse(Reason::Version);
        }
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => {
                let method = match text::unquoted(method.of(&text)) {
                    Some(Cow::Borrowed(_)) => Method::Plain(method.unquoted()),
                    Some(Cow::Owned(name)) => Method::Escaped(name.into()),
                    None => return shape("`method` must be a string"),
                };
                if self.params.is_some_and(|params| !is_object(&params)) {
                    return refuse(Reason::Params);
                }
                // The envelope itself is the first level.
                if self.keys.depth >= MAX_DEPTH {
                    return refuse(Reason::Depth);
                }
                if self.id.is_some() != id.is_some() {
                    return refuse(Reason::Id);
                }
                if let Err(error) = self.keys.check(&text) {
                    return refuse(Reason::ParamKeys(error));
                }
                if id.is_some()
                    && let Some((written, key)) = self.keys.misspelled(&text, method.of(&text))
                {
                    return refuse(Reason::LetterCase { written, key });
                }
                let params = OwnedParams::new(text, self.params, self.keys);
                Ok(match id {
                    Some(id) => OwnedMessage::Request(OwnedRequest { id: id.into(), method, params }),
                    None => OwnedMessage::Notification(OwnedNotification { method, params }),
                })
            }
            (None, Some(result), None) if is_object(&result) => match id {
                Some(id) => Ok(OwnedMessage::Response(OwnedResponse { id, result: result.raw(&text) })),
                None => refuse(Reason::Id),
            },
            (None, Some(_), None) => shape("`result` must be an object"),
            (None, None, Some(error)) if is_object(&error) => {
                let is_null = self.id.is_none_or(|id| id.of(&text) == "null");
                if id.is_none() && !is_null {
                    return refuse(Reason::Id);
                }
                Ok(OwnedMessage::Error(OwnedErrorResponse { id, error: error.raw(&text) }))
            }
            (None, None, Some(_)) => shape("`error` must be an object"),
            _ => shape("exactly one of `method`, `result` and `error` must be present"),
        }
    }
}

/// Returns the refusal of a text that is not a message, in the words of the parser.
fn worded(text: &str, otherwise: &str) -> EnvelopeError {
    match Message::parse(text.as_bytes()) {
        Err(error) => error,
        Ok(_) => Reason::Syntax(otherwise.to_owned()).into(),
    }
}

#[cfg(test)]
mod tests;
