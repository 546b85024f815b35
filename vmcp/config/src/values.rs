//! Types of values that several sections share: durations, decimals, URLs, HTTP headers, PEM, secrets,
//! secrets within other values, and secrets in any text (`redaction`).

pub(crate) mod decimal;
pub(crate) mod duration;
pub(crate) mod headers;
pub(crate) mod http_url;
pub(crate) mod masked;
pub(crate) mod pem;
pub(crate) mod redaction;
pub(crate) mod secret;
