//! [`RegistryRoute`]: answers requests of the registry API under `/v0.1/servers`, and passes others on.

use std::sync::Arc;

use http::StatusCode;

use crate::registry_api::{self, RegistryApi};
use crate::request::dispatch;
use crate::transport::http::exchange::{Admitted, Response, Service};
use crate::transport::http::refuse;

use super::read_body::refuse_unread;
use vmcp_engine::telemetry::calls::{Action, ActionArea, CallObservers};

/// Name of a request in limits and audit events: paths hold names that a client makes up.
const NAME: &str = "GET /v0.1/servers";

/// The layer that serves [`RegistryApi`].
pub(crate) struct RegistryRoute<S> {
    api: RegistryApi,
    observers: Arc<CallObservers>,
    inner: S,
}

impl<S> RegistryRoute<S> {
    /// Passes other requests to `inner`.
    pub(crate) fn new(api: RegistryApi, observers: Arc<CallObservers>, inner: S) -> Self {
        Self { api, observers, inner }
    }
}

impl<S: Service<Admitted>> Service<Admitted> for RegistryRoute<S> {
    async fn call(&self, request: Admitted) -> Response {
        let Admitted { arrival, principal, .. } = &request;
        if !registry_api::serves(&arrival.snapshot.config, arrival.head.uri.path()) {
            return self.inner.call(request).await;
        }
        if let Err(limited) = dispatch::within_rate(&arrival.snapshot, principal, NAME, NAME).await {
            let response = refuse::later(StatusCode::TOO_MANY_REQUESTS, &limited.message);
            return refuse_unread(request.arrival, response);
        }
        // Boxed: messages of MCP do not carry the state of this API.
        let response = Box::pin(self.api.answer(&arrival.head, principal, &arrival.snapshot)).await;
        let status = response.status();
        self.observers.acted(&Action {
            result: status.as_str(),
            is_refused: status.is_client_error(),
            ..Action::of_client(ActionArea::Request, NAME, principal)
        });
        refuse_unread(request.arrival, response)
    }
}
