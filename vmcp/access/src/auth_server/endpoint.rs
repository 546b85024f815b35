//! [`Endpoint`]: the paths of the authorization server, and the shapes of its answers.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use url::Url;

use super::oauth_error::{OAuthError, UNAVAILABLE};

/// The path of RFC 8414, followed by the path of the issuer.
const METADATA: &str = "/.well-known/oauth-authorization-server";

/// An answer.
pub(super) type Answer = Response<String>;

/// A request to an endpoint.
#[derive(Debug, Clone, Copy)]
pub struct EndpointRequest<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its path.
    pub path: &'a str,
    /// Its query.
    pub query: Option<&'a str>,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Its body.
    pub body: &'a [u8],
    /// Address at which other replicas reach this process; empty without one.
    pub home: &'a str,
}

/// The endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    Metadata,
    Keys,
    Register,
    Authorize,
    Callback,
    Token,
}

impl Endpoint {
    /// Returns the endpoint of a path. A proxy may have cut the issuer's own path off.
    pub(super) fn from_path(path: &str, issuer: &Url) -> Option<Self> {
        let base = issuer.path().trim_end_matches('/');
        if let Some(rest) = path.strip_prefix(METADATA) {
            return (rest.is_empty() || rest == "/" || rest == base).then_some(Self::Metadata);
        }
        let path = path.strip_prefix(base).unwrap_or(path);
        [Self::Keys, Self::Register, Self::Authorize, Self::Callback, Self::Token]
            .into_iter()
            .find(|endpoint| endpoint.path() == path)
    }

    /// The path below the issuer.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Metadata => METADATA,
            Self::Keys => "/.well-known/jwks.json",
            Self::Register => "/oauth/register",
            Self::Authorize => "/oauth/authorize",
            Self::Callback => "/oauth/callback",
            Self::Token => "/oauth/token",
        }
    }

    /// The methods that it answers.
    pub(super) fn methods(self) -> &'static [Method] {
        match self {
            Self::Metadata | Self::Keys => &[Method::GET, Method::HEAD],
            Self::Register | Self::Token => &[Method::POST],
            Self::Authorize => &[Method::GET, Method::POST],
            Self::Callback => &[Method::GET],
        }
    }
}

/// Answers with a JSON document that must not be kept: it may hold tokens.
pub(super) fn json(status: StatusCode, body: String) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Answers with an error (RFC 6749, 5.2).
pub(super) fn failure(error: &OAuthError) -> Answer {
    let body = serde_json::json!({"error": error.code, "error_description": error.description});
    let mut answer = json(error.status(), body.to_string());
    if *error == UNAVAILABLE {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
    }
    answer
}

/// Answers with the methods that are served.
pub(super) fn not_allowed(methods: &[Method]) -> Answer {
    let mut answer = Response::new(String::new());
    *answer.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    let names = methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
    if let Ok(names) = HeaderValue::try_from(names) {
        answer.headers_mut().insert(http::header::ALLOW, names);
    }
    answer
}

/// Sends the browser on, by a GET whatever the request was. The address may hold a code or a state.
pub(super) fn redirect(to: &Url) -> Option<Answer> {
    let mut answer = Response::new(String::new());
    *answer.status_mut() = StatusCode::SEE_OTHER;
    let headers = answer.headers_mut();
    headers.insert(LOCATION, HeaderValue::try_from(to.as_str()).ok()?);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(http::header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_lie_below_the_issuer_whether_or_not_a_proxy_cuts_its_path_off() {
        let plain = Url::parse("https://tools.example").unwrap();
        let below = Url::parse("https://tools.example/team").unwrap();
        for (path, issuer, endpoint) in [
            ("/oauth/token", &plain, Some(Endpoint::Token)),
            ("/team/oauth/token", &below, Some(Endpoint::Token)),
            ("/oauth/token", &below, Some(Endpoint::Token)),
            ("/.well-known/oauth-authorization-server", &plain, Some(Endpoint::Metadata)),
            ("/.well-known/oauth-authorization-server/team", &below, Some(Endpoint::Metadata)),
            ("/.well-known/oauth-authorization-server/other", &below, None),
            ("/.well-known/jwks.json", &plain, Some(Endpoint::Keys)),
            ("/other/oauth/token", &below, None),
            ("/oauth/tokens", &plain, None),
            ("/mcp", &plain, None),
        ] {
            assert_eq!(Endpoint::from_path(path, issuer), endpoint, "{path} of {issuer}");
        }
    }
}
