//! [`ProofError`]: a proof of possession that was refused.

/// A proof that was refused. The text is for the client: it names the member, never a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The request has no proof, or several.
    #[error("send one DPoP header with a proof for this request")]
    Missing,
    /// The proof is not a JWT, or names a member twice.
    #[error("the proof (DPoP) is no JWT with the claims jti, htm, htu, iat and ath")]
    Malformed,
    /// `typ` of the header is another.
    #[error("the proof (DPoP) has another type than dpop+jwt")]
    Type,
    /// The algorithm is symmetric or unknown.
    #[error("the proof's (DPoP) algorithm is not accepted")]
    Algorithm,
    /// The header has no public key, a private one, or critical extensions.
    #[error("the proof (DPoP) has no public key that is accepted, or has critical extensions")]
    Key,
    /// The token is bound to another key.
    #[error("the proof (DPoP) is of another key than the token's")]
    Holder,
    /// `htm` is another method.
    #[error("the proof (DPoP) is for another method (htm)")]
    Method,
    /// `htu` is another URL.
    #[error("the proof (DPoP) is for another URL (htu)")]
    Url,
    /// `iat` is too old, or in the future.
    #[error("the proof (DPoP) is too old, or from the future (iat)")]
    Time,
    /// `ath` is the hash of another token.
    #[error("the proof (DPoP) is for another token (ath)")]
    Token,
    /// The key of the header has not made the signature.
    #[error("the proof's (DPoP) signature is not valid")]
    Signature,
    /// The proof was used before.
    #[error("the proof (DPoP) was used before (jti)")]
    Replayed,
}
