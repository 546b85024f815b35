//! [`Introspector`]: asks an issuer about tokens (RFC 7662).
//!
//! One request a token at a time (single flight), at most [`MAX_REQUESTS`] at once; tokens that were good
//! before have places of their own. Answers that let a token in are kept by the cache of verified tokens,
//! refusals for [`REFUSAL_LIFE`]. While the issuer does not answer, its tokens are refused as unverifiable
//! (503).

mod answer;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use lru::LruCache;
use parking_lot::Mutex;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::timeout;
use url::form_urlencoded::{Serializer, byte_serialize};
use vmcp_config::{Introspection, OidcIssuer};

use self::answer::AnswerError;
use super::guarded_http::FetchError;
use super::renewed_client::RenewedClient;
use super::verify::Claims;
use crate::oidc::rejection::Rejection;

/// Most requests to one issuer at once about tokens that were not good before; further ones wait.
const MAX_REQUESTS: usize = 12;
/// Further places for the others alone: a flood of made-up tokens does not hold up known clients.
const MAX_REQUESTS_OF_KNOWN: usize = 4;
/// Most tokens that are remembered as good (LRU).
const MAX_KNOWN: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// Most refusals that are remembered (LRU).
const MAX_REFUSALS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// Time for which a refusal is remembered: refused tokens cost their issuer little.
const REFUSAL_LIFE: Duration = Duration::from_secs(5);

/// SHA-256 of a token.
pub(super) type TokenDigest = [u8; 32];
/// Outcome of one request, shared by all who wait for it.
type SharedOutcome = Arc<OnceCell<Result<Claims, Rejection>>>;

/// A question without an answer.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("{url} gave no answer within {patience:?}")]
    Late { url: url::Url, patience: Duration },
    #[error("the answer of {url} cannot be used: {reason}")]
    Unusable { url: url::Url, reason: &'static str },
}

/// The introspection endpoint of one issuer.
#[derive(Debug)]
pub(super) struct Introspector {
    issuer: Arc<OidcIssuer>,
    settings: Introspection,
    /// Time for an answer.
    patience: Duration,
    client: RenewedClient,
    slots: Semaphore,
    slots_of_known: Semaphore,
    /// Tokens that the issuer has called good.
    known: Mutex<LruCache<TokenDigest, ()>>,
    flights: Mutex<HashMap<TokenDigest, SharedOutcome>>,
    refused: Mutex<LruCache<TokenDigest, (Instant, Rejection)>>,
    failure: Mutex<Option<(Arc<str>, SystemTime)>>,
}

/// A part in a request; the last part that is dropped ends it.
struct Flight<'a> {
    of: &'a Introspector,
    digest: TokenDigest,
    outcome: SharedOutcome,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut flights = self.of.flights.lock();
        // Given back under the lock: of two parts that end at once, one is the last.
        drop(std::mem::take(&mut self.outcome));
        if flights.get(&self.digest).is_some_and(|outcome| Arc::strong_count(outcome) == 1) {
            flights.remove(&self.digest);
        }
    }
}

impl Introspector {
    pub(super) fn new(issuer: &Arc<OidcIssuer>, settings: &Introspection, patience: Duration) -> Self {
        Self {
            issuer: Arc::clone(issuer),
            settings: settings.clone(),
            patience,
            client: RenewedClient::of_issuer(issuer),
            slots: Semaphore::new(MAX_REQUESTS),
            slots_of_known: Semaphore::new(MAX_REQUESTS_OF_KNOWN),
            known: Mutex::new(LruCache::sparse(MAX_KNOWN)),
            flights: Mutex::default(),
            refused: Mutex::new(LruCache::sparse(MAX_REFUSALS)),
            failure: Mutex::default(),
        }
    }

    /// Returns the reason why the last request had no answer, and since when requests have none.
    pub(super) fn failure(&self) -> Option<(Arc<str>, SystemTime)> {
        self.failure.lock().clone()
    }

