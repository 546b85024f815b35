//! Access: proof of who calls, and the policies about the calls. [`identity`] is the result of the proof,
//! [`authentication`] the way to it: keys of [`api_keys`] and tokens that [`oidc`] verifies; [`policy`]
//! decides, [`rate_limit`] counts; [`outgoing`] has the tokens that backends get for a client, and
//! [`auth_server`] those that clients get from vmcp itself.

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
