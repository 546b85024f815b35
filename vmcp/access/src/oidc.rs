//! OpenID Connect: access tokens of identity providers.
//!
//! [`issuer::Issuer`] is one provider: [`verify`] checks a token, its `token_type` too, against its [`keys`],
//! which [`key_source`] fetches in the background, from a place that [`metadata`] names, over
//! [`guarded_http`]. [`ring_provider`] checks signatures.

pub(crate) mod guarded_http;
pub mod issuer;
pub(crate) mod key_source;
pub(crate) mod keys;
pub(crate) mod metadata;
pub(crate) mod ring_provider;
mod token_type;
pub mod verify;
