//! [`Service`]: posts JSON to a configured service, behind the SSRF guard of all configured calls. No
//! redirect is followed; time, requests under way and the size of an answer are bounded.

use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{RequestBuilder, StatusCode};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};
use url::Url;
use vmcp_error_chain::error_chain;

pub(super) use crate::oidc::guarded_http::ClientTls;
use crate::oidc::guarded_http::{FetchError, GuardRules};
use crate::oidc::renewed_client::RenewedClient;

const JSON: &str = "application/json";

/// A service that decides about calls.
pub(super) struct Service {
    client: RenewedClient,
    places: Semaphore,
}

/// A place among the requests under way, until the deadline of its request.
pub(super) struct RequestSlot<'a> {
    service: &'a Service,
    deadline: Instant,
    _permit: SemaphorePermit<'a>,
}

/// The places that a service may be at, and its proof.
#[derive(Debug)]
pub(super) struct Reach {
    /// True if TLS is not required.
    pub(super) allow_http: bool,
    /// True if private and loopback addresses are reached.
    pub(super) allow_private: bool,
    /// Certificates.
    pub(super) tls: ClientTls,
}

/// One request.
pub(super) struct Post<'a> {
    pub(super) url: &'a Url,
    pub(super) body: Vec<u8>,
    /// Time limit of the whole, the wait for a free place included.
    pub(super) limit: Duration,
    /// Bytes of an answer.
    pub(super) max_answer: usize,
}

/// An answer.
#[derive(Debug)]
pub(super) struct PostAnswer {
    pub(super) status: StatusCode,
    /// The body of an answer with status 200; others are not read.
    pub(super) body: Vec<u8>,
}

/// The reason of a missing answer.
#[derive(Debug)]
pub(super) enum PostFailure {
    /// No answer came in time.
    Timeout,
    /// The service cannot be reached, or may not be; shows the address.
    Unreachable(String),
    /// The answer is longer than [`Post::max_answer`].
    TooLarge,
}

impl Service {
    /// Prepares a service for `places` requests at once.
    pub(super) fn new(reach: Reach, places: usize) -> Service {
        let Reach { allow_http, allow_private, tls } = reach;
        let rules = GuardRules { allow_http, allow_private, private_setting: "allowPrivateIp" };
        Service { client: RenewedClient::with_tls(rules, tls), places: Semaphore::new(places) }
    }

    /// Returns the number of requests that may begin now.
    #[cfg(test)]
    pub(super) fn free_places(&self) -> usize {
        self.places.available_permits()
    }

    /// Waits for a free place; `limit` is the time limit of the whole.
    pub(super) async fn place(&self, limit: Duration) -> Result<RequestSlot<'_>, PostFailure> {
        let deadline = Instant::now() + limit;
        // The semaphore is never closed.
        let Ok(Ok(permit)) = timeout_at(deadline, self.places.acquire()).await else {
            return Err(PostFailure::Timeout);
        };
        // Requests that wait end together; none begins in the place of a request that has just ended.
        if Instant::now() >= deadline {
            return Err(PostFailure::Timeout);
        }
        Ok(RequestSlot { service: self, deadline, _permit: permit })
    }

    /// Posts one request once a place is free; `dress` adds its headers to it.
    pub(super) async fn post(
        &self,
        post: Post<'_>,
        dress: impl FnOnce(RequestBuilder, &[u8]) -> RequestBuilder,
    ) -> Result<PostAnswer, PostFailure> {
        let place = self.place(post.limit).await?;
        place.post(post, dress).await
    }

    async fn send(
        &self,
        Post { url, body, limit, max_answer }: Post<'_>,
        dress: impl FnOnce(RequestBuilder, &[u8]) -> RequestBuilder,
    ) -> Result<PostAnswer, PostFailure> {
        let unreachable = |error: FetchError| PostFailure::Unreachable(error.to_string());
        let client = self.client.get().map_err(unreachable)?;
        client.check(url).await.map_err(unreachable)?;
        // Beyond the limit of the whole, which tells a time-out from other failures.
        let request = client.client().post(url.clone()).timeout(limit.saturating_add(limit));
        let request = dress(request.header(ACCEPT, JSON).header(CONTENT_TYPE, JSON), &body);
        let failed = |error: reqwest::Error| {
            self.client.look_soon();
            PostFailure::Unreachable(error_chain(&error.without_url()))
        };
        let mut response = request.body(body).send().await.map_err(failed)?;
        let status = response.status();
        let mut answer = Vec::new();
        if status != StatusCode::OK {
            return Ok(PostAnswer { status, body: answer });
        }
        while let Some(piece) = response.chunk().await.map_err(failed)? {
            if answer.len() + piece.len() > max_answer {
                return Err(PostFailure::TooLarge);
            }
            answer.extend_from_slice(&piece);
        }
        Ok(PostAnswer { status, body: answer })
    }
}

impl RequestSlot<'_> {
    /// Posts the request of this place; `dress` adds its headers to it.
    pub(super) async fn post(
        &self,
        post: Post<'_>,
        dress: impl FnOnce(RequestBuilder, &[u8]) -> RequestBuilder,
    ) -> Result<PostAnswer, PostFailure> {
        let answer = timeout_at(self.deadline, self.service.send(post, dress)).await;
        answer.map_err(|_| PostFailure::Timeout)?
    }
}
