//! Credentials of a backend as headers: the constant ones, configured, and those of a
//! [`CredentialSource`](crate::CredentialSource), which expire.

use std::fmt;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use vmcp_config::Headers;

use crate::transport::link_error::LinkError;

/// The headers that every request of every client carries.
pub(super) struct ConstantHeaders(HeaderMap);

impl ConstantHeaders {
    /// The configured headers on top of `base`.
    pub(super) fn new(base: HeaderMap, configured: &Headers) -> Result<Self, LinkError> {
        let unusable =
            |name: &str| LinkError::Connect { detail: format!("the configured {name} is unusable") };
        let mut headers = base;
        for (name, value) in configured {
            let mut value = HeaderValue::from_str(value.expose()).map_err(|_| unusable(name))?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable(name))?, value);
        }
        Ok(Self(headers))
    }

    /// The headers.
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.0
    }
}

/// Values may be secret.
impl fmt::Debug for ConstantHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConstantHeaders").finish_non_exhaustive()
    }
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
