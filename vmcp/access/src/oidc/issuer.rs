//! [`Issuer`]: one identity provider, with its present keys.

use std::sync::Arc;
use std::time::SystemTime;

use jsonwebtoken::Header;
use vmcp_config::OidcIssuer;

use super::key_source::{KeySource, KeyState, Timing};
use super::keys::KeySet;
use super::token_type;
use super::verify::{self, Claims, TokenError};
use crate::identity::claim_path;
use crate::rejection::Rejection;

/// An identity provider whose tokens are accepted. Dropping it ends the task that fetches its keys.
#[derive(Debug)]
pub struct Issuer {
    config: Arc<OidcIssuer>,
    keys: Keys,
    required: Arc<[String]>,
}

/// Sources of an issuer's keys.
#[derive(Debug)]
enum Keys {
    /// The provider, over HTTP.
    Fetched(KeySource),
    /// This process: it is the issuer itself.
    Own(KeyState),
}

/// State of an issuer, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerStatus {
    /// The configured issuer.
    pub issuer: String,
    /// Number of keys that are there.
    pub keys: usize,
    /// The reason why the last fetch of keys failed, and since when fetches fail.
    pub failure: Option<(Arc<str>, SystemTime)>,
}

impl Issuer {
    pub(crate) fn start(config: Arc<OidcIssuer>, timing: Timing) -> Issuer {
        let required = config.required_scopes.clone().into();
        let keys = Keys::Fetched(KeySource::start(Arc::clone(&config), timing));
        Issuer { config, keys, required }
    }

    /// The issuer that this process is itself.
    pub(crate) fn own(config: Arc<OidcIssuer>, keys: KeySet) -> Issuer {
        let required = config.required_scopes.clone().into();
        Issuer { config, keys: Keys::Own(KeyState::fixed(keys)), required }
    }

    /// Returns true if this process is the issuer itself.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.keys, Keys::Own(_))
    }

    fn state(&self) -> KeyState {
        match &self.keys {
            Keys::Fetched(source) => source.state(),
            Keys::Own(state) => state.clone(),
        }
    }

    /// Returns the settings.
    pub fn config(&self) -> &Arc<OidcIssuer> {
        &self.config
    }

    /// Returns the state of the issuer's keys.
    pub fn status(&self) -> IssuerStatus {
        let KeyState { keys, failure, .. } = self.state();
        IssuerStatus { issuer: self.config.issuer.clone(), keys: keys.len(), failure }
    }

    /// Returns the version of the present keys.
    pub(crate) fn key_version(&self) -> u64 {
        match &self.keys {
            Keys::Fetched(source) => source.version(),
            Keys::Own(state) => state.version,
        }
    }

    /// Verifies a token; returns its claims, and the version of the keys that did. A token of a key that is
    /// not known lets the keys be fetched again.
    pub(crate) async fn verify(&self, token: &str, header: &Header) -> Result<(Claims, u64), Rejection> {
        let state = self.state();
        if let Some(claims) = self.verify_by(token, header, &state)? {
            return Ok((claims, state.version));
        }
        let Keys::Fetched(source) = &self.keys else { return Err(TokenError::Signature.into()) };
        let newer = source.newer_than(&state).await;
        if let Some(claims) = self.verify_by(token, header, &newer)? {
            return Ok((claims, newer.version));
        }
        // Without the present keys of the provider, a token of a new key looks like a forged one.
        let unsure = newer.fetches == 0 || newer.failure.is_some();
        Err(if unsure { Rejection::Unavailable } else { TokenError::Signature.into() })
    }

    /// Verifies a token by the keys of `state`; `None` if the key that its header names is not among them.
    fn verify_by(
        &self,
        token: &str,
        header: &Header,
        state: &KeyState,
    ) -> Result<Option<Claims>, TokenError> {
        let mut keys = state.keys.candidates(header.alg, header.kid.as_deref()).peekable();
        if keys.peek().is_none() {
            return Ok(None);
        }
        match verify::verify(token, header, &self.config, keys) {
            // A token without a key id may be signed by a new key.
            Err(TokenError::Signature) if header.kid.is_none() => Ok(None),
            verified => verified.map(Some),
        }
    }

    /// Returns the refusal of a verified token that is no access token, or lacks a required scope.
    pub(crate) fn check_access(&self, header: &Header, claims: &Claims) -> Result<(), Rejection> {
        token_type::check(header.typ.as_deref(), &claims.all, &self.config.token_types)?;
        let mut required = self.config.required_claims.iter();
        if !required.all(|(path, accepted)| claim_path::has_one_of(&claims.all, path, accepted)) {
            return Err(TokenError::Condition.into());
        }
        let lacking = self.required.iter().any(|scope| !verify::grants(&claims.all, scope));
        if lacking {
            Err(Rejection::InsufficientScope { required: Arc::clone(&self.required) })
        } else {
            Ok(())
        }
    }
}
