//! Cookies that the console sets: of a session, and of an attempt to sign in at the provider.

use axum::http::{HeaderName, header};

use super::ConsoleDoor;
use super::headers::SECURE;

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
