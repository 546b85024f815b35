//! Handler of `logging/setLevel`, which only legacy sessions have.

use vmcp_json::text::empty_object;
use vmcp_wire::codes;
use vmcp_wire::level::Level;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::rpc::RpcError;

use super::edge::Edge;
use crate::session::peer::Peer;
use vmcp_route::Answer;

/// Stores the level for the session's later requests, and tells the backends that already serve the session.
pub(super) fn set_level(edge: &Edge, peer: &Peer, params: &OwnedParams) -> Answer {
    let level = params.get_str("level").and_then(|level| Level::parse(&level));
    let (Some(session), Some(level)) = (peer.session, level) else {
        let levels = Level::ALL.map(Level::as_str).join(", ");
        let message = format!("`params.level` must be one of {levels}");
        return Answer::error(&RpcError::new(codes::INVALID_PARAMS, message));
    };
    let now = *edge.engine.generations().borrow();
    let registered = edge.push.router.register(session, peer.principal.key(), peer.life, now);
    registered.set_level(level);
    for backend in edge.engine.snapshot().backends.values() {
        backend.set_log_level(session, level);
    }
    // The session may have been ended concurrently.
    edge.push.release_if_ended(session);
    Answer::own(empty_object().to_owned())
}
