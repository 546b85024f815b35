//! Values of Secrets that resources refer to: read once for each version, noticed by a watch of the metadata alone.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::core::PartialObjectMeta;

use super::{CallError, Context, Verb};

/// The data of one Secret.
pub type SecretData = Arc<BTreeMap<String, ByteString>>;

/// What was read, by (namespace, name), with the version it was read at.
#[derive(Default)]
pub(super) struct SecretCache(Mutex<HashMap<(String, String), (String, SecretData)>>);

impl Context {
    /// The data of a Secret, or nothing when there is none of that name.
    pub async fn secret(&self, namespace: &str, name: &str) -> Result<Option<SecretData>, CallError> {
        let key = (namespace.to_owned(), name.to_owned());
        let Some(meta) = self.resources.secrets.get(namespace, name) else {
            self.secret_cache.0.lock().remove(&key);
            return Ok(None);
        };
        let version = meta.metadata.resource_version.clone().unwrap_or_default();
        if let Some((known, data)) = self.secret_cache.0.lock().get(&key)
            && *known == version
        {
            return Ok(Some(data.clone()));
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let Some(secret) = self.call(Verb::Get, "Secret", name, api.get_opt(name)).await? else {
            return Ok(None);
        };
        let data = Arc::new(secret.data.unwrap_or_default());
        let version = secret.metadata.resource_version.unwrap_or_default();
        self.secret_cache.0.lock().insert(key, (version, data.clone()));
        Ok(Some(data))
    }
}

/// Keeps of a Secret's metadata what is needed to notice a change.
pub(super) fn trim(secret: &mut PartialObjectMeta<Secret>) {
    let meta = &mut secret.metadata;
    (meta.annotations, meta.labels, meta.owner_references) = (None, None, None);
}
