//! [`PlainApiRoute`]: answers requests of an HTTP API beside MCP, such as `/tools`, and passes others on.

use std::sync::Arc;

use http::StatusCode;
use vmcp_engine::telemetry::calls::{Action, ActionArea, CallObservers};

use super::read_body::refuse_unread;
use crate::request::dispatch;
use crate::transport::http::exchange::{Admitted, PlainApi, Response, Service};
use crate::transport::http::refuse;

/// The layer that serves a [`PlainApi`].
pub(crate) struct PlainApiRoute<A, S> {
    api: A,
    observers: Arc<CallObservers>,
    inner: S,
}

impl<A, S> PlainApiRoute<A, S> {
    /// Passes other requests to `inner`.
    pub(crate) fn new(api: A, observers: Arc<CallObservers>, inner: S) -> Self {
        Self { api, observers, inner }
    }
}

impl<A: PlainApi, S: Service<Admitted>> Service<Admitted> for PlainApiRoute<A, S> {
    async fn call(&self, request: Admitted) -> Response {
        let Admitted { arrival, principal, .. } = &request;
        if !A::serves(&arrival.snapshot.config, arrival.head.uri.path()) {
            return self.inner.call(request).await;
        }
        let name = A::request_name(&arrival.head);
        if let Err(limited) = dispatch::within_rate(&arrival.snapshot, principal, &name, A::NAME).await {
            let response = refuse::later(StatusCode::TOO_MANY_REQUESTS, &limited.message);
            return refuse_unread(request.arrival, response);
        }
        // Boxed: messages of MCP do not carry the state of this API.
        let response = Box::pin(self.api.answer(&arrival.head, principal, &arrival.snapshot)).await;
        let status = response.status();
        self.observers.acted(&Action {
            result: status.as_str(),
            is_refused: status.is_client_error(),
            ..Action::of_client(ActionArea::Request, &name, principal)
        });
        refuse_unread(request.arrival, response)
    }
}
