//! Decides the era of a message by its headers and body, or refuses a message that belongs to none.
//!
//! Source: MCP 2026-07-28, basic/versioning ("a dual-era server selects its behavior from how the client
//! opens"), basic/transports/streamable-http ("Request Metadata", "Server Validation").

use vmcp_json::text;

use crate::headers::{self, Field, HeaderSource};
use crate::message::owned::{OwnedMessage, OwnedRequest};
use crate::message::rpc::Refusal;
use crate::message::{codes, meta, methods};
use crate::message::{era::Era, era::Revision};

/// The era by which a message is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEra {
    /// Stateless, by the revision that the message names. Its headers are checked against its body, and the
    /// `_meta` of a request holds the required keys.
    Modern(Revision),
    /// Within a session, or to open one, by the revision in `MCP-Protocol-Version`. It is absent on
    /// `initialize` and in revisions before 2025-06-18.
    Legacy(Option<Revision>),
}

impl RequestEra {
    /// Returns the era alone.
    #[must_use]
    pub fn era(&self) -> Era {
        match self {
            Self::Modern(_) => Era::Modern,
            Self::Legacy(_) => Era::Legacy,
        }
    }
}

/// Classifies the message of an HTTP POST.
///
/// `Mcp-Param-*` is not checked here, since it depends on the tool: see [`headers::check_param_headers`].
///
/// ```
/// use vmcp_wire::era::Era;
/// use vmcp_wire::headers::classify;
/// use vmcp_wire::owned::OwnedMessage;
///
/// let message = OwnedMessage::parse(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.into())?;
/// let headers = [("MCP-Protocol-Version", "2025-06-18")];
/// assert_eq!(classify(headers.as_slice(), &message)?.era(), Era::Legacy);
///
/// let unknown = [("MCP-Protocol-Version", "1999-01-01")];
/// assert_eq!(classify(unknown.as_slice(), &message).map(|era| era.era()).unwrap_err().status, 400);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn classify<H>(headers: &H, message: &OwnedMessage) -> Result<RequestEra, Refusal>
where
    H: HeaderSource + ?Sized,
{
    let header = match headers.field(headers::PROTOCOL_VERSION) {
        Field::Absent => None,
        Field::One(text) => Some(text),
        Field::Invalid => {
            return Err(mismatch("MCP-Protocol-Version must be a single visible ASCII value".into()));
        }
    };
    match message {
        OwnedMessage::Request(request) => classify_request(header, request, Some(headers)),
        OwnedMessage::Notification(_) => by_header(header),
        OwnedMessage::Response(_) | OwnedMessage::Error(_) => match by_header(header)? {
            RequestEra::Modern(_) => Err(Refusal::new(
                codes::INVALID_REQUEST,
                "clients of 2026-07-28 send requests and notifications only; input goes into `inputResponses`",
            )),
            legacy @ RequestEra::Legacy(_) => Ok(legacy),
        },
    }
}

/// Classifies a message from standard input, where there are no headers. Only a request states its era; a
/// notification reads as legacy here, and belongs to the era of the request that it is about.
pub fn classify_stdio(message: &OwnedMessage) -> Result<RequestEra, Refusal> {
    match message {
        OwnedMessage::Request(request) => classify_request(None, request, None::<&headers::NoHeaders>),
        OwnedMessage::Notification(_) | OwnedMessage::Response(_) | OwnedMessage::Error(_) => {
            Ok(RequestEra::Legacy(None))
        }
    }
}

fn classify_request<H>(
    header: Option<&str>,
    request: &OwnedRequest,
    headers: Option<&H>,
) -> Result<RequestEra, Refusal>
where
    H: HeaderSource + ?Sized,
{
    let (method, params) = (request.method(), request.params());
    let named = params.meta().get(meta::PROTOCOL_VERSION);
    // Before any check of headers: a method that the modern revision removed has no headers that could be
    // right.
    if names_modern(named) && !methods::exists(method, Era::Modern) {
        return Err(Refusal::method_not_found(method));
    }
    if method == methods::INITIALIZE {
        // The handshake is legacy whatever version it names, and its revision is not settled yet. A proxy may
        // still have routed it by `Mcp-Method`, so that header must be right where present.
        if let Some(headers) = headers {
            headers::check_method(headers, method, headers::Presence::Optional)?;
        }
        return Ok(RequestEra::Legacy(None));
    }
    let Some(named) = named else {
        let era = by_header(header)?;
        return match era {
            RequestEra::Modern(_) => Err(missing_meta(meta::PROTOCOL_VERSION)),
            RequestEra::Legacy(_) if method == methods::DISCOVER => Err(missing_meta(meta::PROTOCOL_VERSION)),
            RequestEra::Legacy(_) => Ok(era),
        };
    };
    let Some(named) = text::unquoted(named) else {
        return Err(bad_meta(meta::PROTOCOL_VERSION, "must be a string"));
    };
    if headers.is_some() && header != Some(named.as_ref()) {
        let header = header.map_or("is missing".to_owned(), |header| format!("`{header}` differs"));
        return Err(mismatch(format!(
            "header MCP-Protocol-Version {header}; the body's `_meta` says `{named}`"
        )));
    }
    let revision = Revision::parse(&named).ok_or_else(|| unsupported(&named))?;
    if revision.era() == Era::Legacy {
        return Ok(RequestEra::Legacy(Some(revision)));
    }
    match params.meta().get(meta::CLIENT_CAPABILITIES) {
        None => return Err(missing_meta(meta::CLIENT_CAPABILITIES)),
        Some(capabilities) if !text::is_object(capabilities) => {
            return Err(bad_meta(meta::CLIENT_CAPABILITIES, "must be an object"));
        }
        Some(_) => {}
    }
    if let Some(headers) = headers {
        headers::check_method(headers, method, headers::Presence::Required)?;
        headers::check_name(headers, method, params)?;
    }
    Ok(RequestEra::Modern(revision))
}

/// True if a value of `_meta`, as JSON, names a revision of the modern era.
fn names_modern(named: Option<&str>) -> bool {
    let named = named.and_then(text::unquoted);
    named.and_then(|named| Revision::parse(&named)).is_some_and(|revision| revision.era() == Era::Modern)
}

/// Classifies a message that has no version in its body.
fn by_header(header: Option<&str>) -> Result<RequestEra, Refusal> {
    let revision = header.map(|text| Revision::parse(text).ok_or_else(|| unsupported(text))).transpose()?;
    Ok(match revision {
        Some(revision) if revision.era() == Era::Modern => RequestEra::Modern(revision),
        legacy => RequestEra::Legacy(legacy),
    })
}

fn missing_meta(key: &str) -> Refusal {
    bad_meta(key, "is required in every request of 2026-07-28")
}

fn bad_meta(key: &str, problem: &str) -> Refusal {
    Refusal::new(codes::INVALID_PARAMS, format!("`params._meta[\"{key}\"]` {problem}"))
}

fn mismatch(message: String) -> Refusal {
    Refusal::new(codes::HEADER_MISMATCH, message)
}

fn unsupported(requested: &str) -> Refusal {
    let supported: Vec<_> = Revision::ALL.map(|revision| text::quoted(revision.as_str())).into();
    let data =
        format!(r#"{{"supported":[{}],"requested":{}}}"#, supported.join(","), text::quoted(requested));
    Refusal::new(codes::UNSUPPORTED_PROTOCOL_VERSION, "unsupported protocol version").with_data(data)
}

#[cfg(test)]
mod tests;
