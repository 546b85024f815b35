//! [`Authentication`]: the ways in which clients prove who they are, as configured.

pub mod revocations;
mod token_cache;

use std::sync::Arc;
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};
use url::Url;
use vmcp_config::{IncomingAuth, OidcIssuer};

use crate::api_keys::{self, ApiKeys};
use crate::auth_server::AuthServer;
use crate::clock::now;
use crate::identity::Identity;
use crate::identity::claim_path;
use crate::identity::client_certificate::{self, ClientCertificate};
use crate::identity::credential::{Credential, Scheme};
use crate::identity::upstream_tokens::{LatestTokens, UpstreamTokens};
use crate::oidc::issuer::{Issuer, IssuerStatus};
use crate::oidc::key_source::Timing;
use crate::oidc::possession::BoundToken;
use crate::oidc::possession::replays::ProofReplays;
use crate::oidc::rejection::{Rejection, TokenError};
use crate::oidc::ring_provider;
use crate::oidc::verify::{self, Claims};
use revocations::Revocations;
use token_cache::{TokenCache, Verified};

/// Bytes of a credential; a longer one is refused unread. Tokens with many groups reach some 10 KiB.
const MAX_CREDENTIAL_BYTES: usize = 32 * 1024;

/// The ways in which clients prove who they are. One exists for each configuration of `incomingAuth`; the
/// next takes over the issuers that did not change, with their keys.
#[derive(Debug, Default)]
pub struct Authentication {
    config: IncomingAuth,
    issuers: Vec<Arc<Issuer>>,
    api_keys: ApiKeys,
    verified: TokenCache,
    auth_server: Option<Arc<AuthServer>>,
    latest: LatestTokens,
    revocations: Arc<Revocations>,
    replays: Arc<ProofReplays>,
}

impl Authentication {
    /// Makes what `config` asks for, and begins to fetch keys. Waits for no provider. With issuers, it needs
    /// a tokio runtime.
    pub fn start(config: &IncomingAuth, before: &Authentication) -> Authentication {
        Authentication::with_timing(config, before, Timing::default())
    }

    pub(crate) fn with_timing(
        config: &IncomingAuth,
        before: &Authentication,
        timing: Timing,
    ) -> Authentication {
        ring_provider::install();
        let auth_server = config.auth_server.as_ref().and_then(|wanted| {
            let predecessor = before.auth_server.as_deref();
            AuthServer::start(wanted, predecessor, timing, &before.revocations).map(Arc::new)
        });
        let issuer = |wanted: &Arc<OidcIssuer>| {
            if config.auth_server.as_ref().is_some_and(|own| own.issuer == wanted.issuer) {
                let keys = auth_server.as_ref().map(|server| server.verifying_keys()).unwrap_or_default();
                return Arc::new(Issuer::own(Arc::clone(wanted), keys));
            }
            let same = before.issuers.iter().find(|issuer| issuer.config() == wanted && !issuer.is_own());
            same.map_or_else(|| Arc::new(Issuer::start(Arc::clone(wanted), timing)), Arc::clone)
        };
        Authentication {
            config: config.clone(),
            issuers: config.issuers.iter().map(issuer).collect(),
            api_keys: ApiKeys::new(&config.api_keys),
            verified: TokenCache::default(),
            auth_server,
            latest: before.latest.clone(),
            revocations: Arc::clone(&before.revocations),
            replays: Arc::clone(&before.replays),
        }
    }

    /// Returns the credentials that operators have withdrawn.
    pub fn revocations(&self) -> &Arc<Revocations> {
        &self.revocations
    }

    /// Returns true if a client that has proved an identity lost its credential since: by an order of an
    /// operator, or with its API key, its issuer or the certificate authorities. Its token or certificate is
    /// looked at with each request and stream. Without authentication, identities of issuers stay.
    pub fn has_withdrawn(&self, identity: &Identity) -> bool {
        let Some(known) = identity.as_known() else { return false };
        let has_source = match known.issuer() {
            api_keys::ISSUER => self.api_keys.has_subject(known.subject()),
            client_certificate::ISSUER => self.config.client_authorities.is_some(),
            issuer => self.is_anonymous() || self.issuers.iter().any(|one| one.config().issuer == issuer),
        };
        !has_source || self.revocations.refuses(identity)
    }

    /// Returns true if an API key proved an identity with claims that its present keys do not give it. Other
    /// sources write their claims into the credential.
    pub fn has_changed(&self, identity: &Identity) -> bool {
        let is_of_key = identity.as_known().is_some_and(|known| known.issuer() == api_keys::ISSUER);
        is_of_key && !self.api_keys.proves(identity)
    }

    /// Returns an identity whose credential is not withdrawn.
    fn admitted(&self, identity: Identity) -> Result<Identity, Rejection> {
        if self.revocations.refuses(&identity) { Err(Rejection::Withdrawn) } else { Ok(identity) }
    }

    /// Returns the configuration that this was made of.
    pub fn config(&self) -> &IncomingAuth {
        &self.config
    }

    /// Returns true if clients need no credentials.
    pub fn is_anonymous(&self) -> bool {
        self.config.is_anonymous()
    }

    /// Returns true if clients may present keys of a list.
    pub fn takes_api_keys(&self) -> bool {
        !self.api_keys.is_empty()
    }

    /// Returns the embedded authorization server.
    pub fn auth_server(&self) -> Option<&Arc<AuthServer>> {
        self.auth_server.as_ref()
    }

