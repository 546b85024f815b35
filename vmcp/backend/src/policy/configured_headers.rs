//! [`ConfiguredHeaders`]: the constant headers of a backend, parsed once.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use vmcp_config::{Headers, Secret};

/// The configured headers, which every request of every client carries. A reload replaces their values while
/// connections live on.
pub(crate) struct ConfiguredHeaders(ArcSwap<HeaderMap>);

impl ConfiguredHeaders {
    /// The headers of a configuration. Unusable ones are left out; [`first_unusable`] names them.
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
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
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

/// Returns the name of the first header that cannot be sent.
pub(crate) fn first_unusable(configured: &Headers) -> Option<&str> {
    configured.iter().find(|(name, value)| pair(name, value).is_none()).map(|(name, _)| name.as_ref())
}

fn parsed(configured: Option<&Headers>) -> HeaderMap {
    configured.into_iter().flatten().filter_map(|(name, value)| pair(name, value)).collect()
}

fn pair(name: &str, value: &Secret) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::from_str(value.expose()).ok()?;
    value.set_sensitive(true);
    Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
}
