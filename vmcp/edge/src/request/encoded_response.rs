//! [`EncodedResponse`]: the JSON-RPC response to one request, as bytes, with its HTTP status.

use futures::StreamExt as _;
use serde_json::value::RawValue;
use vmcp_json::byte_rope::ByteRope;
use vmcp_json::json_rope::JsonRope;
use vmcp_route::ScopeChallenge;
use vmcp_wire::codes;
use vmcp_wire::era::Era;
use vmcp_wire::rpc::{self, RpcError};

use super::arriving_response::ArrivingResponse;
use vmcp_engine::telemetry::operations::OperationFailure;

/// A response as it goes to the client; the last form of an answer.
#[derive(Debug)]
pub(crate) struct EncodedResponse {
    /// The HTTP status; stdio has none.
    pub(crate) status: u16,
    /// The JSON-RPC message, or its beginning. In pieces, so that a large body of a backend is forwarded
    /// without a copy.
    pub(crate) body: ByteRope,
    /// The rest of a message that is relayed while it arrives.
    pub(crate) rest: Option<ArrivingResponse>,
    /// The challenge in the HTTP head, for a client that lacks scopes.
    pub(crate) challenge: Option<Box<ScopeChallenge>>,
    /// The failure that it tells, if it does; for telemetry.
    pub(crate) failure: Option<Box<OperationFailure>>,
}

impl EncodedResponse {
    /// Wraps a complete JSON-RPC message, with HTTP status 200.
    pub(crate) fn ok(body: impl Into<ByteRope>) -> Self {
        Self { status: 200, body: body.into(), rest: None, challenge: None, failure: None }
    }

    /// Encodes an error of vmcp itself. The modern era has HTTP statuses for some codes.
    pub(crate) fn error(era: Era, id: &RawValue, error: &RpcError) -> Self {
        Self {
            status: codes::http_status(error.code, era),
            body: rpc::error(Some(id), JsonRope::from(error.to_json())).into(),
            rest: None,
            challenge: None,
            failure: Some(Box::new(failure_of(error))),
        }
    }

    /// Encodes an error without an id: it may be of any request.
    fn without_id(error: &RpcError) -> Self {
        let body = rpc::error(None, JsonRope::from(error.to_json()));
        Self { failure: Some(Box::new(failure_of(error))), ..Self::ok(body) }
    }

    /// Waits until all of the message has arrived. One that broke off becomes an error without an id.
    pub(crate) async fn collect(mut self) -> Self {
        let Some(rest) = self.rest.take() else { return self };
        let mut pieces = rest.into_pieces();
        while let Some(piece) = pieces.next().await {
            match piece {
                Ok(piece) => self.body.append(piece),
                Err(error) => {
                    let error = RpcError::new(codes::INTERNAL_ERROR, error.to_string());
                    return Self::without_id(&error);
                }
            }
        }
        self
    }

    /// Returns the answer to a violated internal invariant, and logs it.
    pub(crate) fn internal_error() -> Self {
        tracing::error!("a request ended without an answer");
        let error = RpcError::new(codes::INTERNAL_ERROR, "internal error; see the server's log");
        Self { status: 500, ..Self::without_id(&error) }
    }
}

/// Returns an error as telemetry counts it.
fn failure_of(error: &RpcError) -> OperationFailure {
    OperationFailure::Rpc { code: error.code, message: error.message.clone() }
}
