//! One request from its message to its encoded response, whatever transport carried it.

pub(super) mod conversation;
pub(super) mod dispatch;
pub(super) mod edge;
pub(super) mod handled;
pub(super) mod handshake;
mod in_flight;
mod lists;
mod logging;
mod parked;

pub use edge::Edge;
