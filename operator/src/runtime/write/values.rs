//! Reads of values of Secrets and ConfigMaps: from the cache, or once from the API server for each version.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;

use super::{CallError, Verb};
use crate::runtime::context::Context;
use crate::runtime::watch::{ObjectData, ValueCache};

/// The values of an object, with the version of the object that has them.
type VersionedValues = (String, BTreeMap<String, ByteString>);

impl Context {
    /// Returns the data of a Secret; `None` if it does not exist.
    pub(crate) async fn secret(&self, namespace: &str, name: &str) -> Result<Option<ObjectData>, CallError> {
        let watched = self.resources.secrets.get(namespace, name).map(|meta| version(&meta.metadata));
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let read = async {
            let secret = self.call(Verb::Get, "Secret", name, api.get_opt(name)).await?;
            Ok::<_, CallError>(
                secret.map(|secret| (version(&secret.metadata), secret.data.unwrap_or_default())),
            )
        };
        cached(&self.secret_cache, (namespace, name), watched, read).await
    }

    /// Returns the texts of a ConfigMap; `None` if it does not exist.
    pub(crate) async fn config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ObjectData>, CallError> {
        let watched = self.resources.config_maps.get(namespace, name).map(|meta| version(&meta.metadata));
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let read = async {
            let map = self.call(Verb::Get, "ConfigMap", name, api.get_opt(name)).await?;
            Ok::<_, CallError>(map.map(|map| {
                let texts = map.data.unwrap_or_default().into_iter();
                let texts = texts.map(|(key, text)| (key, ByteString(text.into_bytes())));
                (version(&map.metadata), texts.collect())
            }))
        };
        cached(&self.config_map_cache, (namespace, name), watched, read).await
    }
}

/// Returns the cached values if they have the `watched` version; else `read` brings them, perhaps at a newer
/// version.
async fn cached(
    cache: &ValueCache,
    (namespace, name): (&str, &str),
    watched: Option<String>,
    read: impl Future<Output = Result<Option<VersionedValues>, CallError>> + Send,
) -> Result<Option<ObjectData>, CallError> {
    let key = (namespace.to_owned(), name.to_owned());
    let Some(version) = watched else {
        cache.remove(&key);
        return Ok(None);
    };
    if let Some(data) = cache.get(&key, &version, Instant::now()) {
        return Ok(Some(data));
    }
    let Some((version, data)) = read.await? else { return Ok(None) };
    let data = Arc::new(data);
    cache.insert(key, version, Arc::clone(&data), Instant::now());
    Ok(Some(data))
}

fn version(metadata: &ObjectMeta) -> String {
    metadata.resource_version.clone().unwrap_or_default()
}
