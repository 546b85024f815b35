//! Step 1 of a reconcile, dereference: everything that the resource refers to: members of its group, Secrets,
//! telemetry settings, the embedding server, and the configuration that is mounted so far.

mod cross_namespace;
mod membership;
mod service_owners;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::Value;
use vmcp_crds::fields::references::{CaBundleReference, LocalReference, SecretKeyReference};
use vmcp_crds::lower::{ADMIN_TOKEN, METRICS_TOKEN, SESSION_KEY, TRUSTED_TOOLS, WebhookScope};
use vmcp_crds::virtual_mcp_server::{AuthServerConfig, BackendAuthType, Console, IncomingAuth, authz};
use vmcp_crds::{
    EmbeddingServer, MCPAuthzConfig, MCPExternalAuthConfig, MCPOIDCConfig, MCPServer, MCPServerEntry,
    MCPTelemetryConfig, MCPToolConfig, MCPWebhookConfig, VirtualMCPCompositeToolDefinition, VirtualMCPServer,
};

pub(super) use self::cross_namespace::{
    BackendResource, CrossNamespaceBackends, GrantedBackend, group_elsewhere, refers_to_namespace,
};
pub(super) use self::membership::group_of;
use self::membership::is_member;
use self::service_owners::without_service;
use super::last_good::{LastGood, MountedConfiguration};
use super::names::{self, CONFIG_FILE};
use crate::mcp_server_entry;
use crate::references::{CaBundle, DereferenceError, ReferencedSecrets, adder, policies_in_config_map};
use crate::runtime::{ClusterIssuerState, Context, GeneratedSecret, ResourceStores};
use crate::shared_settings::{mcp_oidc_config, mcp_telemetry_config};

/// Everything that [`validate`](super::validate) reads besides the resource itself.
#[derive(Debug, Default)]
pub(super) struct References {
    /// True if the named MCPGroup exists, or none is named. False for one of another namespace without a
    /// grant.
    pub group_exists: bool,
    /// The MCPServers of the group, by name.
    pub servers: Vec<Arc<MCPServer>>,
    /// The server's own backends, as entries; after them the MCPServerEntries of the group, by name, and its
    /// MCPRemoteProxies, as entries.
    pub entries: Vec<Arc<MCPServerEntry>>,
    /// The backends of other namespaces.
    pub cross_namespace: CrossNamespaceBackends,
    /// The named MCPAuthzConfig, if it exists.
    pub authz: Option<Arc<MCPAuthzConfig>>,
    /// The text of the ConfigMap with its policies.
    pub authz_file: Option<String>,
    /// The MCPExternalAuthConfigs of the namespace, by name.
    pub auth_configs: BTreeMap<String, Arc<MCPExternalAuthConfig>>,
    /// Backends with credentials whose Service does not exist, or belongs to another owner.
    pub without_service: BTreeSet<String>,
    /// The MCPToolConfigs that backends use, by name.
    pub tool_configs: BTreeMap<String, Arc<MCPToolConfig>>,
    /// The MCPWebhookConfigs that the server and its backends use, by name.
    pub webhook_configs: BTreeMap<String, Arc<MCPWebhookConfig>>,
    /// The VirtualMCPCompositeToolDefinitions that it refers to, by name.
    pub composite_tools: BTreeMap<String, Arc<VirtualMCPCompositeToolDefinition>>,
    /// The named MCPTelemetryConfig, if it exists.
    pub telemetry: Option<Arc<MCPTelemetryConfig>>,
    /// The certificates that it refers to.
    pub telemetry_certificates: CaBundle,
    /// The named MCPOIDCConfig, if it exists.
    pub oidc: Option<Arc<MCPOIDCConfig>>,
    /// Issuer and keys of ServiceAccount tokens, if it takes those of the cluster.
    pub cluster_issuer: ClusterIssuerState,
    /// The certificates that it refers to.
    pub oidc_certificates: CaBundle,
    /// The certificates that its decision point refers to.
    pub decision_point_certificates: CaBundle,
    /// The certificates that entries refer to, by name of the entry.
    pub entry_ca_bundles: BTreeMap<String, CaBundle>,
    /// The named or managed EmbeddingServer, if it exists.
    pub embedding_server: Option<Arc<EmbeddingServer>>,
    /// The values of Secrets, as far as they exist.
    pub secrets: ReferencedSecrets,
    /// The values that the operator generated.
    pub generated: GeneratedValues,
    /// The last good configuration, if there is one.
    pub mounted: Option<MountedConfiguration>,
    /// Resources in that configuration that are malformed now, by kind and name.
    pub malformed: Vec<String>,
}

/// Values that the operator generates once and keeps in the server's Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GeneratedValues {
    /// The bearer token of the admin port.
    pub admin_token: Vec<u8>,
    /// The key that seals session ids.
    pub session_key: Vec<u8>,
    /// The bearer token of `/metrics`, if the resource wants one.
    pub metrics_token: Option<Vec<u8>>,
    /// The trusted definitions of tools, joined from the reports of pods; `None` before the first report.
    pub trusted_tools: Option<Vec<u8>>,
}

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