    /// Returns the claims of a token that the issuer calls active.
    pub(super) async fn ask(&self, token: &str, digest: &TokenDigest) -> Result<Claims, Rejection> {
        if let Some((at, rejection)) = self.refused.lock().get(digest)
            && at.elapsed() < REFUSAL_LIFE
        {
            return Err(rejection.clone());
        }
        let outcome = Arc::clone(self.flights.lock().entry(*digest).or_default());
        let flight = Flight { of: self, digest: *digest, outcome };
        // A client that goes leaves the request to the next client that waits.
        flight.outcome.get_or_init(|| self.ask_now(token, digest)).await.clone()
    }

    /// Remembers the refusal of a token that the issuer has answered about.
    pub(super) fn remember(&self, digest: &TokenDigest, rejection: &Rejection) {
        if *rejection != Rejection::Unavailable {
            self.refused.lock().put(*digest, (Instant::now(), rejection.clone()));
        }
    }

    async fn ask_now(&self, token: &str, digest: &TokenDigest) -> Result<Claims, Rejection> {
        let answered = timeout(self.patience, self.fetch(token, digest)).await;
        let late = || AskError::Late { url: self.settings.url.clone(), patience: self.patience };
        let read = answered.unwrap_or_else(|_| Err(late())).and_then(|document| {
            match answer::read(&document, &self.issuer, self.settings.cache_ttl) {
                Ok(claims) => Ok(Ok(claims)),
                Err(AnswerError::Refused(error)) => Ok(Err(error.into())),
                Err(AnswerError::Unusable(reason)) => {
                    Err(AskError::Unusable { url: self.settings.url.clone(), reason })
                }
            }
        });
        self.note(read.as_ref().err());
        match &read {
            Ok(Ok(_)) => _ = self.known.lock().put(*digest, ()),
            Ok(Err(_)) => _ = self.known.lock().pop(digest),
            Err(_) => {}
        }
        read.unwrap_or(Err(Rejection::Unavailable))
    }

    /// Keeps the state for operators, and logs its changes. No error holds a token or the secret.
    fn note(&self, error: Option<&AskError>) {
        let issuer = &self.issuer.issuer;
        let mut failure = self.failure.lock();
        match error {
            None => {
                if failure.take().is_some() {
                    tracing::info!(%issuer, "the identity provider answers about tokens again");
                }
            }
            Some(error) => {
                let reason = error.to_string();
                let since = failure.take().map(|(_, since)| since);
                if since.is_none() {
                    tracing::warn!(%issuer, error = reason, "the identity provider gives no answer about a token (introspection); such tokens are refused until it does");
                }
                *failure = Some((reason.into(), since.unwrap_or_else(SystemTime::now)));
                if matches!(error, AskError::Fetch(FetchError::Transport { .. })) {
                    self.client.look_soon();
                }
            }
        }
    }

    /// Sends the request (RFC 7662, 2.1), with the client's secret as RFC 6749, 2.3.1 has it.
    async fn fetch(&self, token: &str, digest: &TokenDigest) -> Result<Vec<u8>, AskError> {
        let Introspection { url, client_id, client_secret, .. } = &self.settings;
        let is_known = self.known.lock().get(digest).is_some();
        // The semaphores are never closed. A known token takes the first place of either kind.
        let _slot = tokio::select! {
            slot = self.slots_of_known.acquire(), if is_known => slot,
            slot = self.slots.acquire() => slot,
        };
        let client = self.client.get()?;
        client.check(url).await?;
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let form = [("token", token), ("token_type_hint", "access_token")];
        let body = Serializer::new(String::new()).extend_pairs(form).finish();
        let request = client
            .client()
            .post(url.clone())
            .basic_auth(encoded(client_id), Some(encoded(client_secret.expose())))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json")
            .body(body);
        Ok(client.read(url, request).await?)
    }
}
