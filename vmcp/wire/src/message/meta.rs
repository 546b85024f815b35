//! [`Meta`]: the keys of `_meta` that the protocol reserves. All other keys pass.

use std::borrow::Cow;

use serde_json::value::RawValue;
use vmcp_json::object::{Edit, Object};
use vmcp_json::text;

/// `_meta`, the key of the metadata itself.
pub const META: &str = "_meta";
/// The revision of a request (string).
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Name and version of the client (`Implementation`).
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The capabilities of the client (`ClientCapabilities`).
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The lowest level of log messages that the client wants; absent means no messages.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Name and version of the server (`Implementation`), in results.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The id of the `subscriptions/listen` request that a notification belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The task of 2025-11-25 that a message belongs to.
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// Opts a request into progress notifications (string or integer).
pub const PROGRESS_TOKEN: &str = "progressToken";
/// W3C Trace Context: trace id and parent span.
pub const TRACEPARENT: &str = "traceparent";
/// W3C Trace Context: the part of the vendors.
pub const TRACESTATE: &str = "tracestate";
/// W3C Baggage.
pub const BAGGAGE: &str = "baggage";

/// The keys of a `_meta` object.
#[derive(Debug, Clone, Default)]
pub struct Meta<'a> {
    object: Object<'a>,
}

impl<'a> From<Object<'a>> for Meta<'a> {
    fn from(object: Object<'a>) -> Self {
        Self { object }
    }
}

impl<'a> Meta<'a> {
    /// Returns all keys.
    #[must_use]
    pub fn object(&self) -> &Object<'a> {
        &self.object
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.object.get(key)
    }

    /// Returns name and version of the client, if they are an object.
    #[must_use]
    pub fn client_info(&self) -> Option<&'a RawValue> {
        self.get(CLIENT_INFO).filter(|info| text::is_object(info.get()))
    }

    /// Returns the client's name, for logs and for the spelling of tool names; never for security.
    #[must_use]
    pub fn client_name(&self) -> Option<Cow<'a, str>> {
        Object::parse_valid(self.object.text(CLIENT_INFO)?).ok()?.get_str("name")
    }

    /// Returns the client's capabilities, if they are an object.
    #[must_use]
    pub fn client_capabilities(&self) -> Option<&'a RawValue> {
        self.get(CLIENT_CAPABILITIES).filter(|capabilities| text::is_object(capabilities.get()))
    }

    /// Returns the log level that the client wants for this request.
    #[must_use]
    pub fn log_level(&self) -> Option<Cow<'a, str>> {
        self.object.get_str(LOG_LEVEL)
    }

    /// Returns the progress token, as written.
    #[must_use]
    pub fn progress_token(&self) -> Option<&'a RawValue> {
        self.get(PROGRESS_TOKEN).filter(|token| text::is_id(token.get()))
    }

    /// Returns the trace context. A malformed `traceparent` is ignored, and `tracestate` with it; baggage
    /// needs no trace. A malformed `tracestate` is ignored alone.
    #[must_use]
    pub fn trace(&self) -> Trace<'a> {
        let traceparent = self.object.get_str(TRACEPARENT).filter(|text| is_traceparent(text));
        let tracestate = traceparent.as_ref().and_then(|_| self.object.get_str(TRACESTATE));
        let tracestate = tracestate.filter(|text| is_tracestate(text));
        Trace { traceparent, tracestate, baggage: self.object.get_str(BAGGAGE) }
    }
}

/// A trace context, as it travels in `_meta` and in the HTTP headers of the same names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace<'a> {
    /// Trace id and parent span.
    pub traceparent: Option<Cow<'a, str>>,
    /// The part of the vendors.
    pub tracestate: Option<Cow<'a, str>>,
    /// Application-defined properties.
    pub baggage: Option<Cow<'a, str>>,
}

impl Trace<'_> {
    /// Returns the same context, which borrows its parts.
    #[must_use]
    pub fn borrowed(&self) -> Trace<'_> {
        Trace {
            traceparent: self.traceparent.as_deref().map(Cow::Borrowed),
            tracestate: self.tracestate.as_deref().map(Cow::Borrowed),
            baggage: self.baggage.as_deref().map(Cow::Borrowed),
        }
    }
}

