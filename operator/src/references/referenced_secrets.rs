//! Values of Secrets that a resource refers to: reading them, naming the missing ones with the remedy, and a
//! digest for rollouts.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::PartialObjectMeta;
use vmcp_crds::fields::references::SecretKeyReference;

use super::concerned;
use crate::runtime::{CallError, Change, Context, CustomResource, ObjectData, PartsDigest, ResourceStore};

/// The most bytes of values in a Secret that the operator makes: the API server takes 1 MiB, of which 8 KiB
/// are left for generated ones.
pub(crate) const MAX_SECRET_BYTES: usize = (1 << 20) - (8 << 10);

/// The data of the Secrets that a resource refers to, as far as they exist, by name.
#[derive(Debug, Default, Clone)]
pub(crate) struct ReferencedSecrets(BTreeMap<String, ObjectData>);

impl ReferencedSecrets {
    /// Reads every Secret that is referred to.
    pub(crate) async fn read(
        context: &Context,
        namespace: &str,
        references: &[SecretKeyReference],
    ) -> Result<Self, CallError> {
        let mut secrets = BTreeMap::new();
        for name in references.iter().map(|reference| &reference.name).collect::<BTreeSet<_>>() {
            if let Some(data) = context.secret(namespace, name).await? {
                secrets.insert(name.clone(), data);
            }
        }
        Ok(Self(secrets))
    }

    /// Returns the value of a reference.
    pub(crate) fn get(&self, reference: &SecretKeyReference) -> Option<&[u8]> {
        Some(self.0.get(&reference.name)?.get(&reference.key)?.0.as_slice())
    }

    /// Returns which values are missing and the command that creates each; `None` if all exist.
    pub(crate) fn missing(&self, namespace: &str, references: &[SecretKeyReference]) -> Option<String> {
        let missing: Vec<_> = references
            .iter()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .filter(|reference| self.get(reference).is_none())
            .map(|SecretKeyReference { name, key }| {
                if self.0.contains_key(name) {
                    return format!("the Secret {name} has no key `{key}`; add it, or correct the reference");
                }
                let command =
                    format!("kubectl create secret generic {name} -n {namespace} --from-literal={key}=…");
                format!("there is no Secret {name}; `{command}` creates it")
            })
            .collect();
        (!missing.is_empty()).then(|| missing.join(" | "))
    }

    /// Returns the missing values of a resource whose pods may bring them: the driver of a mounted
    /// SecretProviderClass makes Secrets. `None` if all exist, or the pods mount no such class.
    pub(crate) fn awaited(
        &self,
        namespace: &str,
        references: &[SecretKeyReference],
        classes: &BTreeSet<String>,
    ) -> Option<String> {
        let missing = self.missing(namespace, references).filter(|_| !classes.is_empty())?;
        let classes = joined(classes);
        Some(format!(
            "{missing} | the pods mount the SecretProviderClass {classes}, whose driver makes the Secrets that its \
             `secretObjects` list"
        ))
    }

    /// Returns the missing values that are read before any pod exists. Values of a SecretProviderClass that
    /// the pods mount would never come: the message has the way out.
    pub(crate) fn missing_before_pods(
        &self,
        namespace: &str,
        references: &[SecretKeyReference],
        classes: &BTreeSet<String>,
    ) -> Option<String> {
        let missing = self.missing(namespace, references)?;
        if classes.is_empty() {
            return Some(missing);
        }
        let classes = joined(classes);
        Some(format!(
            "{missing} | these values are read before the pods exist: let another pod mount the SecretProviderClass \
             {classes} if its `secretObjects` list the Secret"
        ))
    }

    /// Returns the digest for the annotation of pods. While a value is missing that the pods bring,
    /// `running`, the digest in the annotation so far, stays: the value that comes back is mostly the same.
    pub(crate) fn digest_of_pods(
        &self,
        references: &[SecretKeyReference],
        key: &[u8],
        running: Option<String>,
    ) -> String {
        let is_complete = references.iter().all(|reference| self.get(reference).is_some());
        running.filter(|_| !is_complete).unwrap_or_else(|| self.digest(references, key))
    }

    /// Returns a digest that changes with any of the values: the first 8 bytes of a SHA-256, in hex. `key` is
    /// secret: without a key, readers of pods could test guesses of a value against the digest.
    fn digest(&self, references: &[SecretKeyReference], key: &[u8]) -> String {
        let mut digest = PartsDigest::keyed(key);
        for reference in references.iter().collect::<BTreeSet<_>>() {
            digest.add(reference.name.as_bytes());
            digest.add(reference.key.as_bytes());
            digest.add(self.get(reference).unwrap_or_default());
        }
        digest.finish()
    }

    /// Makes Secrets from (name, key, value).
    #[cfg(test)]
    pub(crate) fn from_values(values: &[(&str, &str, &str)]) -> Self {
        let mut found: BTreeMap<String, BTreeMap<String, k8s_openapi::ByteString>> = BTreeMap::new();
        for (name, key, value) in values {
            let value = k8s_openapi::ByteString(value.as_bytes().to_vec());
            found.entry((*name).to_owned()).or_default().insert((*key).to_owned(), value);
        }
        Self(found.into_iter().map(|(name, data)| (name, std::sync::Arc::new(data))).collect())
    }
}

fn joined(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Returns the resources (namespace, name) of a kind that refer to a Secret which changed.
pub(crate) fn users_of<K: CustomResource>(
    change: &Change<PartialObjectMeta<k8s_openapi::api::core::v1::Secret>>,
    kind: &ResourceStore<K>,
    references: fn(&K) -> Vec<SecretKeyReference>,
) -> Vec<(String, String)> {
    concerned(change, kind, |user, name| references(user).iter().any(|reference| reference.name == name))
}
