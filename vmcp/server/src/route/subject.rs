//! The subject of a request: the name or URI that its parameters carry.

use std::borrow::Cow;

use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_wire::codes;
use vmcp_wire::rpc::RpcError;

/// Parameters, and the name or URI in them.
pub(super) struct Subject<'a> {
    pub(super) object: Object<'a>,
    pub(super) subject: Cow<'a, str>,
}

impl<'a> Subject<'a> {
    pub(super) fn parse(params: &'a RawValue, key: &str) -> Result<Subject<'a>, RpcError> {
        let invalid = |message: String| RpcError::new(codes::INVALID_PARAMS, message);
        let object = Object::parse(params).map_err(|error| invalid(format!("`params`: {error}")))?;
        let subject =
            object.get_str(key).ok_or_else(|| invalid(format!("`params.{key}` must be a string")))?;
        Ok(Subject { object, subject })
    }
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
