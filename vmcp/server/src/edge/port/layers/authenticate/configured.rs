//! [`ConfiguredAuthenticator`]: authentication as the snapshot's configuration has it, so that a reload
//! changes it for the next request.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use parking_lot::Mutex;
use vmcp_access::authentication::Authentication;
use vmcp_access::rejection::Rejection;

use super::{Authenticator, challenge};
use crate::access::identity::Identity;
use crate::edge::transport::http::exchange::Response;
use crate::telemetry::metrics::{Metrics, RefusalLabels};

/// Header of a key, besides `Authorization`.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Least time between two log lines about rejected clients: strangers must not fill the log.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Asks the [`Authentication`] of the snapshot that serves the request.
pub(crate) struct ConfiguredAuthenticator {
    metrics: Arc<Metrics>,
    /// The last log line about a rejected client, and those left out since.
    logged: Mutex<(Option<Instant>, u64)>,
}

impl ConfiguredAuthenticator {
    /// Counts rejections in `metrics`.
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, logged: Mutex::default() }
    }

    /// Counts a rejection; logs those of clients that presented something.
    fn record(&self, rejection: &Rejection, from: IpAddr) {
        let reason = match rejection {
            Rejection::InsufficientScope { .. } => "insufficient_scope",
            Rejection::Unavailable => "identity_provider",
            _ => "unauthenticated",
        };
        self.metrics.client_requests_refused.get_or_create(&RefusalLabels { reason }).inc();
        // The first request of every client: it learns from the challenge where to get a token.
        if *rejection == Rejection::Missing {
            return;
        }
        let mut logged = self.logged.lock();
        let (last, unlogged) = &mut *logged;
        if last.is_some_and(|last| last.elapsed() < LOG_INTERVAL) {
            *unlogged += 1;
            return;
        }
        *last = Some(Instant::now());
        let left_out = std::mem::take(unlogged);
        drop(logged);
        tracing::warn!(address = %from, reason = %rejection, left_out, "client rejected");
    }
}

impl Authenticator for ConfiguredAuthenticator {
    async fn identify(
        &self,
        head: &Parts,
        from: IpAddr,
        authentication: &Authentication,
    ) -> Result<Identity, Box<Response>> {
        if authentication.is_anonymous() {
            return Ok(Identity::Anonymous);
        }
        let outcome = match credential(&head.headers, authentication.takes_api_keys()) {
            Ok(credential) => authentication.identify(credential).await,
            Err(rejection) => Err(rejection),
        };
        outcome.map_err(|rejection| {
            self.record(&rejection, from);
            Box::new(challenge::response(&rejection, head, authentication))
        })
    }
}

/// Returns the credential of a request. Never read from the URL, which logs and histories keep.
fn credential(headers: &HeaderMap, takes_api_keys: bool) -> Result<Option<&str>, Rejection> {
    let single = |name: &HeaderName| {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => value.to_str().map(Some).map_err(|_| Rejection::Malformed),
            _ => Err(Rejection::Malformed),
        }
    };
    if let Some(value) = single(&AUTHORIZATION)? {
        let bearer = value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        // Another scheme is no credential of this server.
        return Ok(bearer.map(|(_, token)| token.trim()));
    }
    if takes_api_keys { single(&API_KEY) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let entry = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), value.parse().unwrap())
        };
        list.iter().map(entry).collect()
    }

    #[test]
    fn a_credential_is_a_bearer_token_or_a_key() {
        for (list, expected) in [
            (&[][..], Ok(None)),
            (&[("authorization", "Bearer a.b.c")], Ok(Some("a.b.c"))),
            (&[("authorization", "bearer  a")], Ok(Some("a"))),
            (&[("authorization", "Basic dTpw")], Ok(None)),
            (&[("x-api-key", "key")], Ok(Some("key"))),
            (&[("authorization", "Bearer a"), ("x-api-key", "key")], Ok(Some("a"))),
            (&[("authorization", "Bearer a"), ("authorization", "Bearer b")], Err(Rejection::Malformed)),
            (&[("x-api-key", "a"), ("x-api-key", "b")], Err(Rejection::Malformed)),
        ] {
            let headers = headers(list);
            assert_eq!(credential(&headers, true), expected, "{list:?}");
        }
        assert_eq!(credential(&headers(&[("x-api-key", "key")]), false), Ok(None));
    }
}
