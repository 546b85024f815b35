//! Step 1 of a reconcile, dereference: the values of Secrets that the headers refer to, the certificates of a
//! private authority, and whether the group exists.

use kube::ResourceExt as _;
use vmcp_crds::MCPServerEntry;
use vmcp_crds::fields::references::SecretKeyReference;

use crate::references::{CaBundle, ReferencedSecrets, group_exists};
use crate::runtime::{CallError, Context};

/// Everything that an entry refers to.
pub(crate) struct References {
    /// The values of Secrets, as far as they exist.
    pub secrets: ReferencedSecrets,
    /// The certificates that the server is trusted by.
    pub ca_bundle: CaBundle,
    /// True if the MCPGroup exists; `None` if none is named.
    pub group_exists: Option<bool>,
}

/// Reads the references of the entry.
pub(crate) async fn dereference(entry: &MCPServerEntry, context: &Context) -> Result<References, CallError> {
    let namespace = entry.namespace().unwrap_or_default();
    Ok(References {
        secrets: ReferencedSecrets::read(context, &namespace, &secret_references(entry)).await?,
        ca_bundle: ca_bundle(entry, context).await?,
        group_exists: group_exists(context, &namespace, entry.spec.group_ref.as_ref()),
    })
}

/// Reads the certificates that the entry refers to.
pub(crate) async fn ca_bundle(entry: &MCPServerEntry, context: &Context) -> Result<CaBundle, CallError> {
    let namespace = entry.namespace().unwrap_or_default();
    CaBundle::read(context, &namespace, entry.spec.ca_bundle_ref.as_ref(), "spec.caBundleRef").await
}

/// Returns the Secrets that the headers refer to.
pub(crate) fn secret_references(entry: &MCPServerEntry) -> Vec<SecretKeyReference> {
    let from_secrets = &entry.spec.header_forward.add_headers_from_secret;
    from_secrets.iter().map(|header| header.value_secret_ref.clone()).collect()
}
