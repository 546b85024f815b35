//! A request written for the wire, as a link sends it.

use bytes::Bytes;
use vmcp_wire::era::Revision;

use crate::request::Request;

/// A request on its way to a backend.
#[derive(Debug)]
pub(crate) struct PreparedRequest<'a> {
    pub(crate) id: u64,
    /// The whole JSON-RPC message.
    pub(crate) message: Bytes,
    /// Source of the HTTP headers; other transports read the method only.
    pub(crate) request: &'a Request<'a>,
    pub(crate) revision: Revision,
}
