//! [`PlainApiRoute`]: answers requests of an HTTP API beside MCP, such as `/tools`, and passes others on.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use vmcp_backend::ByteBudget;
use vmcp_engine::engine::Engine;
use vmcp_engine::telemetry::calls::{Action, ActionArea, CallObservers};

use super::read_body::{read_within, refuse_unread};
use crate::request::dispatch;
use crate::transport::http::exchange::{Admitted, PlainApi, Response, Service};
use crate::transport::http::refuse;

/// The layer that serves a [`PlainApi`].
pub(crate) struct PlainApiRoute<A, S> {
    api: A,
    budget: ByteBudget,
    observers: Arc<CallObservers>,
    inner: S,
}

impl<A, S> PlainApiRoute<A, S> {
    /// Passes other requests to `inner`; reads bodies of the API into the budget of `engine`.
    pub(crate) fn new(api: A, engine: &Engine, inner: S) -> Self {
        let observers = Arc::clone(engine.call_observers());
        Self { api, budget: engine.byte_budget().clone(), observers, inner }
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
        let name = name.into_owned();
        // Boxed: messages of MCP do not carry the state of this API.
        Box::pin(self.answer(request, &name)).await
    }
}

impl<A: PlainApi, S> PlainApiRoute<A, S> {
    /// Reads the body, if the API takes it, and answers.
    async fn answer(&self, request: Admitted, name: &str) -> Response {
        let Admitted { mut arrival, principal, permit } = request;
        let response = match permit.filter(|_| A::TAKES_BODY) {
            None => self.api.answer(&arrival.head, &Bytes::new(), &principal, &arrival.snapshot).await,
            Some(permit) => {
                let config = &arrival.snapshot.config;
                let (limit, timeout) = (config.optimizer.limits.body_bytes, config.server.receive_timeout);
                match read_within(&mut arrival.body, &self.budget, permit, limit, timeout).await {
                    Ok(body) => self.api.answer(&arrival.head, &body, &principal, &arrival.snapshot).await,
                    Err(refusal) => refusal,
                }
            }
        };
        let status = response.status();
        self.observers.acted(&Action {
            result: status.as_str(),
            is_refused: status.is_client_error(),
            ..Action::of_client(ActionArea::Request, name, &principal)
        });
        refuse_unread(arrival, response)
    }
}
