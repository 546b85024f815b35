//! One request from its message to its encoded response, whatever transport carried it.

pub(super) mod conversation;
pub(super) mod dispatch;
pub(super) mod edge;
pub(super) mod encoded_response;
pub(super) mod handshake;
mod in_flight;
mod input_requests;
mod lists;
mod log_level;
mod parked;
mod running_call;

pub use edge::Edge;
