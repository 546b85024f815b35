//! Introduction of this server: `initialize` for legacy clients, `server/discover` for modern ones.

use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_json::text;
use vmcp_wire::codes;
use vmcp_wire::era::Revision;
use vmcp_wire::handshake::client_capabilities::without_tasks_extension;
use vmcp_wire::handshake::{ClientHello, OwnIntroduction};
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::params::Params;
use vmcp_wire::rpc::RpcError;
use vmcp_wire::sealed::session::{MAX_TEXT, Session};
use vmcp_wire::translate::{Hints, Scope};

use super::edge::Edge;
use crate::session::sessions;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::{Snapshot, View};
use vmcp_engine::telemetry::calls::{Action, ActionArea};

/// Cache hints of `server/discover`. The introduction changes with the capabilities of the backends, which is
/// seldom.
const DISCOVER_HINTS: Hints = Hints { ttl_ms: 10_000, scope: Scope::Public };

/// Opens a session: returns it with the result of `initialize` and the sealed id for `Mcp-Session-Id`.
pub(crate) fn initialize(
    edge: &Edge,
    principal: &Principal,
    params: &OwnedParams,
) -> Result<(Session, String, String), RpcError> {
    let invalid = |error: String| RpcError::new(codes::INVALID_PARAMS, error);
    let raw = params.is_present().then(|| serde_json::from_str(params.text())).transpose();
    let raw = raw.map_err(|error| invalid(error.to_string()))?;
    let params = &Params::parse(raw).map_err(|error| invalid(error.to_string()))?;
    let hello = ClientHello::parse(params).map_err(|error| invalid(error.to_string()))?;
    let client_capabilities =
        without_tasks_extension(hello.capabilities).unwrap_or_else(|| hello.capabilities.get().to_owned());
    let session = Session {
        id: [0; 16],
        identity: principal.binding(),
        revision: Revision::negotiate(&hello.protocol_version),
        began: 0,
        expires: 0,
        client_info: info_that_fits(hello.client_info, MAX_TEXT.saturating_sub(client_capabilities.len())),
        client_capabilities,
    };
    let (session, id) = sessions::begin(&edge.ring(), session).map_err(|error| invalid(error.to_string()))?;
    edge.engine.call_observers().acted(&Action {
        session: Some(session.id),
        ..Action::of_client(ActionArea::Session, "session.begin", principal)
    });
    let snapshot = edge.engine.snapshot();
    let view = snapshot.view(principal);
    let instructions = snapshot.instructions(&view);
    let capabilities = snapshot.declaration(&view, session.revision);
    let result = introduction(&snapshot, &capabilities, instructions.as_deref());
    let result = result.initialize_result(session.revision);
    Ok((session, id, result))
}

/// Returns the revision that `initialize` is answered with.
pub(crate) fn negotiated(params: &OwnedParams) -> Revision {
    Revision::negotiate(&params.get_str("protocolVersion").unwrap_or_default())
}

/// Returns the client's info in at most `room` bytes, if that can be had by leaving out what is for display:
/// icons may be pictures in `data:` URLs, and the info travels in the session id.
fn info_that_fits(info: &RawValue, room: usize) -> String {
    let whole = info.get();
    let Some(members) = (whole.len() > room).then(|| Object::parse(info).ok()).flatten() else {
        return whole.to_owned();
    };
    let kept = ["name", "title", "version"].into_iter().filter_map(|key| {
        let value = members.get(key)?;
        Some(format!("{}:{}", text::quoted(key), value.get()))
    });
    format!("{{{}}}", kept.collect::<Vec<_>>().join(","))
}

/// Returns the result of `server/discover`.
pub(crate) fn discover(snapshot: &Snapshot, view: &View) -> String {
    let instructions = snapshot.instructions(view);
    let capabilities = snapshot.declaration(view, Revision::MODERN);
    let introduction = introduction(snapshot, &capabilities, instructions.as_deref());
    introduction.discover_result(&Revision::ALL, Hints { scope: view.scope(), ..DISCOVER_HINTS })
}

/// Gathers the parts of the introduction from the snapshot.
fn introduction<'a>(
    snapshot: &'a Snapshot,
    capabilities: &'a str,
    instructions: Option<&'a str>,
) -> OwnIntroduction<'a> {
    OwnIntroduction { capabilities, server_info: snapshot.server_info(), instructions }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_display_gives_way() {
        let info = r#"{"version":"1","icons":[{"src":"data:image/png;base64,AAAA"}],"name":"größer"}"#;
        let raw: &RawValue = serde_json::from_str(info).unwrap();
        assert_eq!(info_that_fits(raw, info.len()), info);
        assert_eq!(info_that_fits(raw, info.len() - 1), r#"{"name":"größer","version":"1"}"#);
    }
}
