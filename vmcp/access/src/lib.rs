//! Authentication of clients, and policies about their calls. [`authentication`] makes an [`identity`] from
//! keys ([`api_keys`]) or tokens ([`oidc`]); [`policy`] decides, [`rate_limit`] counts; [`outgoing`] gets
//! tokens for backends, and [`auth_server`] issues tokens to clients.

pub mod api_keys;
pub mod auth_server;
pub mod authentication;
mod clock;
mod exact_json;
pub mod identity;
pub mod oidc;
pub mod outgoing;
pub mod policy;
pub mod rate_limit;

use vmcp_config::{Config, Finding};

/// Returns the mistakes of a configuration that only this crate can see, those of policies and signing keys;
/// see [`vmcp_config::FurtherCheck`].
pub fn findings(config: &Config) -> Vec<Finding> {
    let policies = config.authz.iter().flat_map(|authz| policy::findings(authz));
    policies.chain(auth_server::findings(config)).collect()
}

#[cfg(test)]
mod testing;
