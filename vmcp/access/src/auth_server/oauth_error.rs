//! [`OAuthError`]: error codes of RFC 6749, 7591 and 8707, with words for the developer of the client.

/// An error code and its description, which must have neither quotes nor backslashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OAuthError {
    pub(super) code: &'static str,
    pub(super) description: &'static str,
}

/// Makes an error.
pub(super) const fn error(code: &'static str, description: &'static str) -> OAuthError {
    OAuthError { code, description }
}

/// The provider of tokens cannot be reached now.
pub(super) const UNAVAILABLE: OAuthError =
    error("temporarily_unavailable", "an identity provider cannot be reached; try again later");
/// Something of vmcp's own failed.
pub(super) const SERVER_ERROR: OAuthError =
    error("server_error", "vmcp cannot do this now; its log says why");

impl OAuthError {
    /// The status of an answer with this error.
    pub(super) fn status(&self) -> http::StatusCode {
        match self.code {
            "invalid_client" => http::StatusCode::UNAUTHORIZED,
            "temporarily_unavailable" => http::StatusCode::SERVICE_UNAVAILABLE,
            "server_error" => http::StatusCode::INTERNAL_SERVER_ERROR,
            _ => http::StatusCode::BAD_REQUEST,
        }
    }
}
