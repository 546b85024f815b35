//! Principals: whoever calls, by identity and network address. All clients are one identity until there is
//! authentication.

use std::net::IpAddr;

/// An identity with rights of its own. [`crate::engine::View`] alone decides which items it may see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Identity {
    /// A client without credentials.
    #[default]
    Anonymous,
}

impl Identity {
    /// Returns the value that sealed tokens are bound to: a session or a state is of use only to the identity
    /// it was made for.
    pub fn digest(self) -> [u8; 32] {
        match self {
            Identity::Anonymous => [0; 32],
        }
    }

    /// Returns the name for audit lines.
    pub fn subject(self) -> &'static str {
        match self {
            Identity::Anonymous => "anonymous",
        }
    }
}

/// The caller of a request, as policies, limits and records see it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The identity, which rights belong to.
    pub identity: Identity,
    /// The client's address, where a network is between; stands for the identity in limits until there is
    /// one.
    pub address: Option<IpAddr>,
}

impl From<Identity> for Principal {
    fn from(identity: Identity) -> Principal {
        Principal { identity, address: None }
    }
}
