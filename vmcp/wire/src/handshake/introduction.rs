//! The introduction of a server, by `initialize` or `server/discover`: read from backends, written for
//! clients.

use std::borrow::Cow;

use serde_json::value::RawValue;
use vmcp_json::object::{Object, ObjectError};
use vmcp_json::text;

use crate::message::codes;
use crate::message::params::Params;
use crate::message::{era::Era, era::Revision};
use crate::message::{keys::CACHE_SCOPE, keys::TTL_MS};
use crate::message::{meta, meta::META};
use crate::translate::{Hints, Scope};

/// The reason why an introduction cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The message is not an object, or has a key twice.
    #[error("{part}: {reason}")]
    Object {
        /// The message.
        part: &'static str,
        /// The fault.
        reason: ObjectError,
    },
    /// A key is missing or of the wrong type.
    #[error("{part}: `{key}` is missing or of the wrong type")]
    Key {
        /// The message.
        part: &'static str,
        /// The key.
        key: &'static str,
    },
    /// The server chose a revision that vmcp does not know.
    #[error("the server answered `initialize` with the unknown revision `{0}`")]
    UnknownRevision(String),
}

const PROTOCOL_VERSION: &str = "protocolVersion";
const CAPABILITIES: &str = "capabilities";
const SERVER_INFO: &str = "serverInfo";
const CLIENT_INFO: &str = "clientInfo";
const INSTRUCTIONS: &str = "instructions";
const SUPPORTED_VERSIONS: &str = "supportedVersions";

/// The introduction of a server, in either era.
#[derive(Debug, Clone)]
pub struct Introduction<'a> {
    /// The known revisions that the server supports; after `initialize`, the chosen one.
    pub revisions: Vec<Revision>,
    /// `ServerCapabilities`, as sent.
    pub capabilities: &'a RawValue,
    /// `Implementation`, as sent.
    pub server_info: Option<&'a RawValue>,
    /// Advice for the model.
    pub instructions: Option<Cow<'a, str>>,
}

impl<'a> Introduction<'a> {
    /// Reads the result of `initialize`.
    pub fn from_initialize(result: &'a RawValue) -> Result<Self, HandshakeError> {
        let part = "result of initialize";
        let object = Object::parse(result).map_err(|reason| HandshakeError::Object { part, reason })?;
        let version =
            object.get_str(PROTOCOL_VERSION).ok_or(HandshakeError::Key { part, key: PROTOCOL_VERSION })?;
        let revision =
            Revision::parse(&version).ok_or_else(|| HandshakeError::UnknownRevision(version.into_owned()))?;
        let server_info = object.get(SERVER_INFO).filter(|info| text::is_object(info.get()));
        // Without them, or with null, such a server is listed all the same.
        let capabilities = object.get(CAPABILITIES).filter(|capabilities| capabilities.get() != "null");
        let capabilities = capabilities.or(Some(text::empty_object()));
        Self::read(part, &object, capabilities, vec![revision], server_info)
    }

    /// Reads the result of `server/discover`. A legacy server may answer it, too: see
    /// [`Introduction::is_modern`].
    pub fn from_discover(result: &'a RawValue) -> Result<Self, HandshakeError> {
        let part = "result of server/discover";
        let object = Object::parse(result).map_err(|reason| HandshakeError::Object { part, reason })?;
        let versions = object.text(SUPPORTED_VERSIONS);
        let versions: Vec<Cow<'_, str>> = versions
            .and_then(|versions| serde_json::from_str(versions).ok())
            .ok_or(HandshakeError::Key { part, key: SUPPORTED_VERSIONS })?;
        let revisions = versions.iter().filter_map(|version| Revision::parse(version)).collect();
        let meta = object.get(META).and_then(|meta| Object::parse(meta).ok());
        let server_info =
            meta.and_then(|meta| meta.get(meta::SERVER_INFO)).filter(|info| text::is_object(info.get()));
        Self::read(part, &object, object.get(CAPABILITIES), revisions, server_info)
    }

    /// True if the server speaks the modern revision.
    #[must_use]
    pub fn is_modern(&self) -> bool {
        self.revisions.iter().any(|revision| revision.era() == Era::Modern)
    }

