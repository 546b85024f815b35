//! Checks the source of vectors, and finds its address.

use std::collections::BTreeSet;

use vmcp_crds::Invalid;
use vmcp_crds::lower::{EmbeddingService, ReferencedObjects};
use vmcp_crds::virtual_mcp_server::{EmbeddingSource, TeiService, Validated, YamlBlocks};

use super::{ConfigurationRefusal, References};
use crate::embedding_server;
use crate::runtime::BuildSettings;

/// Returns why the source of vectors cannot be used: a Secret that it refers to is missing, or holds a value
/// that would make the whole file invalid. A mistake of the resource itself is none of this.
pub(super) fn unusable(server: &Validated, references: &References) -> Option<ConfigurationRefusal> {
    let optimizer = server.optimizer.as_ref()?;
    let wanted = optimizer.embeddings.secret_references();
    if wanted.is_empty() {
        return None;
    }
    if let Some(message) = references.secrets.missing(&server.namespace, &wanted) {
        return Some(ConfigurationRefusal { reason: "SecretNotFound", message });
    }
    let alone = Validated { telemetry: None, settings: YamlBlocks::default(), ..server.clone() };
    let service = EmbeddingService { endpoint: "http://any".to_owned(), model: None };
    let around = ReferencedObjects { embedding_service: Some(&service), ..ReferencedObjects::default() };
    let lowered = alone.lower(&around).ok()?;
    let Invalid(problems) = lowered.check_values(|reference| references.secrets.get(reference)).err()?;
    let names: BTreeSet<_> = wanted.into_iter().map(|reference| reference.name).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let why = problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
    let message =
        format!("a value in the Secret {names} cannot be used: {why}; store it as one line of text");
    Some(ConfigurationRefusal { reason: "SecretInvalid", message })
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
        TeiService::Managed(spec) => (&server.name, spec.as_ref()),
        TeiService::Referenced(name) => {
            (name, references.embedding_server.as_ref().map_or(&default, |found| &found.spec))
        }
    };
    Some(EmbeddingService {
        endpoint: embedding_server::url(name, &server.namespace, spec.port, &settings.cluster_domain),
        model: Some(spec.model.clone()),
    })
}
