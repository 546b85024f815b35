//! [`ConfiguredAuthenticator`]: authentication as the snapshot's configuration has it, so that a reload
//! changes it for the next request.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use http::request::Parts;
use vmcp_access::authentication::Authentication;
use vmcp_access::oidc::rejection::Rejection;
use vmcp_access::rate_limit::LogLimit;

use super::{Authenticator, rejected};
use crate::port::REFUSAL_LOG_INTERVAL;
use crate::transport::http::exchange::Response;
use crate::transport::http::proof;
use vmcp_engine::access::identity::Identity;
use vmcp_engine::telemetry::metrics::{Metrics, RefusalLabels};

/// Asks the [`Authentication`] of the snapshot that serves the request.
pub(crate) struct ConfiguredAuthenticator {
    metrics: Arc<Metrics>,
    log: LogLimit,
}

impl ConfiguredAuthenticator {
    /// Counts rejections in `metrics`.
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, log: LogLimit::new(REFUSAL_LOG_INTERVAL) }
    }

    /// Counts a rejection; logs those of clients that presented something.
    fn record(&self, rejection: &Rejection, from: IpAddr) {
        let reason = match rejection {
            Rejection::InsufficientScope { .. } => "insufficient_scope",
            Rejection::Unavailable => "identity_provider",
            Rejection::Busy => "proofs",
            _ => "unauthenticated",
        };
        self.metrics.client_requests_refused.get_or_create(&RefusalLabels { reason }).inc();
        // The first request of every client: it learns from the challenge where to get a token.
        if *rejection == Rejection::Missing {
            return;
        }
        if let Some(left_out) = self.log.admit((), Instant::now()) {
            tracing::warn!(address = %from, reason = %rejection, left_out, "client rejected");
        }
    }
}

impl Authenticator for ConfiguredAuthenticator {
    async fn identify(
        &self,
        head: &Parts,
        from: IpAddr,
        authentication: &Authentication,
    ) -> Result<Identity, Box<Response>> {
        proof::identify(head, authentication).await.map_err(|rejection| {
            self.record(&rejection, from);
            Box::new(rejected::response(&rejection, head, authentication))
        })
    }
}

#[cfg(test)]
mod tests;
