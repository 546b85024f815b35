//! [`ToolsRoute`]: answers requests of the plain HTTP API under `/tools`, and passes those of MCP on.

use std::sync::Arc;

use http::StatusCode;

use crate::request::dispatch;
use crate::tools_api::{self, ToolsApi};
use crate::transport::http::exchange::{Admitted, Response, Service};
use crate::transport::http::refuse;

use super::read_body::refuse_unread;
use vmcp_engine::telemetry::calls::{Action, ActionArea, CallObservers};

/// The layer that serves [`ToolsApi`].
pub(crate) struct ToolsRoute<S> {
    api: ToolsApi,
    observers: Arc<CallObservers>,
    inner: S,
}

impl<S> ToolsRoute<S> {
    /// Passes requests of MCP to `inner`.
    pub(crate) fn new(api: ToolsApi, observers: Arc<CallObservers>, inner: S) -> Self {
        Self { api, observers, inner }
    }
}

impl<S: Service<Admitted>> Service<Admitted> for ToolsRoute<S> {
    async fn call(&self, request: Admitted) -> Response {
        let Admitted { arrival, principal, .. } = &request;
        if !tools_api::serves(&arrival.snapshot.config, arrival.head.uri.path()) {
            return self.inner.call(request).await;
        }
        let name = format!("{} {}", arrival.head.method, arrival.head.uri.path());
        if let Err(limited) = dispatch::within_rate(&arrival.snapshot, principal, &name, "GET /tools").await {
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
