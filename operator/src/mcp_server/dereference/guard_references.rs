//! Objects that the guards of an MCPServer refer to.

use std::sync::Arc;

use kube::ResourceExt as _;
use vmcp_crds::fields::references::SecretKeyReference;
use vmcp_crds::mcp_server::AuthServerReference;
use vmcp_crds::virtual_mcp_server::authz;
use vmcp_crds::{MCPAuthzConfig, MCPExternalAuthConfig, MCPOIDCConfig, MCPServer, MCPTelemetryConfig};

use crate::references::{CaBundle, policies_in_config_map};
use crate::runtime::{CallError, ClusterIssuerState, Context};
use crate::shared_settings::{mcp_oidc_config, mcp_telemetry_config};

/// Objects that the guards of an MCPServer refer to, as far as they exist.
#[derive(Debug, Default)]
pub(in crate::mcp_server) struct GuardReferences {
    /// The identity provider.
    pub oidc: Option<Arc<MCPOIDCConfig>>,
    /// The certificates that it refers to.
    pub certificates: CaBundle,
    /// Issuer and keys of ServiceAccount tokens, if it takes those of the cluster.
    pub cluster_issuer: ClusterIssuerState,
    /// The policies.
    pub authz: Option<Arc<MCPAuthzConfig>>,
    /// The text of the ConfigMap with the policies.
    pub authz_file: Option<String>,
    /// The settings of traces and metrics.
    pub telemetry: Option<Arc<MCPTelemetryConfig>>,
    /// The certificates that they refer to.
    pub telemetry_certificates: CaBundle,
    /// The embedded authorization server.
    pub auth_server: Option<Arc<MCPExternalAuthConfig>>,
    /// The credentials for the server, which may be no authorization server.
    pub credentials: Option<Arc<MCPExternalAuthConfig>>,
}

impl GuardReferences {
    /// Reads everything.
    pub(in crate::mcp_server) async fn read(
        server: &MCPServer,
        context: &Context,
    ) -> Result<Self, CallError> {
        let mut found = Self::from_stores(server, context);
        let namespace = server.namespace().unwrap_or_default();
        let file = authz::policy_file_of(&server.spec.authz_config);
        found.authz_file = policies_in_config_map(context, &namespace, file).await?;
        if let Some(config) = &found.oidc {
            let path = mcp_oidc_config::CA_BUNDLE_PATH;
            let reference = mcp_oidc_config::ca_bundle_of(config);
            found.certificates = CaBundle::read(context, &namespace, reference, path).await?;
            found.cluster_issuer = context.cluster_issuer(config.spec.takes_cluster_keys()).await;
        }
        if let Some(config) = &found.telemetry {
            let path = mcp_telemetry_config::CA_BUNDLE_PATH;
            let reference = mcp_telemetry_config::ca_bundle_of(config);
            found.telemetry_certificates = CaBundle::read(context, &namespace, reference, path).await?;
        }
        Ok(found)
    }

    /// Returns the references that the stores have: all but certificates and keys of the cluster.
    pub(in crate::mcp_server) fn from_stores(server: &MCPServer, context: &Context) -> Self {
        let (spec, all) = (&server.spec, &context.resources);
        let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
        Self {
            oidc: spec
                .oidc_config_ref
                .as_ref()
                .and_then(|reference| all.oidc_configs.get(namespace, &reference.name)),
            authz: spec
                .authz_config_ref
                .as_ref()
                .and_then(|reference| all.authz_configs.get(namespace, &reference.name)),
            telemetry: spec
                .telemetry_config_ref
                .as_ref()
                .and_then(|reference| all.telemetry_configs.get(namespace, &reference.name)),
            auth_server: auth_config_of(server)
                .and_then(|name| all.external_auth_configs.get(namespace, name)),
            credentials: spec
                .external_auth_config_ref
                .as_ref()
                .and_then(|reference| all.external_auth_configs.get(namespace, &reference.name)),
            ..Self::default()
        }
    }

    /// Returns the Secrets that the guards refer to.
    pub(in crate::mcp_server) fn secret_references(&self, server: &MCPServer) -> Vec<SecretKeyReference> {
        let of_issuer = self.oidc.iter().filter_map(|config| config.spec.secret_reference().cloned());
        let headers = self.telemetry.iter().filter_map(|config| config.spec.open_telemetry.as_ref());
        let headers = headers.flat_map(|export| &export.sensitive_headers);
        let of_auth_server = self.auth_server.iter().flat_map(|config| config.spec.secret_references());
        let storage = server.spec.session_storage.as_ref().filter(|_| server.spec.is_guarded());
        let of_storage = storage.and_then(|storage| storage.password_ref.clone());
        of_issuer
            .chain(headers.map(|header| header.secret_key_ref.clone()))
            .chain(of_auth_server)
            .chain(of_storage)
            .collect()
    }

    /// Returns true if one of the guards takes keys that no watch tells of.
    pub(in crate::mcp_server) fn takes_cluster_keys(&self) -> bool {
        self.oidc.as_ref().is_some_and(|config| config.spec.takes_cluster_keys())
    }

    /// Returns true if the guards refer to this ConfigMap.
    pub(in crate::mcp_server) fn uses_config_map(&self, server: &MCPServer, name: &str) -> bool {
        let bundles = [
            self.oidc.as_deref().and_then(mcp_oidc_config::ca_bundle_of),
            self.telemetry.as_deref().and_then(mcp_telemetry_config::ca_bundle_of),
        ];
        let file = authz::policy_file_of(&server.spec.authz_config);
        bundles.into_iter().flatten().any(|bundle| bundle.config_map_ref.name == name)
            || file.is_some_and(|file| file.name == name)
    }
}

/// Returns the name of the MCPExternalAuthConfig with the embedded authorization server.
fn auth_config_of(server: &MCPServer) -> Option<&str> {
    let AuthServerReference { kind: _, name } = server.spec.auth_server_ref.as_ref()?;
    Some(name)
}

/// Returns true if the server refers to this MCPExternalAuthConfig.
pub(in crate::mcp_server) fn uses_auth_config(server: &MCPServer, name: &str) -> bool {
    let credentials = server.spec.external_auth_config_ref.as_ref();
    auth_config_of(server) == Some(name) || credentials.is_some_and(|reference| reference.name == name)
}