    fn read(
        part: &'static str,
        object: &Object<'a>,
        capabilities: Option<&'a RawValue>,
        revisions: Vec<Revision>,
        server_info: Option<&'a RawValue>,
    ) -> Result<Self, HandshakeError> {
        let capabilities = capabilities
            .filter(|capabilities| text::is_object(capabilities.get()))
            .ok_or(HandshakeError::Key { part, key: CAPABILITIES })?;
        Ok(Self { revisions, capabilities, server_info, instructions: object.get_str(INSTRUCTIONS) })
    }
}

/// True if an error of a server lists the modern revision as supported, although the request came in that
/// revision.
#[must_use]
pub fn offers_modern(error: &RawValue) -> bool {
    let supported = || {
        let error = Object::parse(error).ok()?;
        let code: i64 = serde_json::from_str(error.text("code")?).ok()?;
        let data = Object::parse(error.get("data")?).ok()?;
        let versions: Vec<Cow<'_, str>> = serde_json::from_str(data.text("supported")?).ok()?;
        Some(
            code == codes::UNSUPPORTED_PROTOCOL_VERSION
                && versions.iter().any(|version| version == Revision::MODERN.as_str()),
        )
    };
    supported().unwrap_or_default()
}

/// The introduction of a legacy client: the parameters of `initialize`.
#[derive(Debug, Clone)]
pub struct ClientHello<'a> {
    /// The revision that the client wants; see [`Revision::negotiate`].
    pub protocol_version: Cow<'a, str>,
    /// `Implementation`, as sent.
    pub client_info: &'a RawValue,
    /// `ClientCapabilities`, as sent.
    pub capabilities: &'a RawValue,
}

impl<'a> ClientHello<'a> {
    /// Reads the parameters of `initialize`; answer an error with -32602.
    pub fn parse(params: &Params<'a>) -> Result<Self, HandshakeError> {
        let missing = |key| HandshakeError::Key { part: "params of initialize", key };
        let object =
            |key| params.object.get(key).filter(|value| text::is_object(value.get())).ok_or(missing(key));
        Ok(Self {
            protocol_version: params.object.get_str(PROTOCOL_VERSION).ok_or(missing(PROTOCOL_VERSION))?,
            client_info: object(CLIENT_INFO)?,
            capabilities: object(CAPABILITIES)?,
        })
    }
}

/// Writes the parameters of `initialize` for a legacy backend. Both objects are JSON.
#[must_use]
pub fn initialize_params(revision: Revision, client_info: &str, capabilities: &str) -> String {
    format!(
        r#"{{"{PROTOCOL_VERSION}":"{revision}","{CAPABILITIES}":{capabilities},"{CLIENT_INFO}":{client_info}}}"#
    )
}

/// The introduction of vmcp itself.
#[derive(Debug, Clone, Copy)]
pub struct OwnIntroduction<'a> {
    /// `ServerCapabilities`, as JSON.
    pub capabilities: &'a str,
    /// `Implementation`, as JSON.
    pub server_info: &'a str,
    /// Advice for the model, plain text.
    pub instructions: Option<&'a str>,
}

impl OwnIntroduction<'_> {
    /// Writes the result of `initialize`, in the negotiated revision.
    #[must_use]
    pub fn initialize_result(&self, revision: Revision) -> String {
        let Self { capabilities, server_info, .. } = self;
        format!(
            r#"{{"{PROTOCOL_VERSION}":"{revision}","{CAPABILITIES}":{capabilities},"{SERVER_INFO}":{server_info}{}}}"#,
            self.instructions_entry()
        )
    }

    /// Writes the result of `server/discover`.
    #[must_use]
    pub fn discover_result(&self, supported: &[Revision], hints: Hints) -> String {
        let versions: Vec<String> = supported.iter().map(|revision| format!("\"{revision}\"")).collect();
        let mut out = format!(
            r#"{{"{SUPPORTED_VERSIONS}":[{}],"{CAPABILITIES}":{}{}"#,
            versions.join(","),
            self.capabilities,
            self.instructions_entry()
        );
        hints.write_complete(&mut out, Some(self.server_info));
        out.push('}');
        out
    }

    fn instructions_entry(&self) -> String {
        self.instructions.map_or(String::new(), |text| format!(",\"{INSTRUCTIONS}\":{}", text::quoted(text)))
    }
}

