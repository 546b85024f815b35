//! The subject of a request: the name or URI that its parameters carry.

use std::borrow::Cow;

use vmcp_wire::codes;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::rpc::RpcError;

/// Returns the name or URI in the parameters, or the error for its absence.
pub(super) fn subject<'a>(params: &'a OwnedParams, key: &str) -> Result<Cow<'a, str>, RpcError> {
    let missing = || RpcError::new(codes::INVALID_PARAMS, format!("`params.{key}` must be a string"));
    params.get_str(key).ok_or_else(missing)
}

/// Returns a client's name or URI, shortened for a message.
pub(super) fn shown(name: &str) -> String {
    // Characters of a name in a message; a longer one is cut and ends in an ellipsis.
    const MAX_SHOWN_CHARS: usize = 200;
    if name.chars().nth(MAX_SHOWN_CHARS).is_none() {
        name.to_owned()
    } else {
        name.chars().take(MAX_SHOWN_CHARS).chain(['…']).collect()
    }
}
