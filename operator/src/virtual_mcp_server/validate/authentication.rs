//! Checks the references of the authentication of clients.

use vmcp_crds::virtual_mcp_server::{IncomingAuth, OidcConfigReference, Validated};

use super::{ConfigurationRefusal, References};
use crate::references::{CaBundle, provider_classes};
use crate::runtime::{BuildSettings, unchecked};
use crate::shared_settings::mcp_oidc_config;

/// Returns why clients cannot be authenticated as the resource says. Never left out: an endpoint without its
/// authentication would be open.
pub(super) fn unusable(
    server: &Validated,
    references: &References,
    settings: &BuildSettings,
) -> Option<ConfigurationRefusal> {
    let classes = provider_classes(&server.pods.template, &[], &[]);
    if let Some(auth_server) = &server.auth_server {
        // A server without its keys would give tokens that no other pod knows.
        let wanted = auth_server.secret_references();
        let missing = references.secrets.missing_before_pods(&server.namespace, &wanted, &classes);
        if let Some(message) = missing {
            return Some(ConfigurationRefusal { reason: "AuthServerConfigInvalid", message });
        }
    }
    let auth = IncomingAuth::from_block(&server.settings.incoming_auth)?;
    if let Some(OidcConfigReference { name, .. }) = &auth.oidc_config_ref {
        let Some(config) = &references.oidc else {
            let message = format!(
                "there is no MCPOIDCConfig {name} in this namespace; create it, or correct spec.incomingAuth.oidcConfigRef"
            );
            return Some(ConfigurationRefusal { reason: "OIDCConfigRefNotFound", message });
        };
        let unchecked = unchecked("MCPOIDCConfig", &config.spec, settings).map(|problem| problem.to_string());
        if let Err(message) = unchecked.map_or_else(|| mcp_oidc_config::validate(&config.spec), Err) {
            let message = format!("the MCPOIDCConfig {name} is not valid: {message}");
            return Some(ConfigurationRefusal { reason: "OIDCConfigRefNotValid", message });
        }
        let certificates = match &references.oidc_certificates {
            CaBundle::Unusable(message) => Some(message.as_str()),
            CaBundle::OfTheSystem | CaBundle::Found(_) => None,
        };
        if let Some(message) = certificates.or_else(|| references.cluster_issuer.fault()) {
            let message = format!("the MCPOIDCConfig {name} is not valid: {message}");
            return Some(ConfigurationRefusal { reason: "OIDCConfigRefNotValid", message });
        }
    }
    if let CaBundle::Unusable(message) = &references.decision_point_certificates {
        let message = message.clone();
        return Some(ConfigurationRefusal { reason: "DecisionPointNotValid", message });
    }
    let of_issuer = references.oidc.iter().filter_map(|config| config.spec.secret_reference());
    let wanted: Vec<_> = auth.secret_references().into_iter().chain(of_issuer.cloned()).collect();
    let message = references.secrets.missing_before_pods(&server.namespace, &wanted, &classes)?;
    Some(ConfigurationRefusal { reason: "SecretNotFound", message })
}
