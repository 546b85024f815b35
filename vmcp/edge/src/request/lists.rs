//! Pages of the list methods, cut from the view of the caller.

use vmcp_json::byte_rope::ByteRope;
use vmcp_wire::codes;
use vmcp_wire::era::Era;
use vmcp_wire::lists::cursor::Cursor;
use vmcp_wire::lists::pages::List;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::rpc::RpcError;

use crate::session::peer::Peer;
use vmcp_engine::context_key::ContextKey;
use vmcp_engine::engine::{Engine, Snapshot};

/// Key of `_meta` under which a client without a session names its context.
const CONTEXT_META_KEY: &str = "vmcp/context_id";

/// Returns the result of a list request, in pieces.
pub(super) fn page(
    engine: &Engine,
    snapshot: &Snapshot,
    peer: &Peer,
    list: List,
    params: &OwnedParams,
) -> Result<ByteRope, RpcError> {
    let after = after(list, params)?;
    let view = snapshot.view(&peer.principal);
    if list == List::Tools {
        let session = peer.session.filter(|_| peer.era == Era::Legacy).map(ContextKey::Session);
        let key = context_handle(params).or(session);
        if let Some(own) = engine.contextual_list(snapshot, &view, key, peer.principal.key(), peer.style) {
            return Ok(own.page(after.as_deref(), peer.era, snapshot.server_info()).into_iter().collect());
        }
    }
    let list = view.list(list, peer.style);
    Ok(list.page(after.as_deref(), peer.era, snapshot.server_info()).into_iter().collect())
}

/// Returns the context that a request names in its `_meta`.
pub(super) fn context_handle(params: &OwnedParams) -> Option<ContextKey> {
    ContextKey::of_handle(&params.meta().get_str(CONTEXT_META_KEY)?)
}

/// Returns the key after which the page begins; `None` for the first page.
fn after(list: List, params: &OwnedParams) -> Result<Option<String>, RpcError> {
    if params.get("cursor").is_none_or(|cursor| cursor == "null") {
        return Ok(None);
    }
    // A cursor that is not a string is not one of vmcp's either.
    let text = params.get_str("cursor").unwrap_or_default();
    let cursor = Cursor::decode(&text, list);
    cursor
        .map(|cursor| Some(cursor.after))
        .map_err(|error| RpcError::new(codes::INVALID_PARAMS, error.to_string()))
}
