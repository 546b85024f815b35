//! Transports: HTTP and stdio. Each turns bytes into a message and a [`Peer`](super::session::peer::Peer),
//! the sender of the message, and writes what the
//! [`Conversation`](super::request::conversation::Conversation) yields.

pub(crate) mod http;
pub(crate) mod query_parameters;
pub(crate) mod request_headers;
pub mod stdio;
mod trace;
