//! Bearer token of `/metrics`: without one, every pod of the cluster may read which kinds there are and how
//! often they fail.

use std::path::Path;

use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};
use vmcp_error_chain::error_chain;

/// Refusal of a request for `/metrics`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TokenRefusal {
    /// The file of the token cannot be read or is empty: every request is refused.
    NoToken,
    /// The request carries no bearer token, or another one.
    Unauthorized,
}

impl IntoResponse for TokenRefusal {
    fn into_response(self) -> Response {
        match self {
            Self::NoToken => {
                (StatusCode::SERVICE_UNAVAILABLE, "no token of /metrics; see the operator's log\n")
                    .into_response()
            }
            Self::Unauthorized => {
                (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], "wrong token\n").into_response()
            }
        }
    }
}

/// Compares the request's bearer token with the one in `file`; without a file every request may read.
pub(super) async fn check(file: Option<&Path>, headers: &HeaderMap) -> Result<(), TokenRefusal> {
    let Some(file) = file else { return Ok(()) };
    let expected = match tokio::fs::read_to_string(file).await {
        Ok(text) if !text.trim().is_empty() => text.trim().to_owned(),
        Ok(_) => {
            tracing::warn!(file = %file.display(), "the token of /metrics is empty");
            return Err(TokenRefusal::NoToken);
        }
        Err(error) => {
            let error = error_chain(&error);
            tracing::warn!(file = %file.display(), error, "cannot read the token of /metrics");
            return Err(TokenRefusal::NoToken);
        }
    };
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer);
    // Digests are compared: the time that takes tells nothing about the token.
    let digest = |token: &str| Sha256::digest(token.as_bytes());
    match given {
        Some(given) if digest(given) == digest(&expected) => Ok(()),
        _ => Err(TokenRefusal::Unauthorized),
    }
}

/// Returns the token of `Bearer TOKEN`; the scheme's case does not matter.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn request(authorization: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, authorization.parse().expect("a header"))])
    }

    #[tokio::test]
    async fn metrics_want_the_token_that_the_file_has_now() {
        assert_eq!(check(None, &HeaderMap::new()).await, Ok(()), "open without a file");
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let refused = check(Some(file.path()), &request("Bearer ")).await;
        assert_eq!(refused, Err(TokenRefusal::NoToken), "an empty file is no token");

        file.write_all(b"first\n").expect("written");
        assert_eq!(check(Some(file.path()), &request("bearer first")).await, Ok(()));
        for wrong in ["Bearer firs", "Bearer second", "Basic first", "first"] {
            let refused = check(Some(file.path()), &request(wrong)).await;
            assert_eq!(refused, Err(TokenRefusal::Unauthorized), "{wrong}");
        }
        assert_eq!(check(Some(file.path()), &HeaderMap::new()).await, Err(TokenRefusal::Unauthorized));

        std::fs::write(file.path(), "second").expect("written");
        assert_eq!(check(Some(file.path()), &request("Bearer second")).await, Ok(()));
        assert_eq!(check(Some(file.path()), &request("Bearer first")).await, Err(TokenRefusal::Unauthorized));
        let path = file.path().to_owned();
        drop(file);
        assert_eq!(check(Some(&path), &request("Bearer second")).await, Err(TokenRefusal::NoToken));
    }
}
