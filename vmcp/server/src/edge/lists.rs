//! Pages of what the view shows.

use vmcp_wire::codes;
use vmcp_wire::cursor::Cursor;
use vmcp_wire::era::Era;
use vmcp_wire::object::Object;
use vmcp_wire::pages::{self, List, PageFrame};
use vmcp_wire::rpc::RpcError;
use vmcp_wire::translate::Hints;

use super::handshake::SERVER_INFO;
use super::peer::Peer;
use crate::engine::Snapshot;

/// Entries on a page. Few clients follow cursors for tools, and even this many are far beyond what a model can use.
const PAGE: usize = 1000;

/// The result of a list request.
pub(super) fn page(
    snapshot: &Snapshot,
    peer: &Peer,
    list: List,
    params: &Object<'_>,
) -> Result<String, RpcError> {
    let after = after(list, params)?;
    let view = &snapshot.view;
    let entries = match list {
        List::Tools => view.tools(peer.style),
        List::Prompts => &view.prompts,
        List::Resources => &view.resources,
        List::ResourceTemplates => &view.templates,
    };
    let (entries, next) = entries.page(after.as_deref(), PAGE);
    let next =
        next.map(|after| Cursor { list, generation: snapshot.generation, after: after.to_owned() }.encode());
    let frame = PageFrame {
        era: peer.era,
        next_cursor: next.as_deref(),
        hints: Hints::default(),
        server_info: (peer.era == Era::Modern).then_some(SERVER_INFO),
    };
    Ok(pages::write(list, entries.iter().map(|entry| entry.text(peer.era)), &frame))
}

/// The key behind which the page begins; none on the first one.
fn after(list: List, params: &Object<'_>) -> Result<Option<String>, RpcError> {
    if params.get("cursor").is_none_or(|cursor| cursor.get() == "null") {
        return Ok(None);
    }
    // A cursor that is no string is none of ours either.
    let text = params.get_str("cursor").unwrap_or_default();
    let cursor = Cursor::decode(&text, list);
    cursor
        .map(|cursor| Some(cursor.after))
        .map_err(|error| RpcError::new(codes::INVALID_PARAMS, error.to_string()))
}
