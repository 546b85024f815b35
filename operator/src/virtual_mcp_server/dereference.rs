//! Step 1 of a reconcile, dereference: everything that the resource refers to: members of its group, Secrets,
//! telemetry settings, the embedding server, and the configuration that is mounted so far.

mod cross_namespace;
mod membership;
mod named;
mod resolved_references;
mod secrets;
mod service_owners;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use vmcp_crds::lower::{ADMIN_TOKEN, METRICS_TOKEN, SESSION_KEY, TRUSTED_TOOLS};
use vmcp_crds::virtual_mcp_server::authz;
use vmcp_crds::{MCPServerEntry, VirtualMCPServer};

pub(super) use self::cross_namespace::{
    BackendResource, CrossNamespaceBackends, GrantedBackend, group_elsewhere, refers_to_namespace,
};
pub(super) use self::membership::group_of;
use self::membership::is_member;
use self::named::{DECISION_POINT_BUNDLE_PATH, decision_point_bundle};
pub(super) use self::named::{
    auth_configs_of, composite_tool_refs_of, embedding_server_of, oidc_config_of, tool_configs_of,
    webhook_configs_of,
};
pub(super) use self::resolved_references::{GeneratedValues, References};
use self::secrets::secrets_of;
use self::service_owners::without_service;
use super::last_good::{LastGood, MountedConfiguration};
use super::names::{self, CONFIG_FILE};
use crate::mcp_server_entry;
use crate::references::{CaBundle, DereferenceError, ReferencedSecrets, policies_in_config_map};
use crate::runtime::{Context, GeneratedSecret, ResourceStores};
use crate::shared_settings::{mcp_oidc_config, mcp_telemetry_config};

/// Reads everything that the server refers to, and generates the values that do not exist yet.
pub(super) async fn dereference(
    server: &VirtualMCPServer,
    context: &Context,
    last_good: &LastGood,
) -> Result<References, DereferenceError> {
    let mut references = from_stores(server, context);
    references.without_service = without_service(server, &references, context);
    let namespace = server.namespace().unwrap_or_default();
    references.secrets =
        ReferencedSecrets::read(context, &namespace, &secrets_of(server, &references)).await?;
    let file = authz::policy_file(&server.spec.incoming_auth);
    references.authz_file = policies_in_config_map(context, &namespace, file).await?;
    if let Some(config) = &references.oidc {
        let reference = mcp_oidc_config::ca_bundle_of(config);
        let path = mcp_oidc_config::CA_BUNDLE_PATH;
        references.oidc_certificates = CaBundle::read(context, &namespace, reference, path).await?;
        references.cluster_issuer = context.cluster_issuer(config.spec.takes_cluster_keys()).await;
    }
    if let Some(config) = &references.telemetry {
        let reference = mcp_telemetry_config::ca_bundle_of(config);
        let path = mcp_telemetry_config::CA_BUNDLE_PATH;
        references.telemetry_certificates = CaBundle::read(context, &namespace, reference, path).await?;
    }
    if let Some(reference) = decision_point_bundle(server) {
        let path = DECISION_POINT_BUNDLE_PATH;
        references.decision_point_certificates =
            CaBundle::read(context, &namespace, Some(&reference), path).await?;
    }
    for entry in &references.entries {
        let bundle = mcp_server_entry::ca_bundle(entry, context).await?;
        // An entry and a proxy may share a name; the first one is used.
        references.entry_ca_bundles.entry(entry.name_any()).or_insert(bundle);
    }
    let (uid, name) = (server.uid().unwrap_or_default(), server.name_any());
    let map = context.children.typed::<ConfigMap>(&uid, &names::config_map(&name));
    let secret = context.child(server, &names::secret(&name)).await?;
    // Remembered while the configuration is refused; else the ConfigMap and the Secret hold the last good
    // one.
    let remembered = last_good.mounted(server);
    let text = match &remembered {
        Some(remembered) => Some(remembered.text.clone()),
        None => map.and_then(|map| map.data?.remove(CONFIG_FILE)),
    };
    references.malformed =
        text.as_ref().map(|text| malformed_members(server, context, text)).unwrap_or_default();
    references.mounted = remembered.or_else(|| Some(MountedConfiguration::new(text?, secret.as_ref()?)));
    if let Some(mounted) = &mut references.mounted {
        references.cross_namespace.withdraw(mounted);
    }
    let trusted = secret.as_ref().and_then(|secret| secret.data.as_ref()?.get(TRUSTED_TOOLS));
    let trusted_tools = trusted.map(|ByteString(text)| text.clone());
    let mut kept = GeneratedSecret::from_secret(secret);
    let mut value = |key| kept.take(key).map_err(DereferenceError::Randomness);
    let monitor = server.spec.service_monitor.as_ref();
    let wants_token = monitor.is_some_and(|monitor| monitor.require_token);
    references.generated = GeneratedValues {
        admin_token: value(ADMIN_TOKEN)?,
        session_key: value(SESSION_KEY)?,
        metrics_token: wants_token.then(|| value(METRICS_TOKEN)).transpose()?,
        trusted_tools,
    };
    Ok(references)
}