/// Reads the cache hints of a modern result; the default replaces any that cannot be read.
#[must_use]
pub fn hints(result: &Object<'_>) -> Hints {
    Hints {
        ttl_ms: result.text(TTL_MS).and_then(|ttl| ttl.parse().ok()).unwrap_or_default(),
        scope: match result.get_str(CACHE_SCOPE).as_deref() {
            Some("public") => Scope::Public,
            _ => Scope::Private,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    const OWN: OwnIntroduction<'static> = OwnIntroduction {
        capabilities: r#"{"tools":{"listChanged":true}}"#,
        server_info: r#"{"name":"v","version":"1"}"#,
        instructions: Some("use \"it\""),
    };

    #[test]
    fn an_error_may_offer_the_modern_revision() {
        let error = |code: i64, versions: &str| {
            offers_modern(&raw(&format!(
                r#"{{"code":{code},"message":"","data":{{"supported":{versions}}}}}"#
            )))
        };
        assert!(error(-32022, r#"["2025-11-25","2026-07-28"]"#));
        assert!(!error(-32022, r#"["2025-11-25"]"#));
        assert!(!error(-32022, r#""2026-07-28""#));
        assert!(!error(-32601, r#"["2026-07-28"]"#));
        assert!(!offers_modern(&raw(r#"{"code":-32022,"message":""}"#)));
    }

    #[test]
    fn we_read_what_we_write() {
        let initialize = raw(&OWN.initialize_result(Revision::V2025_06_18));
        let read = Introduction::from_initialize(&initialize).unwrap();
        assert_eq!(
            (read.revisions.as_slice(), read.is_modern()),
            ([Revision::V2025_06_18].as_slice(), false)
        );
        let discover = raw(&OWN.discover_result(&Revision::ALL, Hints { ttl_ms: 5, ..Hints::default() }));
        let modern = Introduction::from_discover(&discover).unwrap();
        assert_eq!((modern.revisions.len(), modern.is_modern()), (5, true));
        assert_eq!(hints(&Object::parse(&discover).unwrap()).ttl_ms, 5);
        for read in [read, modern] {
            assert_eq!(read.capabilities.get(), OWN.capabilities);
            assert_eq!(read.server_info.map(RawValue::get), Some(OWN.server_info));
            assert_eq!(read.instructions.as_deref(), OWN.instructions);
        }
        let params = raw(&initialize_params(Revision::LATEST_LEGACY, OWN.server_info, "{}"));
        let hello = ClientHello::parse(&Params::parse(Some(&params)).unwrap()).unwrap();
        assert_eq!((hello.client_info.get(), hello.capabilities.get()), (OWN.server_info, "{}"));
        assert_eq!(hello.protocol_version, "2025-11-25");
    }

    #[test]
    fn a_discovery_without_the_modern_revision_is_a_legacy_server() {
        let result = raw(r#"{"supportedVersions":["2025-11-25","2031-01-01"],"capabilities":{}}"#);
        let read = Introduction::from_discover(&result).unwrap();
        assert_eq!(
            (read.revisions.as_slice(), read.is_modern()),
            ([Revision::V2025_11_25].as_slice(), false)
        );
    }

    #[test]
    fn bad_introductions_name_the_key() {
        let key = |result: Result<Introduction<'_>, _>| match result {
            Err(HandshakeError::Key { key, .. }) => key,
            other => panic!("{other:?}"),
        };
        assert_eq!(key(Introduction::from_discover(&raw(r#"{"capabilities":{}}"#))), SUPPORTED_VERSIONS);
        assert_eq!(key(Introduction::from_discover(&raw(r#"{"supportedVersions":[]}"#))), CAPABILITIES);
        assert_eq!(key(Introduction::from_initialize(&raw("{}"))), PROTOCOL_VERSION);
        let typed = raw(r#"{"protocolVersion":"2025-06-18","capabilities":"all"}"#);
        assert_eq!(key(Introduction::from_initialize(&typed)), CAPABILITIES);
        for none in
            [r#"{"protocolVersion":"2025-06-18"}"#, r#"{"protocolVersion":"2025-06-18","capabilities":null}"#]
        {
            let none = raw(none);
            assert_eq!(Introduction::from_initialize(&none).unwrap().capabilities.get(), "{}");
        }
        let unknown = raw(r#"{"protocolVersion":"2031-01-01","capabilities":{}}"#);
        assert_eq!(
            Introduction::from_initialize(&unknown).unwrap_err(),
            HandshakeError::UnknownRevision("2031-01-01".into())
        );
    }
}
