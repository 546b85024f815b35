//! The subject of a request in [`OwnedParams`].

use std::borrow::Cow;

use vmcp_json::object::Object;
use vmcp_json::text;

use super::params::OwnedParams;
use super::splice::Splice;
use crate::message::methods;
use crate::message::subject::{REFERENCE, key, reference_key};

impl OwnedParams {
    /// Returns the subject that the parameters of a method name, see [`fn@crate::subject::get`].
    #[must_use]
    pub fn subject(&self, method: &str) -> Option<Cow<'_, str>> {
        if method == methods::COMPLETE {
            let reference = Object::parse_valid(self.get(REFERENCE)?).ok()?;
            return reference.get_str(reference_key(&reference)?);
        }
        self.get_str(key(method)?)
    }
}

impl Splice<'_> {
    /// Replaces the subject of a request, unless it is the same already: an unchanged request keeps its
    /// bytes.
    pub(crate) fn set_subject(&mut self, method: &str, params: &OwnedParams, subject: &str) {
        if method != methods::COMPLETE {
            if let Some(key) = key(method)
                && params.get_str(key).as_deref() != Some(subject)
            {
                self.set(key, text::quoted(subject));
            }
        } else if let Some(reference) = params.get(REFERENCE).and_then(|text| Object::parse_valid(text).ok())
            && let Some(key) = reference_key(&reference)
            && reference.get_str(key).as_deref() != Some(subject)
        {
            let mut inner = reference.edit();
            inner.set(key, text::quoted(subject));
            self.set(REFERENCE, inner.finish().into_cow().into_owned());
        }
    }
}
