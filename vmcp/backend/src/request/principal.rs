//! Principals: those on whose behalf requests are sent.

use std::net::IpAddr;

/// The principal of a request. Chooses the credentials that the backend gets, and owns the connections that
/// clients without a session use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Principal {
    /// vmcp itself, or the only client of a process (`vmcp serve --stdio`).
    #[default]
    Anonymous,
    /// A client that has not proved who it is, told from others by its address.
    Address(IpAddr),
    /// A client that has proved who it is: a digest of its identity.
    Identity([u8; 32]),
}
