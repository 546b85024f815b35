//! Step 1 of a reconcile, dereference: the values of Secrets that the export headers refer to.

use kube::ResourceExt as _;
use vmcp_crds::MCPTelemetryConfig;
use vmcp_crds::fields::references::SecretKeyReference;

use crate::references::ReferencedSecrets;
use crate::runtime::{CallError, Context};

/// Reads the Secrets that the settings refer to.
pub(super) async fn dereference(
    config: &MCPTelemetryConfig,
    context: &Context,
) -> Result<ReferencedSecrets, CallError> {
    let namespace = config.namespace().unwrap_or_default();
    ReferencedSecrets::read(context, &namespace, &secret_references(config)).await
}

/// Returns the Secrets that the settings refer to.
pub(super) fn secret_references(config: &MCPTelemetryConfig) -> Vec<SecretKeyReference> {
    let headers = config.spec.open_telemetry.iter().flat_map(|export| &export.sensitive_headers);
    headers.map(|header| header.secret_key_ref.clone()).collect()
}
