//! Step 1: what the resource refers to, as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use vmcp_crds::fields::references::{LocalReference, SecretKeyReference};
use vmcp_crds::lower::{ADMIN_TOKEN, SESSION_KEY};
use vmcp_crds::{EmbeddingServer, MCPServer, MCPServerEntry, MCPTelemetryConfig, VirtualMCPServer};

use super::build::FILE;
use super::last_good::{LastGood, Mounted};
use super::names;
use crate::mcp_server_entry;
use crate::references::Secrets;
use crate::runtime::{self, CallError, Context};

/// Everything that [`validate`](super::validate) may look at besides the resource itself.
#[derive(Debug, Default)]
pub(super) struct References {
    /// Whether the MCPGroup that is named is there.
    pub group_exists: bool,
    /// The MCPServers of the group, by name.
    pub servers: Vec<Arc<MCPServer>>,
    /// The MCPServerEntries of the group, by name.
    pub entries: Vec<Arc<MCPServerEntry>>,
    /// The MCPTelemetryConfig that is named, if it is there.
    pub telemetry: Option<Arc<MCPTelemetryConfig>>,
    /// The EmbeddingServer that is named, or managed, if it is there.
    pub embedding_server: Option<Arc<EmbeddingServer>>,
    /// The Secrets that are named, if they are there.
    pub secrets: Secrets,
    /// What the operator made up once and keeps.
    pub generated: Generated,
    /// The configuration that is mounted from before.
    pub mounted: Option<Mounted>,
    /// What is in that configuration and cannot be read any more, by kind and name.
    pub unreadable: Vec<String>,
}

/// Values that the operator makes up when they are missing, and keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Generated {
    /// The bearer token of the admin port.
    pub admin_token: Vec<u8>,
    /// What seals session ids.
    pub session_key: Vec<u8>,
}

/// Why references cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum DereferenceError {
    /// The API server said no.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The operating system gives none.
    #[error("no random bytes for a new token: {0}")]
    Randomness(getrandom::Error),
}

pub(super) async fn dereference(
    server: &VirtualMCPServer,
    context: &Context,
    last_good: &LastGood,
) -> Result<References, DereferenceError> {
    let mut references = linked(server, context);
    let namespace = server.namespace().unwrap_or_default();
    references.secrets = Secrets::read(context, &namespace, &secrets_of(server, &references)).await?;
    let (uid, name) = (server.uid().unwrap_or_default(), server.name_any());
    let map = context.children.typed::<ConfigMap>(&uid, &names::config_map(&name));
    let secret = context.child(server, &names::secret(&name)).await?;
    let remembered = last_good.of(server);
    let text = match &remembered {
        Some(remembered) => Some(remembered.text.clone()),
        None => map.and_then(|map| map.data?.remove(FILE)),
    };
    references.unreadable = text.as_ref().map(|text| unreadable(server, context, text)).unwrap_or_default();
    references.mounted = remembered.or_else(|| Some(Mounted::new(text?, secret.as_ref()?)));
    let mut kept = runtime::Generated::of(secret);
    let mut value = |key| kept.take(key).map_err(DereferenceError::Randomness);
    references.generated = Generated { admin_token: value(ADMIN_TOKEN)?, session_key: value(SESSION_KEY)? };
    Ok(references)
}

/// Whether a change of this Secret concerns the server.
pub(super) fn refers_to_secret(server: &VirtualMCPServer, context: &Context, secret: &str) -> bool {
    secrets_of(server, &linked(server, context)).iter().any(|reference| reference.name == secret)
}

/// What watches have brought.
fn linked(server: &VirtualMCPServer, context: &Context) -> References {
    let namespace = server.namespace().unwrap_or_default();
    let all = &context.resources;
    let group = group_of(server);
    let member = |of: Option<&LocalReference>, labels: &BTreeMap<String, String>| {
        // Without a group, all backends of the namespace belong.
        (group.is_none() || group == of.map(|group| group.name.as_str())) && selected(server, labels)
    };
    let mut references = References {
        group_exists: group.is_none_or(|group| all.mcp_groups.exists(&namespace, group)),
        servers: all.mcp_servers.list(&namespace),
        entries: all.mcp_server_entries.list(&namespace),
        telemetry: server
            .spec
            .telemetry_config_ref
            .as_ref()
            .and_then(|reference| all.telemetry_configs.get(&namespace, &reference.name)),
        embedding_server: all.embedding_servers.get(&namespace, embedding_server_of(server)),
        ..References::default()
    };
    references.servers.retain(|backend| member(backend.spec.group_ref.as_ref(), backend.labels()));
    references.entries.retain(|backend| member(backend.spec.group_ref.as_ref(), backend.labels()));
    references
}

