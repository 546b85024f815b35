//! Credentials of a backend: the headers that prove a caller's right to it.

use std::fmt;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use vmcp_config::Headers;

use crate::request::Principal;
use crate::transport::link_error::LinkError;

/// Source of the headers for each principal. The configured headers are the same for all.
pub(super) struct Credentials {
    configured: HeaderMap,
}

impl Credentials {
    /// Credentials of the configured headers, on top of `base`.
    pub(super) fn configured(base: HeaderMap, configured: &Headers) -> Result<Self, LinkError> {
        let unusable =
            |name: &str| LinkError::Connect { detail: format!("the configured {name} is unusable") };
        let mut headers = base;
        for (name, value) in configured {
            let mut value = HeaderValue::from_str(value.expose()).map_err(|_| unusable(name))?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable(name))?, value);
        }
        Ok(Self { configured: headers })
    }

    /// The headers of requests on behalf of `principal`.
    pub(super) fn headers(&self, principal: Principal) -> &HeaderMap {
        match principal {
            Principal::Anonymous | Principal::Address(_) | Principal::Identity(_) => &self.configured,
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}
