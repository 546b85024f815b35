//! Principals: callers, by identity and network address.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
pub use vmcp_access::identity::Identity;

/// The caller of a request, as policies, limits and records see it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The identity, which rights belong to.
    pub identity: Identity,
    /// The client's address, where a network is between; stands for the identity in limits until there is
    /// one.
    pub address: Option<IpAddr>,
    /// The profile whose path the client calls: it may reach that part of the catalog only.
    pub profile: Option<Arc<str>>,
    /// The operator who calls as the identity, from the console, as audit events name them; `None`: the
    /// client itself. Policies judge the identity. Its credentials, sessions, results and limits stay its
    /// own: [`Principal::key`] and [`Principal::binding`] are other ones.
    pub operator: Option<Arc<str>>,
}

impl From<Identity> for Principal {
    fn from(identity: Identity) -> Principal {
        Principal { identity, ..Principal::default() }
    }
}

/// A principal as limits count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrincipalKey {
    /// The only client of a process.
    Only,
    /// A client without an identity, told from others by its address.
    Address(IpAddr),
    /// A client with an identity, wherever it calls from: [`Identity::digest`].
    Identity([u8; 32]),
}

impl PrincipalKey {
    /// Returns the owner of what this principal teaches, in hexadecimal digits: its identity. Clients without
    /// an identity share what they teach.
    pub fn owner(&self) -> Option<Arc<str>> {
        matches!(self, PrincipalKey::Identity(_)).then(|| self.to_string().into())
    }
}

impl fmt::Display for PrincipalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrincipalKey::Only => f.write_str("only"),
            PrincipalKey::Address(address) => fmt::Display::fmt(address, f),
            PrincipalKey::Identity(digest) => f.write_str(&hex::encode(digest)),
        }
    }
}

/// The network part of an IPv6 address: /64.
const IPV6_NETWORK: u128 = !0 << 64;

impl Principal {
    /// Returns the key under which limits count this principal. An IPv6 client without an identity counts by
    /// its /64 network, because it can take any address in it.
    pub fn key(&self) -> PrincipalKey {
        match (&self.identity, self.address) {
            (Identity::Known(_), _) => PrincipalKey::Identity(self.owner()),
            (Identity::Anonymous, None) => PrincipalKey::Only,
            (Identity::Anonymous, Some(address)) => PrincipalKey::Address(match address.to_canonical() {
                IpAddr::V4(address) => address.into(),
                IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & IPV6_NETWORK).into(),
            }),
        }
    }

    /// Returns the value that sealed tokens are bound to: a session or a state is of use only to the
    /// identity, and under the profile, that it was made for.
    pub fn binding(&self) -> [u8; 32] {
        match (&self.profile, &self.operator) {
            (None, None) => self.identity.digest(),
            (Some(profile), None) => self.identity.digest_within(profile),
            (profile, Some(_)) => {
                let within = profile.as_deref().unwrap_or_default();
                Sha256::new().chain_update(self.owner()).chain_update(within).finalize().into()
            }
        }
    }

    /// Returns the digest of the owner of calls and what they leave: the identity, or an operator as it.
    fn owner(&self) -> [u8; 32] {
        match &self.operator {
            None => self.identity.digest(),
            // No profile has a name with this character.
            Some(operator) => self.identity.digest_within(&format!("operator\0{operator}")),
        }
    }

    /// Returns the owner of connections to backends that clients of this principal share.
    pub(crate) fn at_backends(&self) -> vmcp_backend::Principal {
        match self.key() {
            PrincipalKey::Only => vmcp_backend::Principal::Anonymous,
            PrincipalKey::Address(address) => vmcp_backend::Principal::Address(address),
            PrincipalKey::Identity(digest) => vmcp_backend::Principal::Identity(digest),
        }
    }

    /// The principal without an identity that calls from `address`.
    #[cfg(any(test, feature = "testing"))]
    #[allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a helper of tests fails like a test")]
    pub fn at(address: &str) -> Principal {
        Principal { address: Some(address.parse().unwrap()), ..Principal::default() }
    }
}
