//! [`Meta`]: the keys of `_meta` that the protocol reserves; and [`RequestMeta`], which rewrites them for a
//! backend. All other keys pass.

use std::borrow::Cow;

use serde_json::value::RawValue;
use vmcp_json::object::{Edit, Object};
use vmcp_json::text;

use crate::message::era::Revision;
use crate::message::owned::{OwnedParams, Splice};

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

/// The prefix of the keys that belong to the protocol and its official extensions.
const RESERVED_PREFIX: &str = "io.modelcontextprotocol/";

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

    /// Returns the trace context. A malformed `traceparent` is ignored, and the rest with it.
    #[must_use]
    pub fn trace(&self) -> Trace<'a> {
        let Some(traceparent) = self.object.get_str(TRACEPARENT).filter(|text| is_traceparent(text)) else {
            return Trace::default();
        };
        Trace {
            traceparent: Some(traceparent),
            tracestate: self.object.get_str(TRACESTATE),
            baggage: self.object.get_str(BAGGAGE),
        }
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

/// The changes to the metadata of a request on its way to a backend.
#[derive(Debug, Clone, Default)]
pub struct RequestMeta<'a> {
    /// The reserved keys that the backend's era wants.
    pub stamp: Stamp<'a>,
    /// The change of the progress token.
    pub progress_token: ProgressToken<'a>,
    /// The trace context to send on. A part that is given replaces the one that came; an absent one leaves
    /// it.
    pub trace: Trace<'a>,
}

/// The reserved keys of a request to a backend.
#[derive(Debug, Clone, Copy, Default)]
pub enum Stamp<'a> {
    /// Removed: a legacy backend knows them from its session, and some refuse a request that repeats them.
    #[default]
    Legacy,
    /// Written: a modern backend wants them in each request.
    Modern {
        /// The revision that the backend speaks.
        revision: Revision,
        /// `Implementation` of vmcp or of the client, as JSON.
        client_info: Option<&'a str>,
        /// `ClientCapabilities` as JSON: those that the client declared and vmcp relays.
        client_capabilities: &'a str,
        /// The log level as plain text; `None` asks for no log messages.
        log_level: Option<&'a str>,
    },
}

/// The change of the client's progress token.
#[derive(Debug, Clone, Copy, Default)]
pub enum ProgressToken<'a> {
    /// Relays it as it is.
    #[default]
    Keep,
    /// Removes it: no client listens for progress.
    Remove,
    /// Replaces it by a token of vmcp, as JSON: the tokens of several clients must not meet on one
    /// connection.
    Replace(&'a str),
}

impl<'a> RequestMeta<'a> {
    /// Begins the splice of the metadata of `params` that makes these changes.
    pub(crate) fn splice(&self, params: &'a OwnedParams) -> Splice<'a> {
        let mut splice = Splice::of_meta(params);
        match self.stamp {
            Stamp::Legacy => {
                splice.remove_where(|key| key.starts_with(RESERVED_PREFIX) && key != RELATED_TASK);
            }
            Stamp::Modern { revision, client_info, client_capabilities, log_level } => {
                splice.set(PROTOCOL_VERSION, text::quoted(revision.as_str()));
                match client_info {
                    Some(info) => splice.set(CLIENT_INFO, info),
                    None => splice.remove(CLIENT_INFO),
                }
                splice.set(CLIENT_CAPABILITIES, client_capabilities);
                match log_level {
                    Some(level) => splice.set(LOG_LEVEL, text::quoted(level)),
                    None => splice.remove(LOG_LEVEL),
                }
            }
        }
        match self.progress_token {
            ProgressToken::Keep => {}
            ProgressToken::Remove => splice.remove(PROGRESS_TOKEN),
            ProgressToken::Replace(token) => splice.set(PROGRESS_TOKEN, token),
        }
        let Trace { traceparent, tracestate, baggage } = &self.trace;
        for (key, value) in [(TRACEPARENT, traceparent), (TRACESTATE, tracestate), (BAGGAGE, baggage)] {
            if let Some(value) = value {
                splice.set(key, text::quoted(value));
            }
        }
        splice
    }
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

    fn rewritten(meta: &str, changes: &RequestMeta<'_>) -> String {
        let params = OwnedParams::from_text(format!(r#"{{"_meta":{meta}}}"#)).unwrap();
        let mut out = Vec::new();
        changes.splice(&params).write_to(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_legacy_backend_gets_no_reserved_keys() {
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28", "progressToken" : 7,"com.example/x":[1]}"#;
        assert_eq!(rewritten(meta, &RequestMeta::default()), r#"{"progressToken" : 7,"com.example/x":[1]}"#);
        let of_a_task = r#"{"io.modelcontextprotocol/related-task":{"taskId":"t"}}"#;
        assert_eq!(rewritten(of_a_task, &RequestMeta::default()), of_a_task);
    }

    #[test]
    fn a_modern_backend_gets_all_of_them_and_the_rest_as_it_was() {
        let stamp = Stamp::Modern {
            revision: Revision::MODERN,
            client_info: None,
            client_capabilities: r#"{"elicitation":{}}"#,
            log_level: Some("debug"),
        };
        let trace = Trace { traceparent: Some("00-1".into()), ..Trace::default() };
        let changes = RequestMeta { stamp, progress_token: ProgressToken::Replace("\"p1\""), trace };
        let meta = r#"{"io.modelcontextprotocol/clientInfo":{"name":"c"},"progressToken":7,"x":1e400}"#;
        assert_eq!(
            rewritten(meta, &changes),
            r#"{"progressToken":"p1","x":1e400,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/logLevel":"debug","traceparent":"00-1"}"#
        );
    }

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
    }
}
