//! [`ToolsRoute`]: answers requests of the plain HTTP API under `/tools`, and passes those of MCP on.

use crate::tools_api::{self, ToolsApi};
use crate::transport::http::exchange::{Admitted, Response, Service};

use super::read_body::refuse_unread;

/// The layer that serves [`ToolsApi`].
pub(crate) struct ToolsRoute<S> {
    api: ToolsApi,
    inner: S,
}

impl<S> ToolsRoute<S> {
    /// Passes requests of MCP to `inner`.
    pub(crate) fn new(api: ToolsApi, inner: S) -> Self {
        Self { api, inner }
    }
}

impl<S: Service<Admitted>> Service<Admitted> for ToolsRoute<S> {
    async fn call(&self, request: Admitted) -> Response {
        let Admitted { arrival, principal, .. } = &request;
        if !tools_api::serves(&arrival.snapshot.config, arrival.head.uri.path()) {
            return self.inner.call(request).await;
        }
        // Boxed: messages of MCP do not carry the state of this API.
        let response = Box::pin(self.api.answer(&arrival.head, principal, &arrival.snapshot)).await;
        refuse_unread(request.arrival, response)
    }
}
