//! Credentials that are fetched and expire: the seam between this crate and their sources.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Method};
use url::Url;

/// A request that credentials are for, as it will be sent: a signature covers it.
#[derive(Clone, Copy, Debug)]
pub struct UnprovedRequest<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its URL.
    pub url: &'a Url,
    /// Its headers, without those of the source.
    pub headers: &'a HeaderMap,
    /// Its body.
    pub body: &'a Bytes,
}

/// Source of the headers that prove a right at a backend: that of one client, or that of vmcp itself.
pub trait CredentialSource: fmt::Debug + Send + Sync {
    /// Returns the headers for `request`, from a cache where there is one. `refused` are headers that
    /// this source returned before and the backend answered with HTTP 401: the source fetches others, or
    /// returns the same if it has none.
    fn headers<'a>(
        &'a self,
        request: UnprovedRequest<'a>,
        refused: Option<&'a HeaderMap>,
    ) -> BoxFuture<'a, Result<HeaderMap, CredentialError>>;
}

/// A source, as requests and connections hold it.
pub type SharedCredentials = Arc<dyn CredentialSource>;

/// The reason why there are no credentials. Neither part shows a token or a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no credentials for this backend: {reason}")]
pub struct CredentialError {
    /// The reason and its remedy, for the client.
    pub reason: String,
    /// More for the operator: the host of the provider and its error.
    pub detail: String,
}
