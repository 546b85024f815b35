//! Cookies of the console: of a session, and of an attempt to sign in at the provider.

use axum::http::{HeaderMap, HeaderName, header};

use super::ConsoleDoor;

/// Attribute that keeps a cookie off plain HTTP.
const SECURE: &str = "; Secure";

impl ConsoleDoor {
    /// Returns the name of the cookie. Browsers send a cookie to every port of a host: the name tells this
    /// port's from another one's.
    pub(super) fn cookie_name(&self) -> String {
        format!("vmcp_console_{}", self.0.guard.port)
    }

    /// Returns the name of the cookie of an attempt to sign in at the provider.
    pub(super) fn attempt_name(&self) -> String {
        format!("{}_attempt", self.cookie_name())
    }

    /// Returns the header that sets the cookie of an attempt. It goes to the provider's answer alone, which
    /// comes from another site.
    pub(super) fn set_attempt(&self, value: &str, seconds: u64) -> [(HeaderName, String); 1] {
        let name = self.attempt_name();
        let secure = self.secure();
        let text =
            format!("{name}={value}; Path=/console/oidc; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
        [(header::SET_COOKIE, text)]
    }

    /// Returns the attribute that keeps a cookie of a sign-in at the provider off plain HTTP; empty unless
    /// people come back by HTTPS.
    pub(super) fn secure(&self) -> &'static str {
        let server = &self.engine().snapshot().config.server;
        let sign_in = server.console_sign_in.as_ref();
        if sign_in.is_some_and(|sign_in| sign_in.redirect_uri.scheme() == "https") { SECURE } else { "" }
    }

    /// Returns the `Set-Cookie` header of a session; `secure` is its last attribute, or empty.
    pub(super) fn set_cookie(&self, value: &str, seconds: u64, secure: &str) -> [(HeaderName, String); 1] {
        let name = self.cookie_name();
        let text =
            format!("{name}={value}; Path=/console; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
        [(header::SET_COOKIE, text)]
    }
}

/// Returns the attribute that keeps a cookie off plain HTTP, for a form that a browser sent from a page of
/// HTTPS. A token may be typed over plain HTTP, such as through `ssh -L`: its cookie goes without.
pub(super) fn secure_for(headers: &HeaderMap) -> &'static str {
    let origin = headers.get(header::ORIGIN);
    let is_https = origin.is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    if is_https { SECURE } else { "" }
}

/// Returns a cookie of a request. A client may send several lines, each with several cookies.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}
