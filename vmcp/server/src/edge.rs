//! The MCP edge: clients of both eras over HTTP and stdio, and the admin port.
//!
//! ```text
//! port        sockets of the client port and the admin port, limits, graceful shutdown
//!   │
//! transport   http ─┐  bytes become a message and a `Peer`, who sent it
//!             stdio ┘
//!   │
//! request     conversation ─ dispatch ─┬─ handshake   initialize, server/discover, ping
//!   │            │                     ├─ lists       pages of the snapshot's view
//!   │            └─ parked             └─ route       tools, resources, prompts, completions (outside of the edge)
//!   │
//! push        messages that belong to no request: subscriptions, mailboxes, the streams that empty them
//!   │
//! session     sealed session ids, keys, open questions to clients
//! ```
//!
//! Each room imports only rooms below it. Everything behind [`request`] is the same for all transports: a new transport
//! turns bytes into a message and a `Peer`, and writes what the conversation yields.

pub mod port;
mod push;
mod request;
mod session;
pub mod transport;

pub use push::DownstreamRouter;
pub use request::Edge;
