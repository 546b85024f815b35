//! [`Peer`]: the sender of one message, with its era, revision, session and declared capabilities.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread::LocalKey;

use http::HeaderMap;
use serde_json::value::RawValue;
use vmcp_backend::{ClientFacts, SessionId};
use vmcp_config::ToolNameStyle;
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::level::Level;
use vmcp_wire::owned::OwnedParams;

use super::sessions::{OpenedSession, SessionLife};
use vmcp_engine::access::identity::Principal;
use vmcp_engine::optim::names::NameStyle;
use vmcp_engine::telemetry;

/// Names of clients that take dotted names: the Inspector and our own command line, which send no name to a
/// model. Model APIs take `^[a-zA-Z0-9_-]{1,128}$`, and agent frameworks (openai-agents, pydantic-ai,
/// langchain) pass listed names on unchanged under the client name of their SDK, such as `mcp`.
const DOT_TAKING_CLIENTS: [&str; 6] =
    ["inspector-cli", "inspector-client", "inspector-tui", "inspector-web", "mcp-inspector", "vmcp-cli"];

/// The sender of one message.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// The principal that policies, limits and records see.
    pub(crate) principal: Principal,
    /// Headers of the request that backends may get.
    pub(crate) forwarded: Option<Arc<HeaderMap>>,
    pub(crate) era: Era,
    pub(crate) revision: Revision,
    /// The spelling of vmcp's own tools: with a dot or an underscore.
    pub(crate) style: NameStyle,
    /// The facts that backends may be told about the client.
    pub(crate) client: ClientFacts,
    /// The session; set in the legacy era, and on stdio in both.
    pub(crate) session: Option<SessionId>,
    pub(crate) life: SessionLife,
    /// The transport, as OpenTelemetry names it: `tcp` or `pipe`.
    pub(crate) transport: &'static str,
    /// The version of HTTP, as OpenTelemetry names it, such as `1.1`.
    pub(crate) http_version: Option<&'static str>,
    /// The client's port, where its address is that of the connection.
    pub(crate) port: Option<u16>,
}

impl Peer {
    /// Creates the sender of a modern message over HTTP from the message's own `_meta`.
    pub(crate) fn modern(revision: Revision, params: &OwnedParams, style: ToolNameStyle) -> Self {
        let meta = params.meta();
        Self {
            principal: Principal::default(),
            forwarded: None,
            era: Era::Modern,
            revision,
            style: style_for(style, meta.client_name().as_deref()),
            client: ClientFacts {
                info: meta.client_info().and_then(|info| shared(&LAST_INFO, info)),
                capabilities: meta.client_capabilities().and_then(|it| shared(&LAST_CAPABILITIES, it)),
                log_level: meta.log_level().map(|level| Arc::from(level.as_ref())),
                ..ClientFacts::default()
            },
            session: None,
            life: SessionLife::PROCESS,
            transport: telemetry::TCP,
            http_version: None,
            port: None,
        }
    }

    /// Creates the sender of a message over HTTP in a legacy session that asked for log messages of `level`.
    pub(crate) fn legacy(known: &OpenedSession, style: ToolNameStyle, level: Option<Level>) -> Self {
        let log_level = level.map(|level| Arc::from(level.as_str()));
        Self {
            principal: Principal::default(),
            forwarded: None,
            era: Era::Legacy,
            revision: known.session.revision,
            style: style_for(style, known.name.as_deref()),
            client: ClientFacts { log_level, ..known.client.clone() },
            session: Some(known.session.id),
            life: SessionLife::from(&known.session),
            transport: telemetry::TCP,
            http_version: None,
            port: None,
        }
    }
}

thread_local! {
    /// Introduction of the last modern client of this thread. Clients introduce themselves with each request,
    /// and a connection stays with its thread: mostly the next request has the same.
    static LAST_INFO: RefCell<Option<Arc<RawValue>>> = const { RefCell::new(None) };
    /// Capabilities of that client.
    static LAST_CAPABILITIES: RefCell<Option<Arc<RawValue>>> = const { RefCell::new(None) };
}

/// Returns a value that outlives its message; the one in `last`, if that is written the same.
fn shared(last: &'static LocalKey<RefCell<Option<Arc<RawValue>>>>, text: &str) -> Option<Arc<RawValue>> {
    if let Some(same) = last.with_borrow(|last| last.as_ref().filter(|last| last.get() == text).cloned()) {
        return Some(same);
    }
    let value = Arc::<RawValue>::from(RawValue::from_string(text.to_owned()).ok()?);
    last.set(Some(Arc::clone(&value)));
    Some(value)
}

/// Returns the tool name style for a client: as configured, or by the client's name if configured as `auto`.
pub(crate) fn style_for(configured: ToolNameStyle, client: Option<&str>) -> NameStyle {
    match configured {
        ToolNameStyle::Dotted => NameStyle::Dotted,
        ToolNameStyle::Underscore => NameStyle::Underscore,
        ToolNameStyle::Auto => {
            let takes_dots = client.is_some_and(|name| DOT_TAKING_CLIENTS.contains(&name));
            if takes_dots { NameStyle::Dotted } else { NameStyle::Underscore }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_proven_to_take_dots_get_them() {
        for name in [None, Some("mcp"), Some("claude-ai"), Some("claude-code"), Some("an inspector")] {
            assert_eq!(style_for(ToolNameStyle::Auto, name), NameStyle::Underscore, "{name:?}");
        }
        for name in ["inspector-cli", "inspector-tui", "inspector-web", "mcp-inspector"] {
            assert_eq!(style_for(ToolNameStyle::Auto, Some(name)), NameStyle::Dotted, "{name}");
        }
        assert_eq!(style_for(ToolNameStyle::Dotted, Some("claude-ai")), NameStyle::Dotted);
        assert_eq!(style_for(ToolNameStyle::Underscore, Some("mcp-inspector")), NameStyle::Underscore);
    }
}
