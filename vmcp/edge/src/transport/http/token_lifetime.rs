//! Streams that stay open end with the credential that opened them: when its token expires, and when its key,
//! its issuer, its certificate authority or the credential itself is withdrawn, or proves other claims. Its
//! successor opens the next one. The stream of a call outlives the token, but not its withdrawal.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use futures::stream::Stream;
use http::HeaderMap;
use http::request::Parts;
use tokio::time::sleep;
use vmcp_access::identity::KnownIdentity;
use vmcp_access::identity::client_certificate::ClientCertificate;
use vmcp_access::oidc::rejection::Rejection;

use super::proof;
use vmcp_engine::access::identity::Identity;
use vmcp_engine::engine::Engine;

/// Interval at which the credential of a stream is looked at again.
const CHECK_INTERVAL: Duration = Duration::from_secs(3);

/// The credential that opened a stream.
pub(super) struct StreamCredential {
    engine: Engine,
    identity: Identity,
    /// The headers that may hold it.
    headers: HeaderMap,
    certificate: Option<Arc<ClientCertificate>>,
    /// Begin of the session, in milliseconds since 1970.
    session_began: Option<u64>,
}

impl StreamCredential {
    /// Keeps the credential of a request; `session_began` is that of the session that the stream belongs to.
    pub(super) fn of(engine: &Engine, head: &Parts, identity: &Identity, session_began: Option<u64>) -> Self {
        let certificate = head.extensions.get::<Arc<ClientCertificate>>().cloned();
        let headers = proof::headers_of(&head.headers);
        Self { engine: engine.clone(), identity: identity.clone(), headers, certificate, session_began }
    }

    /// Returns the identity with the claims that the credential proves now; `None` if it proves the identity
    /// no longer. Away providers withdraw nothing.
    async fn proved(&self) -> Option<Identity> {
        let snapshot = self.engine.snapshot();
        let authentication = &snapshot.authentication;
        let began = self.session_began;
        if began.is_some_and(|began| authentication.revocations().refuses_session(&self.identity, began)) {
            return None;
        }
        match proof::identify_again(&self.headers, self.certificate.as_deref(), authentication).await {
            Ok(identity) => Some(identity).filter(|identity| *identity == self.identity),
            Err(Rejection::Unavailable) => Some(self.identity.clone()),
            Err(_) => None,
        }
    }

    /// Returns when the credential is withdrawn. A call that began in time may outlive its token.
    pub(super) async fn withdrawn(self) {
        loop {
            sleep(CHECK_INTERVAL).await;
            // An expired token is not shown to its issuer again.
            let is_good = self.has_expired() || self.proved().await.is_some();
            let is_ordered = self.engine.snapshot().authentication.revocations().refuses(&self.identity);
            // Looked at again: a token that expires while it is verified is not withdrawn.
            if is_ordered || (!is_good && !self.has_expired()) {
                tracing::info!(
                    subject = self.identity.subject(),
                    "the stream of a call ends: its credential was withdrawn"
                );
                return;
            }
        }
    }

