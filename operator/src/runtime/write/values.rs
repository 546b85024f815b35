//! Reads of values of Secrets and ConfigMaps: from the cache, or once from the API server for each version.

use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::ObjectMeta;

use super::{CallError, Verb};
use crate::runtime::context::Context;
use crate::runtime::watch::{ObjectData, ValueCache};

impl Context {
    /// Returns the data of a Secret; `None` if there is no Secret of that name.
    pub(crate) async fn secret(&self, namespace: &str, name: &str) -> Result<Option<ObjectData>, CallError> {
        let key = (namespace.to_owned(), name.to_owned());
        let meta = self.resources.secrets.get(namespace, name);
        if let Some(known) = cached(&self.secret_cache, &key, meta.as_ref().map(|found| &found.metadata)) {
            return Ok(known);
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let Some(secret) = self.call(Verb::Get, "Secret", name, api.get_opt(name)).await? else {
            return Ok(None);
        };
        let data = Arc::new(secret.data.unwrap_or_default());
        remember(&self.secret_cache, key, secret.metadata, &data);
        Ok(Some(data))
    }

    /// Returns the texts of a ConfigMap; `None` if there is no ConfigMap of that name.
    pub(crate) async fn config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ObjectData>, CallError> {
        let key = (namespace.to_owned(), name.to_owned());
        let meta = self.resources.config_maps.get(namespace, name);
        if let Some(known) = cached(&self.config_map_cache, &key, meta.as_ref().map(|found| &found.metadata))
        {
            return Ok(known);
        }
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let Some(map) = self.call(Verb::Get, "ConfigMap", name, api.get_opt(name)).await? else {
            return Ok(None);
        };
        let texts = map.data.unwrap_or_default().into_iter();
        let data = Arc::new(texts.map(|(key, text)| (key, ByteString(text.into_bytes()))).collect());
        remember(&self.config_map_cache, key, map.metadata, &data);
        Ok(Some(data))
    }
}

/// Returns what is known of an object that the watch has seen so; `None` if it has to be read.
#[expect(clippy::option_option, reason = "known to be absent is not unknown")]
fn cached(
    cache: &ValueCache,
    key: &(String, String),
    meta: Option<&ObjectMeta>,
) -> Option<Option<ObjectData>> {
    let Some(meta) = meta else {
        cache.remove(key);
        return Some(None);
    };
    let version = meta.resource_version.as_deref().unwrap_or_default();
    cache.get(key, version, Instant::now()).map(Some)
}

/// Stores the data under the version that was read, which may be newer than the one that the watch has seen.
fn remember(cache: &ValueCache, key: (String, String), meta: ObjectMeta, data: &ObjectData) {
    cache.insert(key, meta.resource_version.unwrap_or_default(), data.clone(), Instant::now());
}
