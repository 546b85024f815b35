//! Reads of values of Secrets and ConfigMaps: from the cache, or once from the API server for each version.

use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;

use super::{CallError, Verb};
use crate::runtime::context::Context;
use crate::runtime::watch::ObjectData;

impl Context {
    /// Returns the data of a Secret; `None` if it does not exist.
    pub(crate) async fn secret(&self, namespace: &str, name: &str) -> Result<Option<ObjectData>, CallError> {
        let key = (namespace.to_owned(), name.to_owned());
        let Some(meta) = self.resources.secrets.get(namespace, name) else {
            self.secret_cache.remove(&key);
            return Ok(None);
        };
        let version = meta.metadata.resource_version.clone().unwrap_or_default();
        if let Some(data) = self.secret_cache.get(&key, &version, Instant::now()) {
            return Ok(Some(data));
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let Some(secret) = self.call(Verb::Get, "Secret", name, api.get_opt(name)).await? else {
            return Ok(None);
        };
        // The version of this read, which may be newer than the version of the watch.
        let version = secret.metadata.resource_version.unwrap_or_default();
        let data = Arc::new(secret.data.unwrap_or_default());
        self.secret_cache.insert(key, version, data.clone(), Instant::now());
        Ok(Some(data))
    }

    /// Returns the texts of a ConfigMap; `None` if it does not exist.
    pub(crate) async fn config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ObjectData>, CallError> {
        let key = (namespace.to_owned(), name.to_owned());
        let Some(meta) = self.resources.config_maps.get(namespace, name) else {
            self.config_map_cache.remove(&key);
            return Ok(None);
        };
        let version = meta.metadata.resource_version.clone().unwrap_or_default();
        if let Some(data) = self.config_map_cache.get(&key, &version, Instant::now()) {
            return Ok(Some(data));
        }
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let Some(map) = self.call(Verb::Get, "ConfigMap", name, api.get_opt(name)).await? else {
            return Ok(None);
        };
        let version = map.metadata.resource_version.unwrap_or_default();
        let texts = map.data.unwrap_or_default().into_iter();
        let data = Arc::new(texts.map(|(key, text)| (key, ByteString(text.into_bytes()))).collect());
        self.config_map_cache.insert(key, version, ObjectData::clone(&data), Instant::now());
        Ok(Some(data))
    }
}