/// Returns true if the server, or an entry of its group, refers to this Secret.
pub(super) fn refers_to_secret(server: &VirtualMCPServer, context: &Context, secret: &str) -> bool {
    secrets_of(server, &from_stores(server, context)).iter().any(|reference| reference.name == secret)
}

/// Returns true if the policies, the decision point, the MCPOIDCConfig or the MCPTelemetryConfig of the
/// server, or an entry of its group, refers to this ConfigMap.
pub(super) fn refers_to_config_map(server: &VirtualMCPServer, context: &Context, map: &str) -> bool {
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    let config = oidc_config_of(server).and_then(|name| context.resources.oidc_configs.get(namespace, name));
    let of_clients = config.as_deref().and_then(mcp_oidc_config::ca_bundle_of).cloned();
    let References { entries, telemetry, .. } = from_stores(server, context);
    let of_entries = entries.iter().filter_map(|entry| entry.spec.ca_bundle_ref.clone());
    let of_exports = telemetry.as_deref().and_then(mcp_telemetry_config::ca_bundle_of).cloned();
    let of_point = decision_point_bundle(server);
    let mut all = of_entries.chain(of_clients).chain(of_exports).chain(of_point);
    all.any(|bundle| bundle.config_map_ref.name == map)
        || authz::policy_file(&server.spec.incoming_auth).is_some_and(|file| file.name == map)
}

/// Returns the references that the stores have: all but Secrets and the mounted configuration.
fn from_stores(server: &VirtualMCPServer, context: &Context) -> References {
    let namespace = server.namespace().unwrap_or_default();
    let all = &context.resources;
    let group = group_of(server);
    let cross_namespace = CrossNamespaceBackends::from_stores(server, context);
    let group_exists = match group_elsewhere(server) {
        Some((group, of_group)) => {
            !cross_namespace.is_group_refused && all.mcp_groups.exists(of_group, group)
        }
        None => group.is_none_or(|group| all.mcp_groups.exists(&namespace, group)),
    };
    let mut references = References {
        group_exists,
        cross_namespace,
        servers: all.mcp_servers.list(&namespace),
        entries: entries_of(all, &namespace),
        authz: authz::reference(&server.spec.incoming_auth)
            .and_then(|name| all.authz_configs.get(&namespace, name)),
        auth_configs: all
            .external_auth_configs
            .list(&namespace)
            .into_iter()
            .map(|config| (config.name_any(), config))
            .collect(),
        telemetry: server
            .spec
            .telemetry_config_ref
            .as_ref()
            .and_then(|reference| all.telemetry_configs.get(&namespace, &reference.name)),
        oidc: oidc_config_of(server).and_then(|name| all.oidc_configs.get(&namespace, name)),
        embedding_server: all.embedding_servers.get(&namespace, &embedding_server_of(server)),
        composite_tools: composite_tool_refs_of(server)
            .filter_map(|name| Some((name.to_owned(), all.composite_tool_definitions.get(&namespace, name)?)))
            .collect(),
        ..References::default()
    };
    references.servers.retain(|backend| {
        let (group, server_of) = (backend.spec.group_ref.as_ref(), backend.spec.vmcp_ref.as_ref());
        is_member(server, group, server_of, backend.labels())
    });
    references.entries.retain(|backend| {
        let (group, server_of) = (backend.spec.group_ref.as_ref(), backend.spec.vmcp_ref.as_ref());
        is_member(server, group, server_of, backend.labels())
    });
    // First: the author of the server has chosen these, and an entry of their name is of another author.
    let inline = server.spec.backends.iter().map(|backend| Arc::new(backend.as_entry(&namespace)));
    references.entries = inline.chain(std::mem::take(&mut references.entries)).collect();
    let used: BTreeSet<String> = auth_configs_of(server, &references).into_values().collect();
    references.auth_configs.retain(|name, _| used.contains(name));
    let used: BTreeSet<String> = tool_configs_of(server, &references).into_values().collect();
    let found = used.into_iter().filter_map(|name| {
        let config = all.tool_configs.get(&namespace, &name)?;
        Some((name, config))
    });
    references.tool_configs = found.collect();
    let used: BTreeSet<String> =
        webhook_configs_of(server, &references).into_iter().map(|(name, _)| name).collect();
    let found = used.into_iter().filter_map(|name| {
        let config = all.webhook_configs.get(&namespace, &name)?;
        Some((name, config))
    });
    references.webhook_configs = found.collect();
    references
}

