//! Credentials for backends: access tokens for vmcp itself or for one client, fetched from their providers,
//! cached, renewed before they expire.
//!
//! | room | holds |
//! |---|---|
//! | `provider` | one token endpoint: the request, client authentication, the answer |
//! | `grants` | the requests of each kind of credentials |
//! | `subject_token` | the token of a client that is exchanged |
//! | `cache` | tokens by client: LRU, single flight, renewal ahead of expiry |
//! | `aws` | keys of roles, signed requests |
//! | [`logins`] | tokens of `vmcp login`, on disk |
//! | `upstream` | tokens of upstream providers, as the client's access token carries them |

mod aws;
mod cache;
mod grants;
pub mod logins;
pub(crate) mod provider;
mod subject_token;
mod upstream;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use sha2::{Digest as _, Sha256};
use vmcp_config::{Credentials, Secret};

pub use self::aws::OutgoingRequest;
use self::cache::{SubjectKey, TokenCache};
use self::grants::Grants;
pub use self::provider::HttpClient;
use crate::identity::Identity;
use crate::identity::upstream_tokens::LatestTokens;

/// The reason of a missing token. Neither part shows a token or a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct OutgoingError {
    /// The reason and its remedy, for the client.
    pub reason: String,
    /// More for the operator: the host of the provider and its error.
    pub detail: String,
}

/// Access tokens for one backend.
#[derive(Debug)]
pub struct BackendTokens {
    grants: Grants,
    cache: TokenCache,
    latest: LatestTokens,
}

/// The party that a token is for.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// vmcp itself: listings, health.
    Vmcp,
    /// A client.
    Client(&'a Identity),
}

impl BackendTokens {
    /// Prepares the tokens of a backend; `None` if its credentials need none. `logins` is the folder of
    /// [`logins`].
    pub fn new(
        backend: &str,
        credentials: &Credentials,
        http: HttpClient,
        logins: Option<PathBuf>,
    ) -> Option<Self> {
        let grants = Grants::new(backend, credentials, http, logins)?;
        Some(Self { grants, cache: TokenCache::default(), latest: LatestTokens::default() })
    }

    /// Lists with the tokens of the client who signed in last, where the credentials say so.
    #[must_use]
    pub fn listing_with(self, latest: LatestTokens) -> Self {
        Self { latest, ..self }
    }

    /// Returns the access token for `subject`, or `None` if the backend gets none. `refused` is a token that
    /// the backend answered with HTTP 401.
    pub async fn token(
        &self,
        subject: Subject<'_>,
        refused: Option<&str>,
    ) -> Result<Option<Secret>, OutgoingError> {
        if let Grants::Upstream(inject) = &self.grants {
            return upstream::token(inject, subject, &self.latest, refused);
        }
        let Some(request) = self.grants.request(subject)? else { return Ok(None) };
        let key = if self.grants.is_per_client() { key_of(subject) } else { SubjectKey::default() };
        let fetch = |is_refused: bool| self.grants.fetch(request, refused.filter(|_| is_refused));
        self.cache.token(key, refused, fetch).await.map(Some)
    }

    /// Returns the rest of the life of each token that is kept for a client, by [`Identity::digest`].
    pub fn lives_of(&self, client: &[u8; 32]) -> Vec<Duration> {
        self.cache.lives(client)
    }

    /// Forgets the tokens that are kept for a client, by [`Identity::digest`]; true if there were some. The
    /// client's next call fetches another one.
    pub fn forget(&self, client: &[u8; 32]) -> bool {
        self.cache.forget(client) > 0
    }

    /// Returns true if requests are signed; [`Self::token`] is of no use to the backend then.
    pub fn is_signer(&self) -> bool {
        matches!(self.grants, Grants::Aws(_))
    }

    /// Returns the headers that sign a request for `subject`, or `None` if it is not signed.
    pub async fn signature(
        &self,
        subject: Subject<'_>,
        request: &OutgoingRequest<'_>,
    ) -> Result<Option<HeaderMap>, OutgoingError> {
        let Grants::Aws(signer) = &self.grants else { return Ok(None) };
        let Some(keys) = self.token(subject, None).await? else { return Ok(None) };
        signer.sign(&keys, request, SystemTime::now()).map(Some)
    }
}

/// Returns the cache key of a subject: its identity and the exchanged token, so that a narrower token of the
/// same client never gets the result of a broader one.
fn key_of(subject: Subject<'_>) -> SubjectKey {
    let Subject::Client(Identity::Known(known)) = subject else { return SubjectKey::default() };
    let token = Sha256::digest(known.token().unwrap_or_default()).into();
    SubjectKey { identity: Identity::Known(known.clone()).digest(), token }
}

#[cfg(test)]
mod tests;
