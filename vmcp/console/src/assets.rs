//! The style sheet and the script of all pages. They hold no data, and no page has any other.

/// The style sheet, served as `/console/console.css`.
pub const STYLE: &str = include_str!("../assets/console.css");
/// The script, served as `/console/console.js`: filters, live calls, copying. Every page can be read without.
pub const SCRIPT: &str = include_str!("../assets/console.js");

/// Value of `Content-Security-Policy` for every answer of the console: own files only, nothing inline, no
/// frames, no foreign host.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; media-src data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; \
    base-uri 'none'";