/// Returns the MCPServerEntries of a namespace, and after them its MCPRemoteProxies, as entries.
fn entries_of(all: &ResourceStores, namespace: &str) -> Vec<Arc<MCPServerEntry>> {
    let mut entries = all.mcp_server_entries.list(namespace);
    let proxies = all.mcp_remote_proxies.list(namespace);
    entries.extend(proxies.iter().map(|proxy| Arc::new(proxy.as_entry())));
    entries
}

/// Returns the resources of the mounted configuration that are malformed now. Their group cannot be read, so
/// that they might still belong to the server: dropping them could remove a backend by mistake.
fn malformed_members(server: &VirtualMCPServer, context: &Context, mounted: &str) -> Vec<String> {
    let (all, namespace) = (&context.resources, server.namespace().unwrap_or_default());
    let backends = vmcp_crds::lower::backends_of(mounted);
    let telemetry = server.spec.telemetry_config_ref.as_ref().map(|reference| reference.name.as_str());
    let embedding_server = server.spec.embedding_server_ref.as_ref().map(|reference| reference.name.as_str());
    let is = |named: Option<&str>, name: &String| named == Some(name.as_str());
    let of = |kind: &'static str, names: Vec<String>| names.into_iter().map(move |name| (kind, name));
    of("MCPServer", all.mcp_servers.malformed(&namespace))
        .chain(of("MCPServerEntry", all.mcp_server_entries.malformed(&namespace)))
        .chain(of("MCPRemoteProxy", all.mcp_remote_proxies.malformed(&namespace)))
        .filter(|(_, name)| backends.contains(name))
        .chain(
            of("MCPAuthzConfig", all.authz_configs.malformed(&namespace))
                .filter(|(_, name)| is(authz::reference(&server.spec.incoming_auth), name)),
        )
        .chain(of("MCPWebhookConfig", all.webhook_configs.malformed(&namespace)).filter(|(_, name)| {
            is(server.spec.webhook_config_ref.as_ref().map(|reference| reference.name.as_str()), name)
        }))
        .chain(
            of("MCPTelemetryConfig", all.telemetry_configs.malformed(&namespace))
                .filter(|(_, name)| is(telemetry, name)),
        )
        .chain(
            of("MCPOIDCConfig", all.oidc_configs.malformed(&namespace))
                .filter(|(_, name)| is(oidc_config_of(server), name)),
        )
        .chain(
            of("EmbeddingServer", all.embedding_servers.malformed(&namespace))
                .filter(|(_, name)| is(embedding_server, name)),
        )
        .map(|(kind, name)| format!("{kind} {name}"))
        .collect()
}
