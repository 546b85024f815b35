//! [`Rejection`]: a request whose sender is not let in, and the reason.

mod proof_error;
mod token_error;

use std::sync::Arc;

pub use self::proof_error::ProofError;
pub use self::token_error::TokenError;

/// The reason why a client is not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The request carries no credentials.
    #[error("credentials are required")]
    Missing,
    /// The `Authorization` header is repeated, is not text, or has another scheme.
    #[error("send one Authorization header with a token")]
    Malformed,
    /// The token is a JWT that was refused.
    #[error("{0}")]
    Token(#[from] TokenError),
    /// The token is bound to a key, and its possession is not proved (RFC 9449).
    #[error("{0}")]
    Proof(#[from] ProofError),
    /// The credential is neither a known key nor a token of a configured issuer.
    #[error("the credential is not known here")]
    Unknown,
    /// An operator has withdrawn the credential.
    #[error("the credential was withdrawn; sign in again")]
    Withdrawn,
    /// The token is good, and lacks scopes.
    #[error("the token lacks a scope that is required here")]
    InsufficientScope {
        /// All scopes that a token needs.
        required: Arc<[String]>,
    },
    /// The keys of the token's issuer cannot be fetched now, or the issuer does not answer about the token.
    #[error("the identity provider cannot be reached; tokens cannot be verified now")]
    Unavailable,
    /// More proofs of possession are remembered than fit.
    #[error("too many requests with proofs (DPoP) within a minute; try again later")]
    Busy,
}
