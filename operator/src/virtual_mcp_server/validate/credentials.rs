//! Credentials of backends, from MCPExternalAuthConfigs.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use vmcp_crds::lower::Backend;
use vmcp_crds::{MCPExternalAuthConfig, VirtualMCPServer};

use crate::runtime::BuildSettings;
use crate::shared_settings::mcp_external_auth_config;
use crate::virtual_mcp_server::dereference::{References, auth_configs_of};

/// Gives backends their credentials; one whose credentials are missing or wrong is not called without them.
pub(super) fn add(
    server: &VirtualMCPServer,
    references: &References,
    settings: &BuildSettings,
    backends: &mut [Backend],
    unusable: &mut BTreeMap<String, String>,
) {
    let configs = auth_configs_of(server, references);
    for backend in backends {
        let Some(name) = configs.get(&backend.name) else {
            if let Some(problem) = lacks_token(references, &backend.name) {
                backend.enabled = false;
                unusable.entry(backend.name.clone()).or_insert(problem);
            }
            continue;
        };
        let problem = match references.auth_configs.get(name) {
            None => Some(format!(
                "there is no MCPExternalAuthConfig {name} in this namespace; create it, or correct the reference"
            )),
            Some(config) => {
                backend.auth = Some(config.spec.clone());
                mcp_external_auth_config::validate(config, &references.secrets, settings)
                    .err()
                    .map(|refusal| refusal.message)
                    .or_else(|| no_credentials(config))
                    .or_else(|| missing_provider(server, config))
                    .map(|message| format!("MCPExternalAuthConfig {name}: {message}"))
                    .or_else(|| foreign_service(references, &backend.name))
            }
        };
        if let Some(problem) = problem {
            backend.enabled = false;
            unusable.entry(backend.name.clone()).or_insert(problem);
        }
    }
}

/// Returns the remedy for an MCPServer that asks its callers for tokens, and to which none would be
/// presented.
fn lacks_token(references: &References, backend: &str) -> Option<String> {
    let server = references.servers.iter().find(|server| server.name_any() == backend)?;
    server.spec.asks_for_tokens().then(|| {
        "it asks its callers for tokens, and no credentials are configured; name an MCPExternalAuthConfig in its \
         spec.externalAuthConfigRef, such as one of type clientCredentials or tokenExchange"
            .to_owned()
    })
}

/// Returns why no credentials are sent to a Service that is not the MCPServer's.
fn foreign_service(references: &References, backend: &str) -> Option<String> {
    references.without_service.contains(backend).then(|| {
        "its Service is not made yet, or another object has its name, so that no credentials are sent there; the \
         conditions of the MCPServer tell which"
            .to_owned()
    })
}

/// Returns the remedy for a reference to an authorization server in place of credentials.
fn no_credentials(config: &MCPExternalAuthConfig) -> Option<String> {
    config.spec.auth_server().map(|_| {
        "an authorization server is no credential; name it in spec.authServerRef of an MCPServer".to_owned()
    })
}

/// Returns the remedy for a provider at which people do not sign in.
fn missing_provider(server: &VirtualMCPServer, config: &MCPExternalAuthConfig) -> Option<String> {
    let provider = config.spec.upstream_provider()?;
    let auth_server = server.spec.auth_server_config.as_ref();
    if auth_server.is_some_and(|auth_server| auth_server.has_provider(provider)) {
        return None;
    }
    Some(format!(
        "people sign in at {provider} nowhere; add it to spec.authServerConfig.upstreamProviders of the VirtualMCPServer"
    ))
}

#[cfg(test)]
mod tests;
