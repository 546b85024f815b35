//! Translates messages from one era to the other: requests on their way to a backend; results, errors,
//! notifications and list entries on their way to a client.
//!
//! | | to a legacy peer | to a modern peer |
//! |---|---|---|
//! | request | reserved `_meta` keys, `inputResponses`, `requestState` go | `_meta` is stamped; `task` goes |
//! | result | `resultType`, cache hints, server's `_meta` keys go | `resultType`, cache hints come |
//! | error | not found is -32002 | not found is -32602 with `data.uri` |
//! | notification | subscription ids go | subscription ids come; what no longer exists is dropped |
//!
//! Between peers of the same era only what is missing is added. What needs no change is returned as it came.

mod changes;
mod entry;
mod error;
mod forward;
mod hints;
mod incremental;
mod notification;
mod request;
mod result;

pub use entry::tool;
pub use error::{error, required_visit_ids, url_elicitation};
pub use forward::forward;
pub use hints::{Hints, Scope};
pub use incremental::{ArrivalError, IncrementalResult};
pub use notification::{NotificationPlan, Translated, notification};
pub use request::{RequestPlan, write_request};
pub use result::{ResultPlan, ResultType, payload_type, result, result_type};

use result::{named, payload_type_of};
use vmcp_json::object::ObjectError;

/// The reason why a message cannot be translated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TranslateError {
    /// The backend sent a value that is not an object, or an object with a repeated key.
    #[error("the backend's `{part}`: {reason}")]
    Malformed {
        /// `result`, `error`, `params` or `tool`.
        part: &'static str,
        /// The fault.
        reason: ObjectError,
    },
    /// A result that a legacy client does not know. The caller drives the exchange for the client, or
    /// refuses.
    #[error("a result of type `{0}` cannot be sent to a client of an earlier revision")]
    NotComplete(String),
}

#[cfg(test)]
mod tests;
