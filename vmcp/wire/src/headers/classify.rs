//! Decides the era of a message by its headers and body, or refuses a message that belongs to none.
//!
//! Source: MCP 2026-07-28, basic/versioning ("a dual-era server selects its behavior from how the client
//! opens"), basic/transports/streamable-http ("Request Metadata", "Server Validation").

use serde_json::value::RawValue;
use vmcp_json::text;

use crate::headers::{self, Field, HeaderSource};
use crate::message::params::Params;
use crate::message::rpc::Refusal;
use crate::message::{codes, meta, methods};
use crate::message::{envelope::Message, envelope::Request};
use crate::message::{era::Era, era::Revision};

/// The era by which a message is served.
#[derive(Debug, Clone)]
pub enum RequestEra<'a> {
    /// Stateless, by the revision that the message names.
    Modern(Modern<'a>),
    /// Within a session, or to open one.
    Legacy {
        /// The revision in `MCP-Protocol-Version`; absent on `initialize` and in revisions before 2025-06-18.
        header: Option<Revision>,
        /// The parameters, `{}` for a response.
        params: Params<'a>,
    },
}

/// A message of the modern era, its headers checked against its body.
#[derive(Debug, Clone)]
pub struct Modern<'a> {
    /// The revision of this request.
    pub revision: Revision,
    /// The parameters; for a request, `_meta` holds the required keys.
    pub params: Params<'a>,
}

impl RequestEra<'_> {
    /// Returns the era alone.
    #[must_use]
    pub fn era(&self) -> Era {
        match self {
            Self::Modern(_) => Era::Modern,
            Self::Legacy { .. } => Era::Legacy,
        }
    }
}

/// Classifies the message of an HTTP POST.
///
/// `Mcp-Param-*` is not checked here, since it depends on the tool: see [`headers::check_param_headers`].
///
/// ```
/// use vmcp_wire::envelope::Message;
/// use vmcp_wire::era::Era;
/// use vmcp_wire::headers::classify;
///
/// let message = Message::parse(br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)?;
/// let headers = [("MCP-Protocol-Version", "2025-06-18")];
/// assert_eq!(classify(headers.as_slice(), &message)?.era(), Era::Legacy);
///
/// let unknown = [("MCP-Protocol-Version", "1999-01-01")];
/// assert_eq!(classify(unknown.as_slice(), &message).map(|era| era.era()).unwrap_err().status, 400);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn classify<'a, H>(headers: &H, message: &Message<'a>) -> Result<RequestEra<'a>, Refusal>
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
        Message::Request(request) => classify_request(header, request, Some(headers)),
        Message::Notification(notification) => {
            let params = params(notification.params)?;
            by_header(header, params)
        }
        Message::Response(_) | Message::Error(_) => match by_header(header, Params::default())? {
            RequestEra::Modern(_) => Err(Refusal::new(
                codes::INVALID_REQUEST,
                "clients of 2026-07-28 send requests and notifications only; input goes into `inputResponses`",
            )),
            legacy @ RequestEra::Legacy { .. } => Ok(legacy),
        },
    }
}

/// Classifies a message from standard input, where there are no headers. Only a request states its era; a
/// notification reads as legacy here, and belongs to the era of the request that it is about.
pub fn classify_stdio<'a>(message: &Message<'a>) -> Result<RequestEra<'a>, Refusal> {
    match message {
        Message::Request(request) => classify_request(None, request, None::<&headers::NoHeaders>),
        Message::Notification(notification) => {
            Ok(RequestEra::Legacy { header: None, params: params(notification.params)? })
        }
        Message::Response(_) | Message::Error(_) => {
            Ok(RequestEra::Legacy { header: None, params: Params::default() })
        }
    }
}

fn classify_request<'a, H>(
    header: Option<&str>,
    request: &Request<'a>,
    headers: Option<&H>,
) -> Result<RequestEra<'a>, Refusal>
where
    H: HeaderSource + ?Sized,
{
    let params = params(request.params)?;
    let method = request.method.as_ref();
    // Before any check of headers: a method that the modern revision removed has no headers that could be
    // right.
    if names_modern(&params) && !methods::exists(method, Era::Modern) {
        return Err(Refusal::method_not_found(method));
    }
    if method == methods::INITIALIZE {
        // The handshake is legacy whatever version it names, and its revision is not settled yet. A proxy may
        // still have routed it by `Mcp-Method`, so that header must be right where present.
        if let Some(headers) = headers {
            headers::check_method(headers, method, headers::Presence::Optional)?;
        }
        return Ok(RequestEra::Legacy { header: None, params });
    }
    let Some(named) = params.meta.object().text(meta::PROTOCOL_VERSION) else {
        let era = by_header(header, params)?;
        return match era {
            RequestEra::Modern(_) => Err(missing_meta(meta::PROTOCOL_VERSION)),
            RequestEra::Legacy { .. } if method == methods::DISCOVER => {
                Err(missing_meta(meta::PROTOCOL_VERSION))
            }
            RequestEra::Legacy { .. } => Ok(era),
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
        return Ok(RequestEra::Legacy { header: Some(revision), params });
    }
    match params.meta.object().text(meta::CLIENT_CAPABILITIES) {
        None => return Err(missing_meta(meta::CLIENT_CAPABILITIES)),
        Some(capabilities) if !text::is_object(capabilities) => {
            return Err(bad_meta(meta::CLIENT_CAPABILITIES, "must be an object"));
        }
        Some(_) => {}
    }
    if let Some(headers) = headers {
        headers::check_method(headers, method, headers::Presence::Required)?;
        headers::check_name(headers, method, &params.object)?;
    }
    Ok(RequestEra::Modern(Modern { revision, params }))
}

fn names_modern(params: &Params<'_>) -> bool {
    let named = params.meta.object().get_str(meta::PROTOCOL_VERSION);
    named.and_then(|named| Revision::parse(&named)).is_some_and(|revision| revision.era() == Era::Modern)
}

/// Classifies a message that has no version in its body.
fn by_header<'a>(header: Option<&str>, params: Params<'a>) -> Result<RequestEra<'a>, Refusal> {
    let revision = header.map(|text| Revision::parse(text).ok_or_else(|| unsupported(text))).transpose()?;
    Ok(match revision.filter(|revision| revision.era() == Era::Modern) {
        Some(revision) => RequestEra::Modern(Modern { revision, params }),
        None => RequestEra::Legacy { header: revision, params },
    })
}

fn params(raw: Option<&RawValue>) -> Result<Params<'_>, Refusal> {
    Params::parse(raw).map_err(|error| Refusal::new(codes::INVALID_PARAMS, error.to_string()))
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
