//! [`Credential`]: the credentials of one request, as its head has them.

use url::Url;

use crate::identity::client_certificate::ClientCertificate;

/// The credentials of a request, none of them verified but the certificate.
#[derive(Debug)]
pub struct Credential<'a> {
    /// Where the token was found.
    pub scheme: Scheme,
    /// The token, or the key.
    pub token: &'a str,
    /// The certificate of the connection.
    pub certificate: Option<&'a ClientCertificate>,
    /// The request that a proof must be for; `None` for a stream, at whose opening the proof was verified.
    pub request: Option<ProvedRequest<'a>>,
}

/// Place of a credential in the head of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `Authorization: Bearer`.
    Bearer,
    /// `Authorization: DPoP`.
    Dpop,
    /// `X-API-Key`.
    ApiKey,
}

/// A request with its proof of possession (RFC 9449).
#[derive(Debug)]
pub struct ProvedRequest<'a> {
    /// The only header `DPoP`; `None`: the request lacks it, or has several.
    pub proof: Option<&'a str>,
    /// HTTP method.
    pub method: &'a str,
    /// URLs at which clients reach the request's path, without query. Empty: none is configured, so no proof
    /// can be verified.
    pub urls: Vec<Url>,
}