    /// Returns the tokens of the client who signed in last.
    pub fn latest_tokens(&self) -> &LatestTokens {
        &self.latest
    }

    /// Returns the sign-ins of a person, by [`Identity::digest`]: each access token that this process has
    /// verified and would let in again.
    pub fn sign_ins_of(&self, person: &[u8; 32]) -> Vec<Identity> {
        let signed_in = self.verified.identities_of(person, now());
        signed_in.into_iter().filter(|identity| !self.revocations.refuses(identity)).collect()
    }

    /// Returns the state of each identity provider that is another server, for operators.
    pub fn status(&self) -> Vec<IssuerStatus> {
        self.issuers.iter().filter(|issuer| !issuer.is_own()).map(|issuer| issuer.status()).collect()
    }

    /// Returns the URLs at which clients reach this server, as configured: a proof of possession (DPoP) must
    /// be for one of them. Without any, proofs cannot be verified, and tokens that need them are refused.
    pub fn public_urls(&self) -> impl Iterator<Item = &Url> {
        let own = self.config.auth_server.as_ref().map(|server| &server.resource);
        self.config.issuers.iter().filter_map(|issuer| issuer.resource.as_ref()).chain(own)
    }

    /// Returns the client that a credential proves. `None` stands for a request without one.
    pub async fn identify(&self, credential: Option<&Credential<'_>>) -> Result<Identity, Rejection> {
        if self.is_anonymous() {
            return Ok(Identity::Anonymous);
        }
        let credential = credential.ok_or(Rejection::Missing)?;
        if credential.token.len() > MAX_CREDENTIAL_BYTES {
            return Err(Rejection::Malformed);
        }
        let digest: [u8; 32] = Sha256::digest(credential.token).into();
        let is_bound = credential.scheme == Scheme::Dpop;
        if let Some(identity) = self.api_keys.identify(&digest) {
            // Not shown to an issuer. A key has no proofs.
            return if is_bound { Err(Rejection::Unknown) } else { self.admitted(identity.clone()) };
        }
        let version = |position: usize| self.issuers.get(position).map_or(0, |issuer| issuer.key_version());
        let known = self.verified.get(&digest, now(), version);
        let verified = match known {
            Some(verified) => verified,
            None if self.issuers.is_empty() => return Err(Rejection::Unknown),
            None => {
                let verified = self.verify(credential, &digest).await?;
                self.verified.insert(digest, verified.clone());
                verified
            }
        };
        let issuer = self.issuers.get(verified.issuer);
        let required = issuer.map(|issuer| issuer.config().required_binding).unwrap_or_default();
        let token = BoundToken { confirmation: &verified.confirmation, digest: &digest, required };
        token.check(credential, self.config.client_authorities.as_deref(), &self.replays)?;
        let identity = self.admitted(verified.identity)?;
        // With each request: the client before may have been forgotten since this token was verified.
        self.latest.note(&identity, verified.until);
        Ok(identity)
    }

    /// Returns the client of a certificate, for a request without another credential.
    pub fn identify_by(&self, certificate: &ClientCertificate) -> Result<Identity, Rejection> {
        let authorities = self.config.client_authorities.as_deref();
        let identity = authorities.and_then(|by| certificate.identity(by, SystemTime::now()));
        self.admitted(identity.cloned().ok_or(Rejection::Unknown)?)
    }

    /// Verifies a token by the issuers that it may be of: by their keys, or by asking them.
    async fn verify(&self, credential: &Credential<'_>, digest: &[u8; 32]) -> Result<Verified, Rejection> {
        let token = credential.token;
        let claimed = match verify::claimed_issuer(token) {
            // A key in `X-API-Key` is shown to no issuer.
            Err(TokenError::Malformed) if credential.scheme != Scheme::ApiKey => None,
            claimed => Some(claimed?),
        };
        let mut issuers = self.issuers.iter().enumerate();
        if let Some((position, issuer)) = issuers.find(|(_, issuer)| issuer.introspects(claimed.as_deref())) {
            let (claims, keys) = issuer.introspect(token, digest).await?;
            return Ok(self.accept(issuer, position, token, claims, keys));
        }
        let header = verify::header(token)?;
        let claimed = claimed.ok_or(TokenError::Malformed)?;
        let mut rejection = Rejection::Token(TokenError::Issuer);
        for (position, issuer) in self.issuers.iter().enumerate() {
            if issuer.config().issuer != claimed {
                continue;
            }
            let verified = issuer.verify(token, &header).await;
            let verified = verified.and_then(|found| issuer.check_access(&header, &found.0).map(|()| found));
            match verified {
                Ok((claims, keys)) => return Ok(self.accept(issuer, position, token, claims, keys)),
                Err(refused) => rejection = refused,
            }
        }
        Err(rejection)
    }

    /// Makes the identity of a verified token.
    fn accept(
        &self,
        issuer: &Issuer,
        position: usize,
        token: &str,
        mut claims: Claims,
        keys: u64,
    ) -> Verified {
        let own = self.auth_server.as_ref().filter(|_| issuer.is_own());
        let upstream = own.map_or_else(UpstreamTokens::default, |server| {
            server.take_upstream(&claims.subject, &mut claims.all)
        });
        claim_path::map(&mut claims.all, &issuer.config().claim_mapping);
        let Claims { subject, until, confirmation, all } = claims;
        let identity =
            Identity::signed_in(&issuer.config().issuer, &subject, all, Some(token.into()), upstream);
        Verified { identity, until, keys, issuer: position, confirmation }
    }
}

#[cfg(test)]
mod tests;
