//! The HTTP headers that repeat parts of a modern message: checked against the body of a client, built for a
//! backend; and [`classify()`], which decides the era of a message by both.
//!
//! Source: MCP 2026-07-28, basic/transports/streamable-http, "Request Metadata".

mod classify;
mod param;
mod value;

pub use classify::{RequestEra, classify, classify_stdio};
pub use param::{ParamHeader, build_param_headers, check_param_headers};
pub use value::{decode, encode};

use std::borrow::Cow;

use crate::message::era::Revision;
use crate::message::owned::OwnedParams;
use crate::message::rpc::Refusal;
use crate::message::{codes, subject};

/// The revision; must equal the one in `_meta`.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// The method.
pub const METHOD: &str = "mcp-method";
/// The subject of the request: a tool, a prompt, a URI or a task.
pub const NAME: &str = "mcp-name";
/// The prefix of the headers that repeat tool arguments.
pub const PARAM_PREFIX: &str = "mcp-param-";
/// The session of a legacy client; a modern one has none.
pub const SESSION_ID: &str = "mcp-session-id";
/// The last event that a legacy client received before its stream broke off.
pub const LAST_EVENT_ID: &str = "last-event-id";

/// One header of a request. A header that occurs twice must not be read: a proxy in front may have routed the
/// request by the other value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field<'a> {
    /// The header is absent.
    Absent,
    /// The header occurs once, in visible ASCII, spaces and tabs.
    One(&'a str),
    /// The header occurs more than once, or holds other bytes.
    Invalid,
}

/// The headers of a request, in any container. Names are compared without regard to case; this crate asks for
/// names in lower case.
pub trait HeaderSource {
    /// Returns the header of that name.
    fn field(&self, name: &str) -> Field<'_>;
}

/// A source without headers, for stdio.
pub(crate) struct NoHeaders;

impl HeaderSource for NoHeaders {
    fn field(&self, _: &str) -> Field<'_> {
        Field::Absent
    }
}

impl<N: AsRef<str>, V: AsRef<str>> HeaderSource for [(N, V)] {
    fn field(&self, name: &str) -> Field<'_> {
        let mut found = self.iter().filter(|(candidate, _)| candidate.as_ref().eq_ignore_ascii_case(name));
        match (found.next(), found.next()) {
            (None, _) => Field::Absent,
            (Some((_, value)), None) if value::is_visible(value.as_ref()) => Field::One(value.as_ref()),
            _ => Field::Invalid,
        }
    }
}

/// If a header is required or optional.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    Optional,
}

/// Checks `Mcp-Method` against the body.
pub(crate) fn check_method<H>(headers: &H, method: &str, presence: Presence) -> Result<(), Refusal>
where
    H: HeaderSource + ?Sized,
{
    match headers.field(METHOD) {
        Field::One(header) if header == method => Ok(()),
        Field::One(header) => Err(mismatch(format!("header Mcp-Method `{header}`, body `{method}`"))),
        Field::Absent if presence == Presence::Optional => Ok(()),
        Field::Absent => Err(mismatch("header Mcp-Method is missing".into())),
        Field::Invalid => Err(mismatch("header Mcp-Method must be a single visible ASCII value".into())),
    }
}

/// Checks `Mcp-Name` against the body. A body that names no subject passes: the handler of the method refuses
/// it.
pub(crate) fn check_name<H>(headers: &H, method: &str, params: &OwnedParams) -> Result<(), Refusal>
where
    H: HeaderSource + ?Sized,
{
    let Some(subject) = subject::key(method).and_then(|key| params.get_str(key)) else {
        return Ok(());
    };
    match decoded(headers, NAME)? {
        Some(header) if header == subject => Ok(()),
        Some(header) => Err(mismatch(format!("header Mcp-Name `{header}`, body `{subject}`"))),
        None => Err(mismatch(format!("header Mcp-Name is missing; the body says `{subject}`"))),
    }
}

/// Builds the standard headers of a request to a modern backend. `subject` is the one that the body names, in
/// the backend's spelling; it is ignored for methods that send no `Mcp-Name`.
#[must_use]
pub fn build(revision: Revision, method: &str, subject: Option<&str>) -> Vec<(&'static str, String)> {
    let mut headers = vec![(PROTOCOL_VERSION, revision.as_str().to_owned()), (METHOD, method.to_owned())];
    if let (Some(_), Some(subject)) = (subject::key(method), subject) {
        headers.push((NAME, encode(subject).into_owned()));
    }
    headers
}

fn decoded<'h, H>(headers: &'h H, name: &str) -> Result<Option<Cow<'h, str>>, Refusal>
where
    H: HeaderSource + ?Sized,
{
    match headers.field(name) {
        Field::Absent => Ok(None),
        Field::One(text) => match decode(text) {
            Some(value) => Ok(Some(value)),
            None => Err(mismatch(format!("header {name} holds malformed base64"))),
        },
        Field::Invalid => Err(mismatch(format!("header {name} must be a single visible ASCII value"))),
    }
}

fn mismatch(message: String) -> Refusal {
    Refusal::new(codes::HEADER_MISMATCH, message)
}

#[cfg(test)]
mod tests;
