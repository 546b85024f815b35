//! The dereference step of an EmbeddingServer: reads the value of the Secret with the HuggingFace token,
//! and the key of its digest.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use vmcp_crds::EmbeddingServer;
use vmcp_crds::fields::references::SecretKeyReference;

use super::names::digest_secret_name;
use crate::references::{DereferenceError, ReferencedSecrets, digest_key, provider_classes};
use crate::runtime::Context;

/// Everything that a server refers to.
#[derive(Debug, Default)]
pub(super) struct References {
    /// The values of Secrets, as far as they exist.
    pub secrets: ReferencedSecrets,
    /// The key of their digest, generated once; `None` if the server refers to none.
    pub digest_key: Option<Vec<u8>>,
}

/// Reads the Secrets that the server refers to.
pub(super) async fn dereference(
    server: &EmbeddingServer,
    context: &Context,
) -> Result<References, DereferenceError> {
    let (namespace, name) = (server.namespace().unwrap_or_default(), server.name_any());
    let wanted = secret_references(server);
    let secrets = ReferencedSecrets::read(context, &namespace, &wanted).await?;
    let digest_key = if wanted.is_empty() {
        None
    } else {
        Some(digest_key(context, server, &digest_secret_name(&name)).await?)
    };
    Ok(References { secrets, digest_key })
}

/// Returns the Secrets that the server refers to.
pub(super) fn secret_references(server: &EmbeddingServer) -> Vec<SecretKeyReference> {
    server.spec.hf_token_secret_ref.iter().cloned().collect()
}

/// Returns the SecretProviderClasses that the pods mount: their driver makes Secrets.
pub(super) fn mounted_classes(server: &EmbeddingServer) -> BTreeSet<String> {
    provider_classes(&server.spec.pod_template_spec, &[], &[])
}
