//! [`RequestMeta`]: rewrites the reserved keys of `_meta` in a request for a backend. All other keys pass.

use std::borrow::Cow;

use vmcp_json::text;

use crate::message::era::Revision;
use crate::message::meta::{
    BAGGAGE, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROGRESS_TOKEN, PROTOCOL_VERSION, RELATED_TASK,
    TRACEPARENT, TRACESTATE, Trace,
};
use crate::message::owned::{OwnedParams, Splice};

/// The prefix of the keys that belong to the protocol and its official extensions.
const RESERVED_PREFIX: &str = "io.modelcontextprotocol/";

/// The changes to the metadata of a request on its way to a backend.
#[derive(Debug, Clone, Default)]
pub struct RequestMeta<'a> {
    /// The reserved keys that the backend's era wants.
    pub stamp: Stamp<'a>,
    /// The change of the progress token.
    pub progress_token: ProgressToken<'a>,
    /// The trace context to send on. It replaces that of the message; only `baggage`, which needs no trace,
    /// stays where this one has none.
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
        /// `ClientCapabilities` as JSON: the declared capabilities that vmcp relays.
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
                splice.set(PROTOCOL_VERSION, revision.as_json());
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
            match value {
                Some(Cow::Borrowed(value)) => splice.set_string(key, value),
                Some(Cow::Owned(value)) => splice.set(key, text::quoted(value)),
                // The client's is ill-formed, or a state without its trace.
                None if key != BAGGAGE => splice.remove(key),
                None => {}
            }
        }
        splice
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
    fn a_trace_is_added_or_replaced_with_its_escapes() {
        let own = Trace {
            traceparent: Some("00-1".into()),
            tracestate: Some("a=1".to_owned().into()),
            baggage: Some("name=\"b\\\"".into()),
        };
        for (trace, meta) in [(own.clone(), "{}"), (own.borrowed(), r#"{"x":1}"#), (own.borrowed(), "{}")] {
            let changes = RequestMeta { trace, ..RequestMeta::default() };
            let expected = r#""traceparent":"00-1","tracestate":"a=1","baggage":"name=\"b\\\""}"#;
            assert!(rewritten(meta, &changes).ends_with(expected), "{}", rewritten(meta, &changes));
        }
        let changes = RequestMeta { trace: own.borrowed(), ..RequestMeta::default() };
        assert_eq!(
            rewritten(r#"{"baggage":"c=2","traceparent":"00-2","y":"z","tracestate":"d=4"}"#, &changes),
            r#"{"baggage":"name=\"b\\\"","traceparent":"00-1","y":"z","tracestate":"a=1"}"#
        );
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

    /// W3C Trace Context: a receiver of an invalid `traceparent` drops it, and `tracestate` with it.
    #[test]
    fn a_trace_that_is_not_continued_is_not_sent_on() {
        let meta = r#"{"traceparent":"00-x","tracestate":"a=1","baggage":"b=2","x":1}"#;
        assert_eq!(rewritten(meta, &RequestMeta::default()), r#"{"baggage":"b=2","x":1}"#);
        let trace = Trace { traceparent: Some("00-1".into()), ..Trace::default() };
        let changes = RequestMeta { trace, ..RequestMeta::default() };
        assert_eq!(rewritten(meta, &changes), r#"{"traceparent":"00-1","baggage":"b=2","x":1}"#);
    }
}
