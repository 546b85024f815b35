//! [`Seals`]: what clients and browsers carry for the authorization server, sealed, each kind for its own
//! purpose, so that any replica can go on and none of them can be used as another.

use serde::Serialize;
use serde::de::DeserializeOwned;
use vmcp_config::Secret;
use vmcp_wire::sealed::{KeyError, KeyRing};

use crate::auth_server::random::random;
use crate::clock::now;

/// Kinds of sealed values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A registered client: `client_id`.
    Client,
    /// A request of a client for which a person has not consented yet.
    Consent,
    /// The `state` of a request to an upstream provider.
    State,
    /// An authorization code.
    Code,
    /// A refresh token.
    Refresh,
    /// The tokens of providers in an access token.
    Upstream,
}

impl Purpose {
    /// The associated data that keeps the kinds apart.
    fn label(self) -> &'static [u8] {
        match self {
            Self::Client => b"authServer client",
            Self::Consent => b"authServer consent",
            Self::State => b"authServer state",
            Self::Code => b"authServer code",
            Self::Refresh => b"authServer refresh token",
            Self::Upstream => b"authServer upstream tokens",
        }
    }
}

/// The keys that seal.
#[derive(Debug, Clone)]
pub(super) struct Seals(KeyRing);

impl Seals {
    /// Derives the keys of the configured secrets; `own` is the only one without, and opens after them.
    pub(super) fn new(configured: &[Secret], own: &[u8; 32]) -> Result<Self, KeyError> {
        let configured = configured.iter().map(|secret| secret.expose().as_bytes());
        KeyRing::from_secrets(configured.chain([own.as_slice()])).map(Self)
    }

    /// Seals a value until `expires`, in seconds since 1970.
    pub(super) fn seal<T: Serialize>(&self, purpose: Purpose, value: &T, expires: u64) -> String {
        // These types always serialize; the default would be a text that opens as nothing.
        let content = serde_json::to_vec(value).unwrap_or_default();
        self.0.seal(&random(), &content, purpose.label(), expires)
    }

    /// Opens a value that was sealed for the same purpose and has not expired.
    pub(super) fn open<T: DeserializeOwned>(&self, purpose: Purpose, sealed: &str) -> Option<T> {
        let opened = self.0.open_long(sealed, purpose.label(), now()).ok()?;
        serde_json::from_slice(&opened.content).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_value_is_of_use_for_its_purpose_only() {
        let seals = Seals::new(&[], &[7; 32]).unwrap();
        let code = seals.seal(Purpose::Code, &"content", now() + 60);
        assert_eq!(seals.open::<String>(Purpose::Code, &code).as_deref(), Some("content"));
        for other in [Purpose::Client, Purpose::Consent, Purpose::State, Purpose::Refresh, Purpose::Upstream]
        {
            assert_eq!(seals.open::<String>(other, &code), None, "{other:?}");
        }
        assert_eq!(
            seals.open::<String>(Purpose::Code, &seals.seal(Purpose::Code, &"x", now())),
            None,
            "expired"
        );
        let others = Seals::new(&[], &[8; 32]).unwrap();
        assert_eq!(others.open::<String>(Purpose::Code, &code), None);
    }
}
