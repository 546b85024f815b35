//! [`TokenError`]: a token that was refused.

/// A token that was refused. The text is for the client: it names the claim, never a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token is not a JWT, or a required claim is not text.
    #[error("the token is no JWT with the claims iss, sub, aud and exp")]
    Malformed,
    /// The token has no algorithm that is accepted.
    #[error("the token's algorithm is not accepted")]
    Algorithm,
    /// The issuer is not configured.
    #[error("the token's issuer is not accepted")]
    Issuer,
    /// No key of the issuer has made the signature.
    #[error("the token's signature is not valid")]
    Signature,
    /// `exp` has passed.
    #[error("the token has expired")]
    Expired,
    /// `nbf` has not come, or the token was issued at a time to come (`iat`).
    #[error("the token is not valid yet")]
    NotYet,
    /// `aud` names another service.
    #[error("the token is for another audience")]
    Audience,
    /// The token is bound to its holder (`cnf`) in a way that cannot be verified here.
    #[error("the token is bound to a key (cnf) whose possession cannot be verified here")]
    Bound,
    /// The token is bound to a key, and was sent as a bearer token.
    #[error("the token is bound to a key; send it as `Authorization: DPoP` with a proof")]
    NoProof,
    /// The connection lacks the client certificate that the token is bound to.
    #[error("the token is bound to a client certificate that this connection has not shown")]
    NoCertificate,
    /// The token is not bound to a key, and must be.
    #[error("the token is not bound to a key of its holder (cnf); here it must be")]
    Unbound,
    /// The issuer says nothing about whose the token is.
    #[error("the token has no subject (sub)")]
    NoSubject,
    /// The issuer says that the token is not good, or not any more.
    #[error("the token's issuer does not accept it, or no longer")]
    Inactive,
    /// The header or the claims name a member twice: parsers differ in which of the two they take.
    #[error("a member of the token occurs twice")]
    Repeated,
    /// The header has critical extensions (`crit`); none is understood here.
    #[error("the token has critical extensions that are not understood")]
    Critical,
    /// The token is no access token by its `typ` or its claims: an ID token, a logout token or another.
    #[error("the token is no access token")]
    Type,
    /// A claim of `requiredClaims` is absent, or has no accepted value.
    #[error("the token lacks a claim, or a value of one, that is required here")]
    Condition,
}
