//! [`RecordRefusals`]: puts requests that a layer refuses on record. A refusal carries its [`RefusalReason`]
//! in the extensions of its response; answers to calls lack it, since calls are recorded by themselves.

use std::sync::Arc;

use crate::transport::http::exchange::{Arrival, Response, Service};
use crate::transport::http::refuse::RefusalReason;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::telemetry::calls::{CallObservers, Refusal};

/// The layer that tells the observers.
pub(crate) struct RecordRefusals<S> {
    observers: Arc<CallObservers>,
    inner: S,
}

impl<S> RecordRefusals<S> {
    /// Tells `observers` of the requests that `inner` refuses.
    pub(crate) fn new(observers: Arc<CallObservers>, inner: S) -> Self {
        Self { observers, inner }
    }
}

impl<S: Service<Arrival>> Service<Arrival> for RecordRefusals<S> {
    async fn call(&self, arrival: Arrival) -> Response {
        let (from, uri) = (arrival.from, arrival.head.uri.clone());
        let mut response = self.inner.call(arrival).await;
        if let Some(reason) = response.extensions_mut().remove::<RefusalReason>() {
            let stranger = || Principal { address: Some(from), ..Principal::default() };
            let is_known = reason.principal.is_some();
            let principal = reason.principal.unwrap_or_else(stranger);
            self.observers.refused(&Refusal {
                principal: &principal,
                reason: &reason.words,
                method: is_known.then_some(HTTP),
                subject: Some(uri.path()),
                session: None,
                trace: None,
            });
        }
        response
    }
}

/// Method of a refused request whose client is known.
const HTTP: &str = "http";
