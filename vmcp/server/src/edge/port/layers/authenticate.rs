//! [`Authenticate`]: finds out who sent a request, before its body is read.

use std::future::Future;

use http::request::Parts;

use super::read_body::refuse_unread;
use crate::access::identity::{Identity, Principal};
use crate::edge::transport::http::exchange::{Arrival, Authenticated, Response, Service};

/// A way to tell the identity of a request's sender from the head of the request.
pub(crate) trait Authenticator: Send + Sync + 'static {
    /// Returns the identity, or the answer (401 or 403, with its challenge) to a request without a valid one.
    fn identify(&self, head: &Parts) -> impl Future<Output = Result<Identity, Box<Response>>> + Send;
}

/// Takes every client for the anonymous identity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anonymous;

impl Authenticator for Anonymous {
    async fn identify(&self, _: &Parts) -> Result<Identity, Box<Response>> {
        Ok(Identity::Anonymous)
    }
}

/// The layer that adds the [`Principal`].
pub(crate) struct Authenticate<A, S> {
    authenticator: A,
    inner: S,
}

impl<A, S> Authenticate<A, S> {
    /// Asks `authenticator` about each request before `inner` serves it.
    pub(crate) fn new(authenticator: A, inner: S) -> Self {
        Self { authenticator, inner }
    }
}

impl<A: Authenticator, S: Service<Authenticated>> Service<Arrival> for Authenticate<A, S> {
    async fn call(&self, arrival: Arrival) -> Response {
        match self.authenticator.identify(&arrival.head).await {
            Ok(identity) => {
                let principal = Principal { identity, address: Some(arrival.from) };
                self.inner.call(Authenticated { arrival, principal }).await
            }
            Err(response) => refuse_unread(arrival, *response).await,
        }
    }
}
