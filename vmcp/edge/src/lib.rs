//! The MCP edge: clients of both eras over HTTP and stdio, and the admin port.
//!
//! ```text
//! port        sockets of both ports, connections, the layers of a request (`port::stack`), graceful shutdown
//!   │
//! tools_api     tools by topic, over plain HTTP
//! registry_api  profiles as servers of a registry, for IDEs
//! hooks_api     hooks of coding agents, and their sessions
//! rest_api      servers, tools and calls, over plain HTTP
//!   │
//! transport   http ─┐  bytes become a message and a `Peer`, its sender
//!             stdio ┘
//!   │
//! request     conversation ─ dispatch ─┬─ handshake   initialize, server/discover, ping
//!   │            │                     ├─ lists       pages of the snapshot's view
//!   │            └─ parked             └─ route       tools, resources, prompts (not of the edge)
//!   │
//! push        messages that belong to no request: subscriptions, mailboxes, push streams
//!   │
//! session     sealed session ids, keys, open questions to clients
//! ```
//!
//! Each room imports only rooms below it. Everything behind `request` is the same for all transports: a new
//! transport turns bytes into a message and a `Peer`, and writes the items of the conversation.

// rustdoc follows the futures of a call down to the socket, through more types than the default of 128.
#![recursion_limit = "256"]

mod hooks_api;
pub mod port;
mod push;
mod registry_api;
mod request;
mod rest_api;
mod session;
mod tools_api;
pub mod transport;

pub use push::DownstreamRouter;
pub use request::Edge;
