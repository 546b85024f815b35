//! [`AuthServerRoute`]: answers requests to the embedded authorization server, and passes those of MCP on.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use vmcp_access::auth_server::{AuthServer, EndpointRequest, SignInEvent};
use vmcp_access::authentication::Authentication;
use vmcp_backend::ByteBudget;

use super::read_body::{read_within, refuse_unread};
use crate::request::Edge;
use crate::transport::http::client_body::ClientBody;
use crate::transport::http::exchange::{Admitted, Response, Service};
use crate::transport::http::forward;
use vmcp_engine::telemetry::calls::{Action, ActionArea};

/// Bytes of a request's body: a form with a refresh token, which carries the tokens of all providers.
const MAX_BODY_BYTES: usize = 256 * 1024;

/// Returns the authorization server, if a path is one of its.
pub(super) fn server_of<'a>(authentication: &'a Authentication, path: &str) -> Option<&'a Arc<AuthServer>> {
    authentication.auth_server().filter(|server| server.serves(path))
}

/// The layer that serves [`AuthServer`].
pub(crate) struct AuthServerRoute<S> {
    edge: Arc<Edge>,
    budget: ByteBudget,
    inner: S,
}

impl<S> AuthServerRoute<S> {
    /// Passes requests of MCP to `inner`; reads bodies into `budget`.
    pub(crate) fn new(edge: Arc<Edge>, budget: ByteBudget, inner: S) -> Self {
        Self { edge, budget, inner }
    }
}

impl<S: Service<Admitted>> Service<Admitted> for AuthServerRoute<S> {
    async fn call(&self, request: Admitted) -> Response {
        let arrival = &request.arrival;
        let server = server_of(&arrival.snapshot.authentication, arrival.head.uri.path());
        let Some(server) = server.cloned() else { return self.inner.call(request).await };
        let Admitted { mut arrival, principal, permit } = request;
        let mut body = Bytes::new();
        if let Some(permit) = permit {
            let timeout = arrival.snapshot.config.server.receive_timeout;
            match read_within(&mut arrival.body, &self.budget, permit, MAX_BODY_BYTES, timeout).await {
                Ok(read) => body = read,
                Err(refusal) => return refuse_unread(arrival, refusal),
            }
        }
        let home = self.edge.home_address();
        let asked = endpoint_request(&arrival.head, &body, &home);
        // The process in which a person signed in has the tokens that the code stands for.
        if forward::forwarded_from(&self.edge.ring(), &arrival.head).is_none()
            && let Some(other) = server.home_of(&asked)
            && let Some(response) =
                forward::send(&self.edge, other, &arrival.head, body.clone(), &principal).await
        {
            return response;
        }
        let mut answer = server.answer(&asked).await;
        if let Some(event) = answer.extensions_mut().remove::<SignInEvent>() {
            self.edge.engine.call_observers().acted(&Action {
                actor: event.subject.as_deref(),
                target: event.client.as_deref(),
                result: event.result,
                is_refused: event.is_refused,
                ..Action::of_client(ActionArea::Authorization, event.name, &principal)
            });
        }
        refuse_unread(arrival, answer.map(ClientBody::from_content))
    }
}

fn endpoint_request<'a>(head: &'a Parts, body: &'a [u8], home: &'a str) -> EndpointRequest<'a> {
    EndpointRequest {
        method: &head.method,
        path: head.uri.path(),
        query: head.uri.query(),
        headers: &head.headers,
        body,
        home,
    }
}
