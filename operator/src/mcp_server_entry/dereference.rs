//! Step 1 of a reconcile, dereference: the values of Secrets that the headers refer to, and whether the group
//! exists.

use kube::ResourceExt as _;
use vmcp_crds::MCPServerEntry;
use vmcp_crds::fields::references::SecretKeyReference;

use crate::references::{ReferencedSecrets, group_exists};
use crate::runtime::{CallError, Context};

/// Everything that an entry refers to.
pub(crate) struct References {
    /// The values of Secrets, as far as they exist.
    pub secrets: ReferencedSecrets,
    /// True if the MCPGroup exists; `None` if none is named.
    pub group_exists: Option<bool>,
}

/// Reads the references of the entry.
pub(crate) async fn dereference(entry: &MCPServerEntry, context: &Context) -> Result<References, CallError> {
    let namespace = entry.namespace().unwrap_or_default();
    Ok(References {
        secrets: ReferencedSecrets::read(context, &namespace, &secret_references(entry)).await?,
        group_exists: group_exists(context, &namespace, entry.spec.group_ref.as_ref()),
    })
}

/// Returns the Secrets that the headers refer to.
pub(crate) fn secret_references(entry: &MCPServerEntry) -> Vec<SecretKeyReference> {
    let from_secrets = &entry.spec.header_forward.add_headers_from_secret;
    from_secrets.iter().map(|header| header.value_secret_ref.clone()).collect()
}
