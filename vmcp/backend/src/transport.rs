//! Transports: the links to a backend. Streamable HTTP sends one POST a request; stdio, HTTP+SSE and
//! websockets are two-way streams behind one multiplexer, [`mux`]. A [`Channel`] is a link with the
//! facts that requests for it are written with.

mod body;
mod channel;
mod endpoint;
mod http;
mod link;
mod link_error;
mod mux;
mod open;
mod prepared_request;
mod refused_response;
mod sse;
mod stdio;
mod websocket;

pub(crate) use channel::Channel;
pub use channel::observe_request_ids;
pub(crate) use link::Link;
#[cfg(test)]
pub(crate) use link_error::Secrets;
pub(crate) use link_error::{HttpRefusal, LinkError, RefusedAnswer, ServerWords, SessionDoubt};
pub(crate) use open::{open, sibling};
