//! [`Browser`]: the cookie that ties a sign-in to the browser in which it began, so that neither a forged
//! form (CSRF) nor a link from another person's sign-in (login CSRF, session fixation) works.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use url::Url;

use crate::auth_server::client::authorization_request::digest;
use crate::auth_server::random::random;

/// Characters of the value: 32 random bytes in base64url.
const VALUE_CHARS: usize = 43;

/// A browser.
#[derive(Debug)]
pub(in crate::auth_server) struct Browser {
    value: String,
}

impl Browser {
    /// Returns the browser of a request, if it has the cookie.
    pub(in crate::auth_server) fn from_cookie(headers: &HeaderMap, issuer: &Url) -> Option<Self> {
        let wanted = name(issuer);
        let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut values = pairs.filter(|(name, _)| *name == wanted).map(|(_, value)| value);
        // An attacker's page of the same domain has set a second cookie.
        let (value, None) = (values.next()?, values.next()) else { return None };
        (value.len() == VALUE_CHARS).then(|| Self { value: value.to_owned() })
    }

    /// Makes the cookie of a browser that has none.
    pub(in crate::auth_server) fn new() -> Self {
        Self { value: BASE64_URL_SAFE_NO_PAD.encode(random::<32>()) }
    }

    /// Returns the value that states and forms are bound to.
    pub(in crate::auth_server) fn digest(&self) -> String {
        digest(&self.value)
    }

    /// Returns the header that sets the cookie for `seconds`.
    pub(in crate::auth_server) fn set_cookie(&self, issuer: &Url, seconds: u64) -> Option<HeaderValue> {
        let secure = if is_secure(issuer) { "; Secure" } else { "" };
        let (name, value) = (name(issuer), &self.value);
        // `Lax`: the provider's redirect back comes from another site.
        let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
        let mut cookie = HeaderValue::try_from(cookie).ok()?;
        cookie.set_sensitive(true);
        Some(cookie)
    }
}

fn is_secure(issuer: &Url) -> bool {
    issuer.scheme() == "https"
}

/// Returns the name; with the prefix `__Host-` no page of another host can set it.
fn name(issuer: &Url) -> &'static str {
    if is_secure(issuer) { "__Host-vmcp-sign-in" } else { "vmcp-sign-in" }
}
