//! The links to a backend: streamable HTTP, and two-way streams (stdio, HTTP+SSE) behind one multiplexer.

mod body;
mod channel;
mod endpoint;
mod http;
mod link;
mod link_error;
mod mux;
mod open;
mod prepared_request;
mod sse;
mod stdio;

pub(crate) use channel::Channel;
pub(crate) use link::Link;
pub(crate) use link_error::LinkError;
pub(crate) use open::{open, sibling};
