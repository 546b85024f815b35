//! One request, from its message to its encoded response, whatever transport carried it.
//!
//! ```text
//! Conversation ─► dispatch ─► handshake | lists | log_level | subscriptions | route
//!      │              └─► EncodedResponse, in the terms of the client's era
//!      ├─ events of the backend ─► notifications and questions for the client, before the response
//!      └─ ParkedCalls  a call of a modern client that waits for input
//! ```

pub(super) mod arriving_response;
mod client_state;
pub(super) mod conversation;
pub(super) mod dispatch;
pub(super) mod edge;
pub(super) mod encoded_response;
mod first_start;
pub(super) mod handshake;
pub(super) mod in_flight;
mod input_requests;
mod lists;
mod log_level;
mod running_call;

pub use edge::Edge;
