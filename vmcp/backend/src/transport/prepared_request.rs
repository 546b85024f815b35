//! A request written for the wire, on its way to a backend.

use bytes::Bytes;
use vmcp_wire::era::Revision;

use crate::request::Request;

/// A request on its way out.
#[derive(Debug)]
pub(crate) struct PreparedRequest<'a> {
    pub(crate) id: u64,
    /// The whole JSON-RPC message.
    pub(crate) message: Bytes,
    /// What the headers are made from.
    pub(crate) request: &'a Request<'a>,
    pub(crate) revision: Revision,
}