    fn has_expired(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    /// Returns the time until the token expires; `None` if it never does.
    fn left(&self) -> Option<Duration> {
        let expires = self.identity.as_known().and_then(KnownIdentity::expires)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Some(Duration::from_secs(expires).saturating_sub(now))
    }

    /// Returns when the credential has ended.
    async fn ended(self) {
        loop {
            if self.has_expired() {
                return;
            }
            sleep(self.left().unwrap_or(CHECK_INTERVAL).min(CHECK_INTERVAL)).await;
            // Messages of a stream are chosen by the claims with which it was opened.
            let has_rights = |now: Identity| now.has_rights_of(&self.identity);
            if !self.proved().await.is_some_and(has_rights) {
                tracing::info!(
                    subject = self.identity.subject(),
                    "a stream ends: its credential was withdrawn, has expired, or has other claims"
                );
                return;
            }
        }
    }
}

/// Ends `stream` with its credential.
pub(super) fn while_credentials_last<S: Stream>(
    stream: S,
    credential: StreamCredential,
) -> impl Stream<Item = S::Item> + use<S> {
    stream.take_until(credential.ended())
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http::header::AUTHORIZATION;
    use http::{HeaderValue, Request};
    use vmcp_access::authentication::revocations::RevokedCredentials;

    use super::*;
    use vmcp_engine::testing::{KEYWORDS, config, engine};

    const KEY: &str = "alice-0123456789abcdef";

    fn with_key(key: &str) -> String {
        format!("incomingAuth: {{ type: apiKeys, apiKeys: [{{ subject: alice, key: {key} }}] }}\n{KEYWORDS}")
    }

    async fn stream_of(engine: &Engine, began: u64) -> tokio::task::JoinHandle<Vec<()>> {
        let mut head = Request::new(()).into_parts().0;
        head.headers.insert(AUTHORIZATION, HeaderValue::try_from(format!("Bearer {KEY}")).unwrap());
        let snapshot = engine.snapshot();
        let identity = proof::identify(&head, &snapshot.authentication).await.unwrap();
        let credential = StreamCredential::of(engine, &head, &identity, Some(began));
        tokio::spawn(while_credentials_last(stream::pending::<()>(), credential).collect())
    }

    #[tokio::test]
    async fn a_stream_ends_soon_after_its_credential_is_withdrawn() {
        const SOON: Duration = Duration::from_secs(10);
        let engine = engine(&with_key(KEY)).await;
        let withdrawn = stream_of(&engine, u64::MAX).await;
        sleep(CHECK_INTERVAL + Duration::from_millis(500)).await;
        assert!(!withdrawn.is_finished(), "a good credential");
        // An operator withdraws the credentials of the subject, and lifts that.
        let alice = RevokedCredentials { subject: Some("alice".into()), ..RevokedCredentials::default() };
        engine.revoke(alice.clone(), SOON, false).unwrap();
        tokio::time::timeout(SOON, withdrawn).await.unwrap().unwrap();
        sleep(Duration::from_millis(2)).await;
        engine.revoke(alice, SOON, true).unwrap();
        // The key is removed from the configuration.
        let removed = stream_of(&engine, u64::MAX).await;
        engine.apply(config(&with_key("another-0123456789abcdef"))).await;
        tokio::time::timeout(SOON, removed).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_stream_ends_soon_after_its_credential_proves_other_claims() {
        const SOON: Duration = Duration::from_secs(10);
        let in_group = |group: &str| {
            with_key(KEY).replace("subject: alice,", &format!("subject: alice, groups: [{group}],"))
        };
        let engine = engine(&in_group("admins")).await;
        let stream = stream_of(&engine, u64::MAX).await;
        engine.apply(config(&format!("{}# the same rights\n", in_group("admins")))).await;
        sleep(CHECK_INTERVAL + Duration::from_millis(500)).await;
        assert!(!stream.is_finished(), "a reload");
        engine.apply(config(&in_group("staff"))).await;
        tokio::time::timeout(SOON, stream).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn the_stream_of_a_call_outlives_its_token_and_not_its_withdrawal() {
        const SOON: Duration = Duration::from_secs(10);
        let engine = engine(&with_key(KEY)).await;
        let claims = serde_json::Map::from_iter([("exp".to_owned(), 1.into())]);
        let credential = StreamCredential {
            engine: engine.clone(),
            identity: Identity::known("https://idp.example", "alice", claims, None),
            headers: HeaderMap::new(),
            certificate: None,
            session_began: None,
        };
        let ended = tokio::spawn(credential.withdrawn());
        sleep(CHECK_INTERVAL + Duration::from_millis(500)).await;
        assert!(!ended.is_finished(), "an expired token");
        let alice = RevokedCredentials { subject: Some("alice".into()), ..RevokedCredentials::default() };
        engine.revoke(alice, SOON, false).unwrap();
        tokio::time::timeout(SOON, ended).await.unwrap().unwrap();
    }
}
