//! Checks the source of vectors, and finds its address.

use vmcp_crds::lower::EmbeddingService;
use vmcp_crds::virtual_mcp_server::{EmbeddingSource, TeiService, Validated, YamlBlocks};

use super::{ConfigurationRefusal, References, secret_values};
use crate::embedding_server;
use crate::runtime::BuildSettings;
use crate::virtual_mcp_server::names;

/// Returns why the Secrets of the source of vectors cannot be used.
pub(super) fn unusable(server: &Validated, references: &References) -> Option<ConfigurationRefusal> {
    let wanted = server.optimizer.as_ref()?.embeddings.secret_references();
    let mut alone =
        Validated { telemetry: None, console: None, settings: YamlBlocks::default(), ..server.clone() };
    if let Some(optimizer) = &mut alone.optimizer {
        optimizer.remove_llm();
    }
    secret_values::refusal(&alone, wanted, references)
}

/// Returns the address of the EmbeddingServer, which follows from its name: it need not exist yet.
pub(super) fn service(
    server: &Validated,
    references: &References,
    settings: &BuildSettings,
) -> Option<EmbeddingService> {
    let EmbeddingSource::Tei { service, .. } = &server.optimizer.as_ref()?.embeddings else { return None };
    let default = vmcp_crds::EmbeddingServerSpec::default();
    let (name, spec) = match service {
        TeiService::Elsewhere => return None,
        TeiService::Managed(spec) => (names::embedding_server(&server.name), spec.as_ref()),
        TeiService::Referenced(name) => {
            let found = references.embedding_server.as_ref();
            (name.clone(), found.map_or(&default, |found| &found.spec))
        }
    };
    Some(EmbeddingService {
        endpoint: embedding_server::url(&name, &server.namespace, spec.port, &settings.cluster_domain),
        model: Some(spec.model.clone()),
    })
}