/// Returns the name of the MCPExternalAuthConfig of each backend that has one, by name of the backend. A
/// backend of another namespace gets the credentials that an entry names for it, and no others: neither its
/// own, which are of its namespace, nor the default. A backend that clients added gets its own alone: clients
/// choose its URL.
pub(super) fn auth_configs_of(
    server: &VirtualMCPServer,
    references: &References,
) -> BTreeMap<String, String> {
    let outgoing = server.spec.outgoing_auth.clone().unwrap_or_default();
    let own = |reference: Option<&LocalReference>| reference.map(|reference| reference.name.clone());
    let servers = references.servers.iter().map(|server| {
        let is_added = adder::<MCPServer>(server).is_some();
        (server.name_any(), own(server.spec.external_auth_config_ref.as_ref()), is_added)
    });
    let entries = references.entries.iter().map(|entry| {
        let is_added = adder::<MCPServerEntry>(entry).is_some();
        (entry.name_any(), own(entry.spec.external_auth_config_ref.as_ref()), is_added)
    });
    let resolve = |(name, own, is_added): (String, Option<String>, bool)| {
        let config = if is_added { own? } else { outgoing.resolve(&name, own.as_deref())?.to_owned() };
        Some((name, config))
    };
    let granted = references.cross_namespace.backends.keys().filter_map(|name| {
        let entry = outgoing
            .backends
            .get(name)
            .filter(|entry| entry.kind == BackendAuthType::ExternalAuthConfigRef)?;
        Some((name.clone(), entry.external_auth_config_ref.as_ref()?.name.clone()))
    });
    // Of several backends with one name the first one is called: the credentials of another one are not for
    // its URL.
    let mut seen = BTreeSet::new();
    let called = servers.chain(entries).filter(|(name, ..)| seen.insert(name.clone()));
    called.filter_map(resolve).chain(granted).collect()
}

/// Returns the name of the MCPToolConfig of each backend that has one in this namespace, by name of the
/// backend: from the server's own settings, else from the backend.
pub(super) fn tool_configs_of(
    server: &VirtualMCPServer,
    references: &References,
) -> BTreeMap<String, String> {
    let own = |reference: Option<&LocalReference>| reference.map(|reference| reference.name.clone());
    let servers = references.servers.iter();
    let servers = servers.map(|server| (server.name_any(), own(server.spec.tool_config_ref.as_ref())));
    let entries = references.entries.iter();
    let entries = entries.map(|entry| (entry.name_any(), own(entry.spec.tool_config_ref.as_ref())));
    let rules = server.spec.config.as_ref().and_then(|config| config.aggregation.get("tools")?.as_array());
    let given = |backend: &str| {
        let of_backend = |rule: &&Value| rule.get("workload").and_then(Value::as_str) == Some(backend);
        rules?.iter().find(of_backend)?.pointer("/toolConfigRef/name")?.as_str().map(str::to_owned)
    };
    let resolve = |(name, own): (String, Option<String>)| {
        let config = given(&name).or(own)?;
        Some((name, config))
    };
    let granted = references.cross_namespace.backends.keys().map(|name| (name.clone(), None));
    // As credentials are: of several backends with one name, the first one's.
    let mut seen = BTreeSet::new();
    let called = servers.chain(entries).chain(granted).filter(|(name, _)| seen.insert(name.clone()));
    called.filter_map(resolve).collect()
}

/// Returns each reference to an MCPWebhookConfig, by its name and scope: the server's own, and those of its
/// backends. A shared one comes twice, because services are told other names of tools.
pub(super) fn webhook_configs_of(
    server: &VirtualMCPServer,
    references: &References,
) -> Vec<(String, WebhookScope)> {
    let mut of_backends: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for backend in &references.servers {
        if let Some(reference) = &backend.spec.webhook_config_ref {
            of_backends.entry(&reference.name).or_default().push(backend.name_any());
        }
    }
    let own = server.spec.webhook_config_ref.iter();
    let own = own.map(|reference| (reference.name.clone(), WebhookScope::All));
    let of_backends = of_backends.into_iter();
    own.chain(of_backends.map(|(name, backends)| (name.to_owned(), WebhookScope::Backends(backends))))
        .collect()
}

/// Path of the reference to the certificates of the decision point.
const DECISION_POINT_BUNDLE_PATH: &str = "spec.incomingAuth.decisionPoint.caBundleRef";

