//! [`HttpRefusal`]: the HTTP status of a failed request, and what came with it.

use std::borrow::Cow;
use std::fmt;

use http::header::{LOCATION, RETRY_AFTER};
use http::{HeaderMap, StatusCode};

use super::server_words::ServerWords;

/// Longest value of `Retry-After` that is shown, in bytes: a date has 29.
const MAX_RETRY_AFTER_BYTES: usize = 40;

/// A status other than success, the server's words, and the time at which it wants to be asked again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpRefusal {
    pub(crate) status: StatusCode,
    /// Value of `Retry-After` (RFC 9110, 10.2.3): seconds, or a date.
    retry_after: Option<Box<str>>,
    pub(crate) said: ServerWords,
}

impl HttpRefusal {
    pub(crate) fn new(status: StatusCode, headers: &HeaderMap, said: ServerWords) -> Self {
        let retry_after = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let is_plain = |value: &&str| {
            value.len() <= MAX_RETRY_AFTER_BYTES
                && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" ,:-+".contains(&byte))
        };
        let retry_after = retry_after.map(str::trim).filter(is_plain).filter(|value| !value.is_empty());
        Self { status, retry_after: retry_after.map(Into::into), said }
    }

    pub(crate) fn is_client_error(&self) -> bool {
        self.status.is_client_error()
    }

    pub(crate) fn is_server_error(&self) -> bool {
        self.status.is_server_error()
    }
}

/// Returns the part of a response to show: of a redirect, which vmcp does not follow with credentials, its
/// target.
pub(crate) fn telling<'a>(status: StatusCode, headers: &HeaderMap, body: &'a [u8]) -> Cow<'a, [u8]> {
    match headers.get(LOCATION).filter(|_| status.is_redirection()) {
        Some(target) => [b"it redirects to ", target.as_bytes()].concat().into(),
        None => body.into(),
    }
}

impl From<StatusCode> for HttpRefusal {
    fn from(status: StatusCode) -> Self {
        Self { status, retry_after: None, said: ServerWords::default() }
    }
}

/// The status alone: safe to show to clients.
impl fmt::Display for HttpRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP status {}", self.status.as_u16())?;
        match &self.retry_after {
            None => Ok(()),
            Some(seconds) if seconds.bytes().all(|byte| byte.is_ascii_digit()) => {
                write!(f, ", try again in {seconds} seconds")
            }
            Some(date) => write!(f, ", try again after {date}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_tells_its_target() {
        let headers = HeaderMap::from_iter([(LOCATION, "https://a.example/mcp/".parse().unwrap())]);
        let shown = |status| String::from_utf8(telling(status, &headers, b"body").into_owned()).unwrap();
        assert_eq!(shown(StatusCode::TEMPORARY_REDIRECT), "it redirects to https://a.example/mcp/");
        assert_eq!(shown(StatusCode::BAD_REQUEST), "body");
    }

    #[test]
    fn the_time_to_try_again_is_told() {
        let shown = |value: &'static str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
            HttpRefusal::new(StatusCode::TOO_MANY_REQUESTS, &headers, ServerWords::default()).to_string()
        };
        assert_eq!(shown("30"), "HTTP status 429, try again in 30 seconds");
        let date = "Fri, 27 Nov 2026 07:28:00 GMT";
        assert_eq!(shown(date), format!("HTTP status 429, try again after {date}"));
        for odd in ["<b>now</b>", "", &"9".repeat(41)] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, odd.parse().unwrap())]);
            let refusal = HttpRefusal::new(StatusCode::TOO_MANY_REQUESTS, &headers, ServerWords::default());
            assert_eq!(refusal.to_string(), "HTTP status 429", "{odd}");
        }
    }
}
