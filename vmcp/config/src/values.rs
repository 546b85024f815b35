//! Types of values that several sections share: durations, decimals, URLs, HTTP headers, secrets, and those
//! that are masked in what servers write.

pub(crate) mod decimal;
pub(crate) mod duration;
pub(crate) mod headers;
pub(crate) mod http_url;
pub(crate) mod known_secrets;
pub(crate) mod secret;
pub mod secret_signs;
