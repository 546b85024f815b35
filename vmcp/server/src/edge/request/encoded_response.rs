//! [`EncodedResponse`]: the encoded response to one request.

use serde_json::value::RawValue;
use vmcp_json::byte_rope::ByteRope;
use vmcp_json::json_rope::JsonRope;
use vmcp_wire::codes;
use vmcp_wire::era::Era;
use vmcp_wire::rpc::{self, RpcError};

/// An answer, ready to be sent.
#[derive(Debug)]
pub(crate) struct EncodedResponse {
    /// The HTTP status; stdio has none.
    pub(crate) status: u16,
    /// The JSON-RPC response.
    pub(crate) body: ByteRope,
}

impl EncodedResponse {
    pub(crate) fn ok(body: impl Into<ByteRope>) -> Self {
        Self { status: 200, body: body.into() }
    }

    /// An error of ours. The modern era has HTTP statuses for some.
    pub(crate) fn error(era: Era, id: &RawValue, error: &RpcError) -> Self {
        Self {
            status: codes::http_status(error.code, era),
            body: rpc::error(Some(id), JsonRope::from(error.to_json())).into(),
        }
    }

    /// The answer to a violated internal invariant.
    pub(crate) fn internal_error() -> Self {
        tracing::error!("a request ended without an answer");
        let error = RpcError::new(codes::INTERNAL_ERROR, "internal error; see the server's log");
        Self { status: 500, body: rpc::error(None, JsonRope::from(error.to_json())).into() }
    }
}
