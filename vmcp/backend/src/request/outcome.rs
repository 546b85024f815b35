//! Outcome of a JSON-RPC request: its result or its error.

use serde_json::value::RawValue;
use vmcp_wire::payload::{Payload, Reply};

/// The `result` or the `error` of a JSON-RPC response.
#[derive(Debug)]
pub enum RpcOutcome {
    /// The `result` member.
    Result(Payload),
    /// The `error` member. The backend is alive; the connection has not failed.
    Error(Payload),
}

impl RpcOutcome {
    /// An outcome with a copy of `result`.
    pub fn result(result: &RawValue) -> Self {
        Self::Result(result.to_owned().into())
    }

    /// An outcome with a copy of `error`.
    pub fn error(error: &RawValue) -> Self {
        Self::Error(error.to_owned().into())
    }
}

impl From<Reply> for RpcOutcome {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Result(result) => Self::Result(result),
            Reply::Error(error) => Self::Error(error),
        }
    }
}