/// Returns the reference to the certificates of the decision point.
fn decision_point_bundle(server: &VirtualMCPServer) -> Option<CaBundleReference> {
    IncomingAuth::from_block(&server.spec.incoming_auth)?.decision_point?.ca_bundle_ref
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

/// Returns the names of the VirtualMCPCompositeToolDefinitions in `spec.config.compositeToolRefs`, in order.
pub(super) fn composite_tool_refs_of(server: &VirtualMCPServer) -> impl Iterator<Item = &str> {
    let config = server.spec.config.iter();
    config.flat_map(|config| &config.composite_tool_refs).map(|reference| reference.name.as_str())
}

/// Returns the name of the MCPOIDCConfig.
pub(super) fn oidc_config_of(server: &VirtualMCPServer) -> Option<&str> {
    server.spec.incoming_auth.get("oidcConfigRef")?.get("name")?.as_str()
}

/// Returns the name of the EmbeddingServer: the named one, else that of the managed one.
pub(super) fn embedding_server_of(server: &VirtualMCPServer) -> String {
    match &server.spec.embedding_server_ref {
        Some(reference) => reference.name.clone(),
        None => names::embedding_server(server.metadata.name.as_deref().unwrap_or_default()),
    }
}

/// Returns all Secrets that the server, its clients' keys, its decision point, its store, its identity
/// provider, its console, its telemetry settings, its webhooks or its entries refer to.
fn secrets_of(server: &VirtualMCPServer, references: &References) -> Vec<SecretKeyReference> {
    let embeddings = server.spec.optimizer.as_ref().and_then(|optimizer| optimizer.embeddings.as_ref());
    let tei = embeddings.and_then(|embeddings| embeddings.tei.as_ref());
    let openai = embeddings.and_then(|embeddings| embeddings.openai.as_ref());
    let telemetry =
        references.telemetry.as_ref().and_then(|telemetry| telemetry.spec.open_telemetry.as_ref());
    let headers = [
        tei.map(|tei| &tei.sensitive_headers),
        openai.map(|openai| &openai.sensitive_headers),
        telemetry.map(|telemetry| &telemetry.sensitive_headers),
    ];
    let of_headers = headers.into_iter().flatten().flatten().map(|header| header.secret_key_ref.clone());
    let llm = server.spec.optimizer.as_ref().and_then(|optimizer| optimizer.llm.as_ref());
    let keys_of_services = [
        openai.and_then(|openai| openai.api_key_secret_ref.clone()),
        llm.and_then(|llm| llm.api_key_secret_ref.clone()),
        server.spec.openai_key_of_pods(),
    ];
    let of_entries = references.entries.iter().flat_map(|entry| mcp_server_entry::secret_references(entry));
    let incoming = IncomingAuth::from_block(&server.spec.incoming_auth).unwrap_or_default();
    let of_clients = incoming.secret_references();
    let of_issuer = references.oidc.as_ref().and_then(|config| config.spec.secret_reference().cloned());
    let of_auth = references.auth_configs.values().flat_map(|config| config.spec.secret_references());
    let of_webhooks = references.webhook_configs.values().flat_map(|config| config.spec.secret_references());
    let auth_server = server.spec.auth_server_config.as_ref();
    let of_auth_server = auth_server.into_iter().flat_map(AuthServerConfig::secret_references);
    let of_console = server.spec.console.iter().flat_map(Console::secret_references);
    let storage = server.spec.session_storage.as_ref().and_then(|storage| storage.password_ref.clone());
    of_headers
        .chain(keys_of_services.into_iter().flatten())
        .chain(storage)
        .chain(of_entries)
        .chain(of_clients)
        .chain(of_issuer)
        .chain(of_auth)
        .chain(of_webhooks)
        .chain(of_auth_server)
        .chain(of_console)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(yaml: &str) -> VirtualMCPServer {
        serde_saphyr::from_str(yaml).expect("a VirtualMCPServer")
    }

    #[test]
    fn every_secret_that_is_named_is_read() {
        let server = server(
            "metadata: {name: x}\nspec: {incomingAuth: {type: anonymous, decisionPoint: {url: 'https://p', hmacSecretRef: \
             {name: pdp, key: k}}}, sessionStorage: {provider: redis, address: 'r:1', passwordRef: {name: store, key: k}},
             optimizer: {enabled: true, embeddings: {provider: openai, openai: {endpoint: 'https://e',
             apiKeySecretRef: {name: key, key: k}, sensitiveHeaders: [{name: X, secretKeyRef: {name: header, key: k}}]}},
             llm: {model: m, apiKeySecretRef: {name: llm, key: k}}}, console: {viewerTokenSecretRefs: [{name: viewers, key: k}]}}",
        );
        let entry: MCPServerEntry = serde_saphyr::from_str(
            "metadata: {name: e}\nspec: {remoteUrl: 'https://e', headerForward: {addHeadersFromSecret: [{headerName: A, \
             valueSecretRef: {name: entry, key: k}}]}}",
        )
        .expect("an entry");
        let oidc: MCPOIDCConfig = serde_saphyr::from_str(
            "metadata: {name: o}\nspec: {type: inline, inline: {issuer: 'https://i', introspectionUrl: 'https://i/t', \
             clientId: vmcp, clientSecretRef: {name: issuer, key: k}}}",
        )
        .expect("an issuer");
        let (entries, oidc) = (vec![Arc::new(entry)], Some(Arc::new(oidc)));
        let references = References { entries, oidc, ..References::default() };
        let names: Vec<_> =
            secrets_of(&server, &references).into_iter().map(|reference| reference.name).collect();
        assert_eq!(names, ["header", "key", "llm", "store", "entry", "pdp", "issuer", "viewers"]);
    }
}
