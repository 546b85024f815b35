//! Outcome of a JSON-RPC request: its result or its error.

use serde_json::value::RawValue;
use vmcp_wire::codes;
use vmcp_wire::payload::{self, Payload, Reply};
use vmcp_wire::rpc::RpcError;

use crate::request::arriving::ArrivingResult;

/// The `result` or the `error` of a JSON-RPC response.
#[derive(Debug)]
pub enum RpcOutcome {
    /// The `result` member.
    Result(Payload),
    /// The `error` member. The backend is alive; the connection has not failed.
    Error(Payload),
    /// A large result whose beginning has arrived: only for [`Request::stream`](crate::Request::stream).
    Arriving(ArrivingResult),
}

impl RpcOutcome {
    /// An outcome with a copy of `result`.
    pub fn result(result: &RawValue) -> Self {
        Self::Result(result.to_owned().into())
    }

    /// An outcome with a copy of `error`, mended where clients could not read it.
    pub fn error(error: &RawValue) -> Self {
        Self::Error(payload::mended_error(error).unwrap_or_else(|| error.to_owned()).into())
    }

    /// The result or the error of a caller that takes no stream. To such a one nothing arrives in parts; if
    /// something did, it would be an error.
    #[expect(clippy::result_large_err, reason = "a box would cost each call an allocation")]
    pub fn settled(self) -> Result<Payload, Payload> {
        match self {
            Self::Result(result) => Ok(result),
            Self::Error(error) => Err(error),
            Self::Arriving(_) => Err(uncollected()),
        }
    }
}

/// Returns the error of a caller that takes whole results and was given one that arrives in parts.
pub fn uncollected() -> Payload {
    let error = RpcError::new(codes::INTERNAL_ERROR, "the result was not collected").to_json();
    RawValue::from_string(error).unwrap_or_default().into()
}

impl From<Reply> for RpcOutcome {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Result(result) => Self::Result(result),
            Reply::Error(error) => Self::Error(match payload::mended_error(&error) {
                Some(mended) => mended.into(),
                None => error,
            }),
        }
    }
}
