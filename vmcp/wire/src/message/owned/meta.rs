//! [`OwnedMeta`]: the keys of `_meta` that the protocol reserves, read from [`OwnedParams`].

use std::borrow::Cow;

use vmcp_json::reader::Reader;
use vmcp_json::text;

use super::params::OwnedParams;
use super::read::Level;
use crate::message::meta::{
    BAGGAGE, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROGRESS_TOKEN, TRACEPARENT, TRACESTATE, Trace,
    is_traceparent, is_tracestate,
};

/// A view of the metadata of a message.
#[derive(Debug, Clone, Copy)]
pub struct OwnedMeta<'a> {
    params: &'a OwnedParams,
}

impl OwnedParams {
    /// Returns `_meta`; empty when it is absent or null.
    #[must_use]
    pub fn meta(&self) -> OwnedMeta<'_> {
        OwnedMeta { params: self }
    }
}

impl<'a> OwnedMeta<'a> {
    /// Returns the keys, in the order in which they were written.
    pub fn keys(&self) -> impl Iterator<Item = Cow<'a, str>> {
        let params = self.params;
        params.entries(Level::Meta).filter_map(|entry| text::unquoted(entry.key.of(&params.message)))
    }

    /// Returns the value of a key as JSON text.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.params.find(Level::Meta, key).map(|(_, entry)| entry.value.of(&self.params.message))
    }

    /// Returns the plain text of a key whose value is a string.
    #[must_use]
    pub fn get_str(&self, key: &str) -> Option<Cow<'a, str>> {
        text::unquoted(self.get(key)?)
    }

    /// Returns name and version of the client, if they are an object.
    #[must_use]
    pub fn client_info(&self) -> Option<&'a str> {
        self.get(CLIENT_INFO).filter(|info| text::is_object(info))
    }

    /// Returns the client's name, for logs and for the spelling of tool names; never for security.
    #[must_use]
    pub fn client_name(&self) -> Option<Cow<'a, str>> {
        let info = self.client_info()?;
        let mut reader = Reader::new(info.as_bytes());
        reader.open_object().ok()?;
        while let Some(key) = reader.next_key().ok()? {
            let value = reader.value().ok()?.span;
            if text::unquoted(info.get(key)?)? == "name" {
                return text::unquoted(info.get(value)?);
            }
        }
        None
    }

    /// Returns the client's capabilities, if they are an object.
    #[must_use]
    pub fn client_capabilities(&self) -> Option<&'a str> {
        self.get(CLIENT_CAPABILITIES).filter(|capabilities| text::is_object(capabilities))
    }

    /// Returns the log level that the client wants for this request.
    #[must_use]
    pub fn log_level(&self) -> Option<Cow<'a, str>> {
        self.get_str(LOG_LEVEL)
    }

    /// Returns the progress token, as written.
    #[must_use]
    pub fn progress_token(&self) -> Option<&'a str> {
        self.get(PROGRESS_TOKEN).filter(|token| text::is_id(token))
    }

    /// Returns the trace context. A malformed `traceparent` is ignored, and `tracestate` with it; baggage
    /// needs no trace. A malformed `tracestate` is ignored alone.
    #[must_use]
    pub fn trace(&self) -> Trace<'a> {
        let traceparent = self.get_str(TRACEPARENT).filter(|text| is_traceparent(text));
        let tracestate = traceparent.as_ref().and_then(|_| self.get_str(TRACESTATE));
        let tracestate = tracestate.filter(|text| is_tracestate(text));
        Trace { traceparent, tracestate, baggage: self.get_str(BAGGAGE) }
    }
}
