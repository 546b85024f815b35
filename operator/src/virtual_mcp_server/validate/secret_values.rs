//! Checks the Secrets of one optional feature, so that a bad one takes away that feature alone.

use std::collections::BTreeSet;

use vmcp_crds::fields::references::SecretKeyReference;
use vmcp_crds::lower::{EmbeddingService, ReferencedObjects};
use vmcp_crds::virtual_mcp_server::Validated;
use vmcp_crds::{Invalid, Problem};

use super::{ConfigurationRefusal, References};

/// Returns why the Secrets `wanted` of a feature cannot be used: a Secret is missing, or holds a value that
/// would make the whole file invalid. `alone` is the server with this feature as the only feature with
/// Secrets. Returns `None` for a mistake of the resource itself.
pub(super) fn refusal(
    alone: &Validated,
    wanted: Vec<SecretKeyReference>,
    references: &References,
) -> Option<ConfigurationRefusal> {
    if wanted.is_empty() {
        return None;
    }
    if let Some(message) = references.secrets.missing(&alone.namespace, &wanted) {
        return Some(ConfigurationRefusal { reason: "SecretNotFound", message });
    }
    let service = EmbeddingService { endpoint: "http://any".to_owned(), model: None };
    let around = ReferencedObjects { embedding_service: Some(&service), ..ReferencedObjects::default() };
    let lowered = alone.lower(&around).ok()?;
    let Invalid(problems) = lowered.check_values(|reference| references.secrets.get(reference)).err()?;
    let names: BTreeSet<_> = wanted.into_iter().map(|reference| reference.name).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let why = problems.first().map_or("", |problem: &Problem| problem.message.as_str());
    let message =
        format!("a value in the Secret {names} cannot be used: {why}; store it as one line of text");
    Some(ConfigurationRefusal { reason: "SecretInvalid", message })
}
