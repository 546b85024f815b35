//! Principals: whoever calls, by identity and network address. All clients are one identity until there is
//! authentication.

use std::net::{IpAddr, Ipv6Addr};

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

/// A principal as limits count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PrincipalKey(Option<IpAddr>);

/// The network part of an IPv6 address: /64.
const IPV6_NETWORK: u128 = !0 << 64;

impl Principal {
    /// Returns the key under which limits count this principal. Clients without an identity are told apart by
    /// address. An IPv6 client counts by its /64 network, because it can take any address in it.
    pub(crate) fn key(&self) -> PrincipalKey {
        let Identity::Anonymous = self.identity;
        PrincipalKey(self.address.map(|address| match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & IPV6_NETWORK).into(),
        }))
    }

    /// Returns the owner of connections to backends that clients of this principal share.
    pub(crate) fn at_backends(&self) -> vmcp_backend::Principal {
        self.key().0.map_or(vmcp_backend::Principal::Anonymous, vmcp_backend::Principal::Address)
    }
}
