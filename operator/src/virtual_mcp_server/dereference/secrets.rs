//! Secrets that a VirtualMCPServer refers to. Pure.

use vmcp_crds::VirtualMCPServer;
use vmcp_crds::fields::references::SecretKeyReference;
use vmcp_crds::virtual_mcp_server::{AuthServerConfig, Console, IncomingAuth};

use super::resolved_references::References;
use crate::mcp_server_entry;

/// Returns all Secrets that the server, its clients' keys, its decision point, its store, its identity
/// provider, its console, its telemetry settings, its webhooks or its entries refer to.
pub(super) fn secrets_of(server: &VirtualMCPServer, references: &References) -> Vec<SecretKeyReference> {
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
    use std::sync::Arc;

    use vmcp_crds::{MCPOIDCConfig, MCPServerEntry};

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