/// True if `text` is a W3C `traceparent`: a version, 32 hex digits, 16 and 2, joined by `-`, neither id all
/// zeros. Later versions than `00` may append fields; `ff` is invalid.
#[must_use]
pub fn is_traceparent(text: &str) -> bool {
    let hex = |field: Option<&str>, length| {
        field.is_some_and(|f| f.len() == length && f.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
    };
    let id = |field: Option<&str>, length| {
        hex(field, length) && field.is_some_and(|f| f.bytes().any(|b| b != b'0'))
    };
    let mut fields = text.split('-');
    let version = fields.next();
    let well_formed =
        hex(version, 2) && id(fields.next(), 32) && id(fields.next(), 16) && hex(fields.next(), 2);
    well_formed && version != Some("ff") && (version != Some("00") || fields.next().is_none())
}

/// Most members of a `tracestate`.
const MAX_STATES: usize = 32;

/// True if `text` is a W3C `tracestate`: at most 32 members `key=value`, separated by commas. Spaces around
/// a member do not count, and members may be empty.
#[must_use]
pub fn is_tracestate(text: &str) -> bool {
    let members = text.split(',').map(|member| member.trim_matches([' ', '\t']));
    let mut members = members.filter(|member| !member.is_empty());
    let is_member = |member: &str| {
        member.split_once('=').is_some_and(|(key, value)| is_state_key(key) && is_state_value(value))
    };
    members.by_ref().take(MAX_STATES).all(is_member) && members.next().is_none()
}

/// True for a key: a name, or a tenant and a system around `@`.
fn is_state_key(key: &str) -> bool {
    let is_name = |name: &str, most: usize| {
        let is_part = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'*' | b'/')
        };
        let begin = name.bytes().next();
        begin.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            && name.len() <= most
            && name.bytes().all(is_part)
    };
    match key.split_once('@') {
        None => is_name(key, 256),
        Some((tenant, system)) => is_name(tenant, 241) && is_name(system, 14),
    }
}

/// True for a value: printable ASCII, but for the comma and the equals sign.
fn is_state_value(value: &str) -> bool {
    let is_part = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'=');
    (1..=256).contains(&value.len()) && value.bytes().all(is_part)
}

/// Puts edited metadata back into its object. Metadata that has become empty is removed, and not added if
/// absent.
pub(crate) fn put_back<'a>(outer: &mut Edit<'_, 'a>, meta: Edit<'_, 'a>) {
    if meta.is_unchanged() {
        return;
    }
    if meta.is_empty() {
        outer.remove(META);
    } else {
        outer.set(META, meta.finish());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ill_formed_traceparent_starts_no_trace() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
        assert!(is_traceparent(good));
        assert!(is_traceparent(&good.replace("00-0a", "cc-0a").replace("-01", "-01-more")));
        let zero = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        for bad in
            ["", "00", zero, &good.to_uppercase(), &format!("{good}-x"), &good.replace("00-0a", "ff-0a")]
        {
            assert!(!is_traceparent(bad), "{bad}");
        }
        let text = format!(r#"{{"traceparent":"x","tracestate":"a=b","ok":"{good}"}}"#);
        assert_eq!(Meta::from(Object::parse_str(&text).unwrap()).trace(), Trace::default());
        let text = r#"{"traceparent":"x","tracestate":"a=b","baggage":"tenant=blue"}"#;
        let trace = Meta::from(Object::parse_str(text).unwrap()).trace();
        assert_eq!(trace, Trace { baggage: Some("tenant=blue".into()), ..Trace::default() });
        let text = format!(r#"{{"traceparent":"{good}","tracestate":"a=1,B=2"}}"#);
        let trace = Meta::from(Object::parse_str(&text).unwrap()).trace();
        assert_eq!(trace, Trace { traceparent: Some(good.into()), ..Trace::default() });
    }

    /// Cases of the W3C's validation suite.
    #[test]
    fn a_state_is_a_list_of_members() {
        let members = |number: usize| (0..number).map(|at| format!("m{at}=1")).collect::<Vec<_>>().join(",");
        let key = |tenant: usize, system: usize| format!("{}@{}=1", "t".repeat(tenant), "v".repeat(system));
        for good in [
            "foo=1",
            "foo=1 \t , \t bar=2, \t baz=3",
            "foo=1,,bar=2,",
            "0@v_-*/=!\"#$ ~",
            &members(32),
            &key(241, 14),
            &format!("{}={}", "z".repeat(256), "v".repeat(256)),
        ] {
            assert!(is_tracestate(good), "{good}");
        }
        for bad in [
            "foo",
            "=1",
            "foo =1",
            "FOO=1",
            "foo.bar=1",
            "foo@=1,bar=2",
            "@foo=1,bar=2",
            "foo@@bar=1",
            "foo@bar@baz=1",
            "foo=bar=baz",
            "foo=,bar=3",
            "foo=\u{e9}",
            "foo=a\nb",
            &members(33),
            &key(242, 1),
            &key(1, 15),
            &format!("{}=1", "z".repeat(257)),
            &format!("a={}", "v".repeat(257)),
        ] {
            assert!(!is_tracestate(bad), "{bad}");
        }
    }
}
