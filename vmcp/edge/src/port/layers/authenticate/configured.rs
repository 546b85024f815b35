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
use vmcp_access::client_certificate::ClientCertificate;
use vmcp_access::rejection::Rejection;

use super::{Authenticator, challenge};
use crate::transport::http::exchange::Response;
use vmcp_engine::access::identity::{Identity, Principal};
use vmcp_engine::telemetry::calls::{CallObservers, Refusal};
use vmcp_engine::telemetry::metrics::{Metrics, RefusalLabels};

/// Header of a key, besides `Authorization`.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Rejections in a second that observers are told of, so that strangers cannot push events of clients out of
/// an audit file; the next event says how many were left out.
const MAX_EVENTS: u32 = 100;
/// Least time between two log lines about rejected clients: strangers must not fill the log.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Asks the [`Authentication`] of the snapshot that serves the request.
pub(crate) struct ConfiguredAuthenticator {
    metrics: Arc<Metrics>,
    observers: Arc<CallObservers>,
    /// The last audit events.
    told: Mutex<RefusalWindow>,
    /// The last log line about a rejected client, and those left out since.
    logged: Mutex<(Option<Instant>, u64)>,
}

impl ConfiguredAuthenticator {
    /// Counts rejections in `metrics`, and tells `observers` of them.
    pub(crate) fn new(metrics: Arc<Metrics>, observers: Arc<CallObservers>) -> Self {
        Self { metrics, observers, told: Mutex::default(), logged: Mutex::default() }
    }

    /// Tells the observers, unless there are too many rejections.
    fn tell(&self, rejection: &Rejection, from: IpAddr) {
        let Some(left_out) = self.told.lock().enter(Instant::now()) else { return };
        let principal = Principal { address: Some(from), ..Principal::default() };
        self.observers.refused(&Refusal {
            principal: &principal,
            reason: &rejection.to_string(),
            method: None,
            subject: None,
            session: None,
            trace: None,
            left_out,
        });
    }

    /// Counts a rejection; logs those of clients that presented something.
    fn record(&self, rejection: &Rejection, from: IpAddr) {
        let reason = match rejection {
            Rejection::InsufficientScope { .. } => "insufficient_scope",
            Rejection::Unavailable => "identity_provider",
            _ => "unauthenticated",
        };
        self.metrics.client_requests_refused.get_or_create(&RefusalLabels { reason }).inc();
        self.tell(rejection, from);
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

/// Refusals of the present second that observers were told of.
#[derive(Debug, Default)]
struct RefusalWindow {
    since: Option<Instant>,
    told: u32,
    left_out: u64,
}

impl RefusalWindow {
    /// Returns the number of refusals left out so far, or `None` if this one is left out too.
    fn enter(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= LOG_INTERVAL) {
            (self.since, self.told) = (Some(now), 0);
        }
        if self.told == MAX_EVENTS {
            self.left_out += 1;
            return None;
        }
        self.told += 1;
        Some(std::mem::take(&mut self.left_out))
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
        // A token says more than the certificate of the connection, which may be that of a proxy.
        let certificate = head.extensions.get::<Arc<ClientCertificate>>();
        let outcome = match (credential(&head.headers, authentication.takes_api_keys()), certificate) {
            (Ok(None), Some(certificate)) => authentication.identify_by(certificate),
            // Boxed: anonymous requests do not carry the state of fetching keys.
            (Ok(credential), _) => Box::pin(authentication.identify(credential)).await,
            (Err(rejection), _) => Err(rejection),
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
    fn a_flood_of_rejections_is_told_in_part_and_the_rest_is_counted() {
        let (mut window, start) = (RefusalWindow::default(), Instant::now());
        let told = (0..150).filter(|_| window.enter(start).is_some()).count();
        assert_eq!(told, MAX_EVENTS as usize);
        assert_eq!(window.enter(start + LOG_INTERVAL), Some(50));
        assert_eq!(window.enter(start + LOG_INTERVAL), Some(0));
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
