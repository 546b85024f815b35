//! Credentials of backends, from MCPExternalAuthConfigs.

use std::collections::BTreeMap;

use vmcp_crds::VirtualMCPServer;
use vmcp_crds::lower::Backend;

use crate::shared_settings::mcp_external_auth_config;
use crate::virtual_mcp_server::dereference::{References, auth_configs_of};

/// Gives backends their credentials; one whose credentials are missing or wrong is not called without them.
pub(super) fn add(
    server: &VirtualMCPServer,
    references: &References,
    backends: &mut [Backend],
    unusable: &mut BTreeMap<String, String>,
) {
    let configs = auth_configs_of(server, references);
    for backend in backends {
        let Some(name) = configs.get(&backend.name) else { continue };
        let problem = match references.auth_configs.get(name) {
            None => Some(format!(
                "there is no MCPExternalAuthConfig {name} in this namespace; create it, or correct the reference"
            )),
            Some(config) => {
                backend.auth = Some(config.spec.clone());
                mcp_external_auth_config::validate(config, &references.secrets)
                    .err()
                    .map(|refusal| format!("MCPExternalAuthConfig {name}: {}", refusal.message))
            }
        };
        if let Some(problem) = problem {
            backend.enabled = false;
            unusable.entry(backend.name.clone()).or_insert(problem);
        }
    }
}
