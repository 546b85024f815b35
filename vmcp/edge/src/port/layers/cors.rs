//! [`Cors`]: lets pages of allowed origins read answers (cross-origin resource sharing).
//!
//! A browser asks first (preflight, `OPTIONS`), because every MCP request has headers of its own, and it
//! shows a page the answer only if the answer names the page's origin. [`HostRules`](super::host_rules) has
//! refused all other origins before. No credentials are shared: MCP uses no cookies. The registry is open
//! to every page that [`HostRules`](super::host_rules) lets through.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, StatusCode};

use crate::registry_api::{self, RegistryApi};
use crate::transport::http::exchange::{Arrival, PlainApi as _, Response, Service};
use crate::transport::http::respond;

/// Response headers that pages may read besides the few that every page may.
const EXPOSED_HEADERS: HeaderValue =
    HeaderValue::from_static("mcp-session-id, mcp-protocol-version, www-authenticate, retry-after");
const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("POST, GET, DELETE");
/// Seconds for which a browser keeps the answer to a preflight: two hours, the most that Chrome honors.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");
/// Asked by Chrome before a page of the internet reaches a private address.
const REQUEST_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");
const TRUE: HeaderValue = HeaderValue::from_static("true");

/// The layer that answers preflights and marks answers for pages.
pub(crate) struct Cors<S>(S);

impl<S> Cors<S> {
    /// Adds the headers to the answers of `inner`.
    pub(crate) fn new(inner: S) -> Self {
        Self(inner)
    }
}

impl<S: Service<Arrival>> Service<Arrival> for Cors<S> {
    async fn call(&self, arrival: Arrival) -> Response {
        if RegistryApi::serves(&arrival.snapshot.config, arrival.head.uri.path()) {
            let mut response = match arrival.head.method {
                Method::OPTIONS => respond::empty(StatusCode::NO_CONTENT),
                _ => self.0.call(arrival).await,
            };
            registry_api::open_to_pages(&mut response);
            return response;
        }
        let Some(origin) = arrival.head.headers.get(ORIGIN).cloned() else {
            return self.0.call(arrival).await;
        };
        let mut response = match preflight(&arrival.head) {
            Some(response) => response,
            None => self.0.call(arrival).await,
        };
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
        headers.append(VARY, HeaderValue::from_static("origin"));
        response
    }
}

/// Answers a preflight; `None` for any other request.
fn preflight(head: &Parts) -> Option<Response> {
    if head.method != Method::OPTIONS || !head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut response = respond::empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    if let Some(wanted) = head.headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        // Echoed: the names of `Mcp-Param-*` depend on the tool, and `*` leaves `Authorization` out.
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
        headers.append(VARY, HeaderValue::from_static("access-control-request-headers"));
    }
    if head.headers.contains_key(REQUEST_PRIVATE_NETWORK) {
        headers.insert(ALLOW_PRIVATE_NETWORK, TRUE);
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn head(method: Method, headers: &[(&'static str, &'static str)]) -> Parts {
        let mut request = Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_preflight_gets_the_headers_it_asks_for() {
        let asked = [
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization, mcp-param-region"),
            ("access-control-request-private-network", "true"),
        ];
        let response = preflight(&head(Method::OPTIONS, &asked)).unwrap();
        assert_eq!(response.status(), StatusCode::NO_CONTENT);
        let headers = response.headers();
        assert_eq!(headers[ACCESS_CONTROL_ALLOW_HEADERS], "authorization, mcp-param-region");
        assert_eq!(headers[ALLOW_PRIVATE_NETWORK], "true");
        assert!(preflight(&head(Method::OPTIONS, &[])).is_none());
        assert!(preflight(&head(Method::POST, &asked)).is_none());
    }
}
