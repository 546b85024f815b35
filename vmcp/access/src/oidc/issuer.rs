//! [`Issuer`]: one identity provider, with its present keys.

use std::sync::Arc;
use std::time::SystemTime;

use jsonwebtoken::Header;
use vmcp_config::{IntrospectedTokens, OidcIssuer};

use super::introspection::{Introspector, TokenDigest};
use super::key_source::{KeySource, KeyState, Timing};
use super::keys::KeySet;
use super::token_type;
use super::verify::{self, Claims};
use crate::identity::{claim_path, scopes};
use crate::oidc::rejection::{Rejection, TokenError};

/// An identity provider whose tokens are accepted. Dropping it ends the task that fetches its keys.
#[derive(Debug)]
pub struct Issuer {
    config: Arc<OidcIssuer>,
    keys: Keys,
    introspector: Option<Introspector>,
    required: Arc<[String]>,
}

/// Sources of an issuer's keys.
#[derive(Debug)]
enum Keys {
    /// The provider, over HTTP.
    Fetched(KeySource),
    /// This process: it is the issuer itself.
    Own(KeyState),
    /// None: the issuer is asked about each token.
    Unused,
}

/// State of an issuer, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerStatus {
    /// The configured issuer.
    pub issuer: String,
    /// Number of keys that are there.
    pub keys: usize,
    /// The reason why the last fetch of keys, or the last introspection, failed, and since when they fail.
    pub failure: Option<(Arc<str>, SystemTime)>,
}

impl Issuer {
    pub(crate) fn start(config: Arc<OidcIssuer>, timing: Timing) -> Issuer {
        let required = config.required_scopes.clone().into();
        let settings = config.introspection.as_ref();
        let introspector = settings.map(|settings| Introspector::new(&config, settings, timing.patience));
        let keys = match settings.map(|settings| settings.tokens) {
            Some(IntrospectedTokens::All) => Keys::Unused,
            _ => Keys::Fetched(KeySource::start(Arc::clone(&config), timing)),
        };
        Issuer { config, keys, introspector, required }
    }

    /// The issuer that this process is itself.
    pub(crate) fn own(config: Arc<OidcIssuer>, keys: KeySet) -> Issuer {
        let required = config.required_scopes.clone().into();
        Issuer { config, keys: Keys::Own(KeyState::fixed(keys)), introspector: None, required }
    }

    /// Returns true if this process is the issuer itself.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.keys, Keys::Own(_))
    }

    fn state(&self) -> KeyState {
        match &self.keys {
            Keys::Fetched(source) => source.state(),
            Keys::Own(state) => state.clone(),
            Keys::Unused => KeyState::default(),
        }
    }

    /// Returns the settings.
    pub fn config(&self) -> &Arc<OidcIssuer> {
        &self.config
    }

    /// Returns the state of the issuer's keys.
    pub fn status(&self) -> IssuerStatus {
        let KeyState { keys, failure, .. } = self.state();
        let failure = failure.or_else(|| self.introspector.as_ref().and_then(Introspector::failure));
        IssuerStatus { issuer: self.config.issuer.clone(), keys: keys.len(), failure }
    }

    /// Returns the version of the present keys.
    pub(crate) fn key_version(&self) -> u64 {
        match &self.keys {
            Keys::Fetched(source) => source.version(),
            Keys::Own(state) => state.version,
            Keys::Unused => 0,
        }
    }

    /// Returns true if the issuer is asked about a token; `claimed` is the issuer that a JWT names.
    pub(crate) fn introspects(&self, claimed: Option<&str>) -> bool {
        let tokens = self.config.introspection.as_ref().map(|settings| settings.tokens);
        match (tokens, claimed) {
            (None, _) | (Some(IntrospectedTokens::Opaque), Some(_)) => false,
            (Some(_), None) => true,
            (Some(IntrospectedTokens::All), Some(claimed)) => claimed == self.config.issuer,
        }
    }

    /// Asks the issuer about a token; returns the claims of a good one, and the version of the present keys.
    pub(crate) async fn introspect(
        &self,
        token: &str,
        digest: &TokenDigest,
    ) -> Result<(Claims, u64), Rejection> {
        let introspector = self.introspector.as_ref().ok_or(Rejection::Unknown)?;
        let keys = self.key_version();
        let claims = introspector.ask(token, digest).await;
        let claims = claims.and_then(|claims| self.check_claims(&claims).map(|()| claims));
        claims.map(|claims| (claims, keys)).inspect_err(|refusal| introspector.remember(digest, refusal))
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
        self.check_claims(claims)
    }

    /// Returns the refusal of a token that lacks a required claim or scope.
    fn check_claims(&self, claims: &Claims) -> Result<(), Rejection> {
        let mut required = self.config.required_claims.iter();
        if !required.all(|(path, accepted)| claim_path::has_one_of(&claims.all, path, accepted)) {
            return Err(TokenError::Condition.into());
        }
        let granted = scopes::granted_by(&claims.all);
        if self.required.iter().any(|scope| !granted.contains(&scope.as_str())) {
            Err(Rejection::InsufficientScope { required: Arc::clone(&self.required) })
        } else {
            Ok(())
        }
    }
}
