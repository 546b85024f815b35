//! [`PrincipalLimits`]: no principal holds more than its share of requests and bytes.
//!
//! The limits of the process are a backstop that one client could fill for all others. Streams that belong to
//! no call (the GET stream, `subscriptions/listen`) do not count: connections bound them.

use std::sync::Arc;

use http::Method;

use super::read_body::{count_exceeded, refuse_unread};
use crate::transport::http::exchange::{Admitted, Authenticated, Response, Service};
use crate::transport::http::refuse;
use crate::transport::http::request_permit::{PrincipalQuota, PrincipalUsage};
use vmcp_engine::telemetry::metrics::Metrics;

/// The layer that adds the [`RequestPermit`](crate::transport::http::request_permit::RequestPermit).
pub(crate) struct PrincipalLimits<S> {
    usage: Arc<PrincipalUsage>,
    metrics: Arc<Metrics>,
    inner: S,
}

impl<S> PrincipalLimits<S> {
    /// Counts requests before `inner` serves them.
    pub(crate) fn new(metrics: Arc<Metrics>, inner: S) -> Self {
        Self { usage: PrincipalUsage::new(metrics.client_requests_in_flight.clone()), metrics, inner }
    }
}

impl<S: Service<Admitted>> Service<Authenticated> for PrincipalLimits<S> {
    async fn call(&self, Authenticated { arrival, principal }: Authenticated) -> Response {
        if arrival.head.method != Method::POST {
            return self.inner.call(Admitted { arrival, principal, permit: None }).await;
        }
        let server = &arrival.snapshot.config.server;
        let quota = PrincipalQuota {
            requests: server.max_requests_per_client,
            bytes: server.max_buffered_bytes_per_client,
        };
        match self.usage.enter(principal.key(), quota) {
            Ok(permit) => {
                let request = Admitted { arrival, principal, permit: Some(permit.clone()) };
                let mut response = self.inner.call(request).await;
                response.body_mut().keep(permit);
                response
            }
            Err(exceeded) => {
                count_exceeded(&self.metrics, exceeded);
                refuse_unread(arrival, refuse::quota(exceeded))
            }
        }
    }
}
