//! The dereference step of an EmbeddingServer: reads the value of the Secret with the HuggingFace token.

use kube::ResourceExt as _;
use vmcp_crds::EmbeddingServer;
use vmcp_crds::fields::references::SecretKeyReference;

use crate::references::ReferencedSecrets;
use crate::runtime::{CallError, Context};

/// Reads the Secrets that the server refers to.
pub(super) async fn dereference(
    server: &EmbeddingServer,
    context: &Context,
) -> Result<ReferencedSecrets, CallError> {
    let namespace = server.namespace().unwrap_or_default();
    ReferencedSecrets::read(context, &namespace, &secret_references(server)).await
}

/// Returns the Secrets that the server refers to.
pub(super) fn secret_references(server: &EmbeddingServer) -> Vec<SecretKeyReference> {
    server.spec.hf_token_secret_ref.iter().cloned().collect()
}
