//! Authentication of clients, and policies about their calls. [`authentication`] makes an [`identity`] from
//! keys ([`api_keys`]) or tokens ([`oidc`]); [`policy`] decides, [`rate_limit`] counts; [`outgoing`] gets
//! tokens for backends, and [`auth_server`] issues tokens to clients.

pub mod api_keys;
pub mod auth_server;
pub mod authentication;
pub mod client_certificate;
pub mod identity;
pub mod oidc;
pub mod outgoing;
pub mod policy;
pub mod rate_limit;
pub mod rejection;
mod token_cache;

#[cfg(test)]
mod testing;