/// Of what is mounted, the resources that cannot be read any more. Whether they still belong, nobody can tell.
fn unreadable(server: &VirtualMCPServer, context: &Context, mounted: &str) -> Vec<String> {
    let (all, namespace) = (&context.resources, server.namespace().unwrap_or_default());
    let backends = vmcp_crds::lower::backends_of(mounted);
    let telemetry = server.spec.telemetry_config_ref.as_ref().map(|reference| reference.name.as_str());
    let embedding_server = server.spec.embedding_server_ref.as_ref().map(|reference| reference.name.as_str());
    let is = |named: Option<&str>, name: &String| named == Some(name.as_str());
    let of = |kind: &'static str, names: Vec<String>| names.into_iter().map(move |name| (kind, name));
    of("MCPServer", all.mcp_servers.malformed(&namespace))
        .chain(of("MCPServerEntry", all.mcp_server_entries.malformed(&namespace)))
        .filter(|(_, name)| backends.contains(name))
        .chain(
            of("MCPTelemetryConfig", all.telemetry_configs.malformed(&namespace))
                .filter(|(_, name)| is(telemetry, name)),
        )
        .chain(
            of("EmbeddingServer", all.embedding_servers.malformed(&namespace))
                .filter(|(_, name)| is(embedding_server, name)),
        )
        .map(|(kind, name)| format!("{kind} {name}"))
        .collect()
}

/// The MCPGroup that is named.
pub(super) fn group_of(server: &VirtualMCPServer) -> Option<&str> {
    let spec = &server.spec;
    let written_elsewhere = || spec.config.as_ref()?.group_ref.as_deref();
    spec.group_ref.as_ref().map(|group| group.name.as_str()).or_else(written_elsewhere)
}

/// The EmbeddingServer that is named, or the one that is made for this server: that has its name.
pub(super) fn embedding_server_of(server: &VirtualMCPServer) -> &str {
    let named = server.spec.embedding_server_ref.as_ref().map(|reference| reference.name.as_str());
    named.unwrap_or_else(|| server.metadata.name.as_deref().unwrap_or_default())
}

fn selected(server: &VirtualMCPServer, labels: &BTreeMap<String, String>) -> bool {
    let Some(selector) = &server.spec.backend_selector else { return true };
    // A selector that cannot be read selects nothing; `validate` says so.
    kube::core::Selector::try_from(selector.clone())
        .is_ok_and(|selector| kube::core::SelectorExt::matches(&selector, labels))
}

/// All values of Secrets that anything refers to.
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
    let key = openai.and_then(|openai| openai.api_key_secret_ref.clone());
    let of_entries = references.entries.iter().flat_map(|entry| mcp_server_entry::secret_references(entry));
    of_headers.chain(key).chain(of_entries).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(yaml: &str) -> VirtualMCPServer {
        serde_saphyr::from_str(yaml).expect("a VirtualMCPServer")
    }

    #[test]
    fn a_group_is_written_in_one_of_two_places() {
        let with = |spec: &str| server(&format!("metadata: {{name: x}}\nspec: {spec}"));
        assert_eq!(group_of(&with("{groupRef: {name: a}}")), Some("a"));
        assert_eq!(group_of(&with("{config: {groupRef: b}}")), Some("b"));
        assert_eq!(group_of(&with("{}")), None);
    }

    #[test]
    fn labels_select_among_the_members() {
        let server = server("metadata: {name: x}\nspec: {backendSelector: {matchLabels: {stage: prod}}}");
        let labels = |stage: &str| BTreeMap::from([("stage".to_owned(), stage.to_owned())]);
        assert!(selected(&server, &labels("prod")));
        assert!(!selected(&server, &labels("staging")));
    }

    #[test]
    fn every_secret_that_is_named_is_read() {
        let server = server(
            "metadata: {name: x}\nspec: {optimizer: {enabled: true, embeddings: {provider: openai, openai: {endpoint: 'https://e',
             apiKeySecretRef: {name: key, key: k}, sensitiveHeaders: [{name: X, secretKeyRef: {name: header, key: k}}]}}}}",
        );
        let entry: MCPServerEntry = serde_saphyr::from_str(
            "metadata: {name: e}\nspec: {remoteUrl: 'https://e', headerForward: {addHeadersFromSecret: [{headerName: A, \
             valueSecretRef: {name: entry, key: k}}]}}",
        )
        .expect("an entry");
        let references = References { entries: vec![Arc::new(entry)], ..References::default() };
        let names: Vec<_> =
            secrets_of(&server, &references).into_iter().map(|reference| reference.name).collect();
        assert_eq!(names, ["header", "key", "entry"]);
    }
}
