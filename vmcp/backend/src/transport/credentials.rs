//! Credentials of a backend as headers: the constant ones, configured, and those of a
//! [`CredentialSource`](crate::CredentialSource), which expire.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use vmcp_config::{Headers, Secret};

use crate::transport::link_error::LinkError;

/// The configured headers, which every request of every client carries. A reload replaces their values while
/// connections live on.
pub(crate) struct ConfiguredHeaders(ArcSwap<HeaderMap>);

impl ConfiguredHeaders {
    /// The headers of a configuration. Unusable ones are left out; [`check`] names them.
    pub(crate) fn new(configured: Option<&Headers>) -> Self {
        Self(ArcSwap::from_pointee(parsed(configured)))
    }

    /// Takes those of another configuration; returns true if they differ.
    pub(crate) fn replace(&self, configured: Option<&Headers>) -> bool {
        let next = parsed(configured);
        let differ = **self.0.load() != next;
        self.0.store(Arc::new(next));
        differ
    }

    /// Adds them to the headers of a request.
    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        for (name, value) in self.0.load().iter() {
            headers.insert(name.clone(), value.clone());
        }
    }
}

/// Values may be secret.
impl fmt::Debug for ConfiguredHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfiguredHeaders").finish_non_exhaustive()
    }
}

/// Returns an error that names the first header that cannot be sent.
pub(super) fn check(configured: &Headers) -> Result<(), LinkError> {
    let unusable = configured.iter().find(|(name, value)| pair(name, value).is_none());
    unusable.map_or(Ok(()), |(name, _)| {
        Err(LinkError::Connect { detail: format!("the configured {name} is unusable") })
    })
}

fn parsed(configured: Option<&Headers>) -> HeaderMap {
    configured.into_iter().flatten().filter_map(|(name, value)| pair(name, value)).collect()
}

fn pair(name: &str, value: &Secret) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::from_str(value.expose()).ok()?;
    value.set_sensitive(true);
    Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
}

/// Returns the headers of a request with those of its credentials, which replace others of their names.
pub(super) fn with_proof(headers: &HeaderMap, proof: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for (name, value) in proof {
        let mut value = value.clone();
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    headers
}
