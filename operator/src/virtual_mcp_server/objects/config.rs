//! The objects that pods mount: a ConfigMap with `vmcp.yaml` and a Secret with the values that it refers to.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use vmcp_crds::lower::{ADMIN_TOKEN, METRICS_TOKEN, SESSION_KEY, TRUSTED_TOOLS};
use vmcp_crds::virtual_mcp_server::Validated;

use super::meta;
use crate::virtual_mcp_server::dereference::GeneratedValues;
use crate::virtual_mcp_server::last_good::MountedConfiguration;
use crate::virtual_mcp_server::names::{self, CONFIG_FILE};

/// Returns the ConfigMap with `vmcp.yaml`.
pub(in crate::virtual_mcp_server) fn config_map(
    server: &Validated,
    mounted: &MountedConfiguration,
) -> ConfigMap {
    ConfigMap {
        metadata: meta(server, names::config_map(&server.name)),
        data: Some(BTreeMap::from([(CONFIG_FILE.to_owned(), mounted.text.clone())])),
        ..ConfigMap::default()
    }
}

/// Returns the Secret: one key a value, `admin-token` and `session-key` among them.
pub(in crate::virtual_mcp_server) fn secret(
    server: &Validated,
    mounted: &MountedConfiguration,
    generated: &GeneratedValues,
) -> Secret {
    let mut data: BTreeMap<_, _> =
        mounted.secrets.iter().map(|(file, value)| (file.clone(), ByteString(value.clone()))).collect();
    data.insert(ADMIN_TOKEN.to_owned(), ByteString(generated.admin_token.clone()));
    data.insert(SESSION_KEY.to_owned(), ByteString(generated.session_key.clone()));
    if let Some(token) = &generated.metrics_token {
        data.insert(METRICS_TOKEN.to_owned(), ByteString(token.clone()));
    }
    if mounted.reads_trusted_tools() {
        // An empty document in place of none: without the file no pod starts.
        let trusted = generated.trusted_tools.clone().unwrap_or_else(|| b"{}".to_vec());
        data.insert(TRUSTED_TOOLS.to_owned(), ByteString(trusted));
    }
    Secret {
        metadata: meta(server, names::secret(&server.name)),
        type_: Some("Opaque".to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}
