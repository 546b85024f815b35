//! Introduction of this server: `initialize` for legacy clients, `server/discover` for modern ones.

use vmcp_wire::codes;
use vmcp_wire::era::Revision;
use vmcp_wire::handshake::client_capabilities::without_tasks_extension;
use vmcp_wire::handshake::{ClientHello, OwnIntroduction};
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::params::Params;
use vmcp_wire::rpc::RpcError;
use vmcp_wire::sealed::session::Session;
use vmcp_wire::translate::{Hints, Scope};

use super::edge::Edge;
use crate::access::identity::Identity;
use crate::edge::session::sessions;
use crate::engine::{Snapshot, View};

/// Cache hints of `server/discover`. The introduction changes with the capabilities of the backends, which is
/// seldom.
const DISCOVER_HINTS: Hints = Hints { ttl_ms: 10_000, scope: Scope::Public };

/// Opens a session: returns it with the result of `initialize` and the sealed id for `Mcp-Session-Id`.
pub(crate) fn initialize(
    edge: &Edge,
    identity: &Identity,
    params: &OwnedParams,
) -> Result<(Session, String, String), RpcError> {
    let invalid = |error: String| RpcError::new(codes::INVALID_PARAMS, error);
    let raw = params.is_present().then(|| serde_json::from_str(params.text())).transpose();
    let raw = raw.map_err(|error| invalid(error.to_string()))?;
    let params = &Params::parse(raw).map_err(|error| invalid(error.to_string()))?;
    let hello = ClientHello::parse(params).map_err(|error| invalid(error.to_string()))?;
    let session = Session {
        id: [0; 16],
        identity: identity.digest(),
        revision: Revision::negotiate(&hello.protocol_version),
        issued: 0,
        expires: 0,
        client_info: hello.client_info.get().to_owned(),
        client_capabilities: without_tasks_extension(hello.capabilities)
            .unwrap_or_else(|| hello.capabilities.get().to_owned()),
    };
    let (session, id) = sessions::begin(&edge.ring(), session).map_err(|error| invalid(error.to_string()))?;
    let snapshot = edge.engine.snapshot();
    let view = snapshot.view(identity);
    let instructions = snapshot.instructions(&view);
    let capabilities = snapshot.declaration(&view, session.revision);
    let result = introduction(&snapshot, &capabilities, instructions.as_deref());
    let result = result.initialize_result(session.revision);
    Ok((session, id, result))
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
