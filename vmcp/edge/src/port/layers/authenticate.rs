//! [`Authenticate`]: finds out who sent a request, before its body is read.

pub(crate) mod configured;
mod rejected;

use std::future::Future;
use std::net::IpAddr;

use http::request::Parts;
use vmcp_access::authentication::Authentication;

use super::auth_server_route::server_of;
use super::endpoint;
use super::read_body::refuse_unread;
use crate::registry_api;
use crate::transport::http::exchange::{Arrival, Authenticated, Response, Service};
use crate::transport::http::refuse::RefusalReason;
use vmcp_engine::access::identity::{Identity, Principal};

/// A way to tell the identity of a request's sender from the head of the request.
pub(crate) trait Authenticator: Send + Sync + 'static {
    /// Returns the identity, or the answer (401 or 403, with its challenge) to a request without a valid one.
    fn identify(
        &self,
        head: &Parts,
        from: IpAddr,
        authentication: &Authentication,
    ) -> impl Future<Output = Result<Identity, Box<Response>>> + Send;
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
        let path = arrival.head.uri.path();
        // Paths of the authorization server, at which clients without a token get one, and a public registry,
        // which IDEs read without a token.
        if server_of(&arrival.snapshot.authentication, path).is_some()
            || registry_api::is_public(&arrival.snapshot.config, path)
        {
            let principal = Principal { address: Some(arrival.from), ..Principal::default() };
            return self.inner.call(Authenticated { arrival, principal }).await;
        }
        match self.authenticator.identify(&arrival.head, arrival.from, &arrival.snapshot.authentication).await
        {
            Ok(identity) => {
                let profile = endpoint::profile(&arrival);
                let principal = Principal { identity, address: Some(arrival.from), profile, operator: None };
                let client = principal.clone();
                let mut response = self.inner.call(Authenticated { arrival, principal }).await;
                RefusalReason::name_client(&mut response, || client);
                response
            }
            Err(response) => refuse_unread(arrival, *response),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::WWW_AUTHENTICATE;
    use http::{HeaderValue, StatusCode};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::port::connection::ConnectionServer;
    use crate::transport::http::respond;
    use vmcp_engine::testing::{KEYWORDS, engine};

    /// Knows no client.
    struct Stranger;

    impl Authenticator for Stranger {
        async fn identify(
            &self,
            _: &Parts,
            _: IpAddr,
            _: &Authentication,
        ) -> Result<Identity, Box<Response>> {
            let mut response = respond::empty(StatusCode::UNAUTHORIZED);
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            Err(Box::new(response))
        }
    }

    /// Must not be reached.
    struct Unreachable;

    impl Service<Authenticated> for Unreachable {
        async fn call(&self, _: Authenticated) -> Response {
            panic!("served without an identity")
        }
    }

    #[tokio::test]
    async fn a_stranger_is_challenged_before_the_body_is_read() {
        let engine = engine(KEYWORDS).await;
        let settings = engine.snapshot().config.server.clone();
        let stack = std::sync::Arc::new(Authenticate::new(Stranger, Unreachable));
        let server = ConnectionServer::new(stack, engine, &settings);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            server.serve(stream, CancellationToken::new()).await;
        });
        let mut client = TcpStream::connect(address).await.unwrap();
        // Nothing of the body follows.
        let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 512];
        let length = client.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        assert!(
            answer.starts_with("HTTP/1.1 401") && answer.contains("www-authenticate: Bearer"),
            "{answer}"
        );
        drop(client);
        serving.await.unwrap();
    }
}
