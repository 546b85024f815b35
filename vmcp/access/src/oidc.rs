//! OpenID Connect: access tokens of identity providers.
//!
//! [`issuer::Issuer`] is one provider: [`verify`] checks a token, its `token_type` too, against its [`keys`],
//! which [`key_source`] fetches in the background, from a place that [`metadata`] names, over
//! [`guarded_http`]. [`introspection`] asks the provider about a token instead. [`possession`] checks that
//! the sender of a token is its holder. [`ring_provider`] checks signatures.

pub(crate) mod guarded_http;
mod introspection;
pub mod issuer;
mod jwt_parts;
pub(crate) mod key_source;
pub(crate) mod keys;
pub(crate) mod metadata;
pub mod possession;
pub mod rejection;
pub(crate) mod renewed_client;
pub(crate) mod ring_provider;
mod token_type;
pub(crate) mod verify;
